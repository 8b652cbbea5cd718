"""The kernel's output: none is dropped, both streams keep their order, late output is its own cell's."""

from __future__ import annotations

import select
import sys
import threading
import time
from typing import Any

from .threads import Leftovers


def drop_nothing(kernel: Any) -> None:
    """Let the kernel's iopub socket hold whatever its reader has not taken yet.

    A PUB socket drops what is beyond 1,000 messages, without an error: output, and the status that ends a cell. zmq
    applies a new limit to connections that exist (ZMQ_SNDHWM, since libzmq 4.2); the socket is the IO thread's alone.
    """
    import zmq

    thread = kernel.iopub_thread
    thread.schedule(lambda: thread.socket.setsockopt(zmq.SNDHWM, 0))


_BEHIND_SECONDS = 1.0
"""Bound of the wait for what children wrote; one that writes on and on is ahead of the kernel all the time."""


def _holds_any(pipe: int) -> bool:
    """Whether there is something to read in a pipe."""
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    return any(event & select.POLLIN for _, event in poll.poll(0))


def _reads_on(thread: threading.Thread, pipe: int) -> bool:
    """Whether a thread does anything but wait for more in the pipe: proc(5), `syscall`."""
    try:
        with open(f"/proc/self/task/{thread.native_id}/syscall", "rb") as file:
            return file.read().split()[1:2] != [b"0x%x" % pipe]
    except OSError:
        return False


def _time_used(thread: threading.Thread) -> float | None:
    """The processor's time that a thread has had, in seconds; None where that cannot be told."""
    if thread.ident is None or not hasattr(time, "pthread_getcpuclockid"):
        return None
    return time.clock_gettime(time.pthread_getcpuclockid(thread.ident))


class Streams:
    """Gives stdout and stderr of one kernel a class of their own, and knows who started which thread."""

    def __init__(self, leftovers: Leftovers) -> None:
        self._leftovers = leftovers
        self._headers: dict[int, Any] = {}  # thread -> header of the message whose cell started it
        self._waiting: dict[int | None, float | None] = {}  # thread -> its time when it was seen to wait
        self._streams = [
            stream for stream in (sys.stdout, sys.stderr) if type(stream).__module__ == "ipykernel.iostream"
        ]

    def remember(self, header: Any) -> None:
        """Threads that nobody knows yet were started by the cell of that header."""
        threads = self._leftovers.threads()
        if not threads and not self._headers:
            return
        alive = {thread.ident for thread in threads}
        self._headers = {ident: known for ident, known in self._headers.items() if ident in alive}
        for ident in alive - self._headers.keys():
            if ident is not None:
                self._headers[ident] = header

    def install(self, *, ordered: bool) -> None:
        """Change the streams' class; `ordered`: what one holds is sent before what is written to the other.

        Then, too, a stream that holds nothing has nothing to flush: ipykernel, which flushes both twice a cell, would
        wait for its IO thread each time.
        """
        last = [self._streams[0]] if self._streams else []
        for stream in self._streams:
            others = [other for other in self._streams if other is not stream] if ordered else []
            stream.__class__ = self._class_for(type(stream), others, last)

    def catch_up(self) -> None:
        """At a cell's end: wait until what its children and C code wrote has become its output.

        ipykernel reads that from a pipe in a thread of its own, and does not wait for it.
        """
        deadline = time.monotonic() + _BEHIND_SECONDS
        for stream in self._streams:
            while self._is_behind(stream) and time.monotonic() < deadline:
                time.sleep(0.0002)  # and the thread has its turn

    def _is_behind(self, stream: Any) -> bool:
        """Whether something that was written to a stream's descriptor is yet to be written to the stream."""
        pipe, thread = getattr(stream, "_fid", None), getattr(stream, "watch_fd_thread", None)
        if pipe is None or thread is None or not thread.is_alive():
            return False
        if _holds_any(pipe):
            return True
        # Its thread may still hold what it read, unless it has not run since it was seen to wait.
        used = _time_used(thread)
        if used is not None and self._waiting.get(thread.native_id) == used:
            return False
        if _reads_on(thread, pipe):
            return True
        self._waiting[thread.native_id] = used
        return False

    def settle(self) -> None:
        """Between cells: let `write` be the class's.

        IPython 9 patches it for the time of a cell and then sets it to what it was; what it was when the helper
        came, in a cell of its own, was not the class's yet.
        """
        for stream in self._streams:
            vars(stream).pop("write", None)

    def _class_for(self, kind: Any, others: list[Any], last: list[Any]) -> Any:
        headers = self._known
        general = kind.parent_header if isinstance(getattr(kind, "parent_header", None), property) else None
        body: dict[str, Any] = {"__module__": kind.__module__, "__doc__": kind.__doc__}

        def write(self: Any, string: str) -> Any:
            if last[0] is not self:
                last[0] = self
                for other in others:
                    if other.pub_thread is not None:
                        # ipykernel sends each stream by its own timer; its thread takes this in the order given.
                        other._flush()
            return kind.write(self, string)

        def flush(self: Any) -> None:
            if getattr(self, "_buffers", True) or self.echo is not None or vars(self).get("_sending"):
                kind.flush(self)

        def send(self: Any) -> None:
            self._sending = True
            try:
                kind._flush(self)
            finally:
                self._sending = False

        def get(self: Any) -> Any:
            return headers().get(threading.get_ident()) or general.fget(self)  # type: ignore[union-attr]

        def put(self: Any, value: Any) -> None:
            general.fset(self, value)  # type: ignore[union-attr]

        if others:
            body.update(write=write, flush=flush, _flush=send)
        if general is not None:  # ipykernel 6.29 asks by itself who started the thread
            body["parent_header"] = property(get, put)
        made = type(kind.__name__, (kind,), body)
        made.__qualname__ = kind.__qualname__
        return made

    def _known(self) -> dict[int, Any]:
        return self._headers
