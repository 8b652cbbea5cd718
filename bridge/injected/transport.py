"""ipykernel's sockets, threads and streams, which a process puts down before a fork, or its child takes up anew.

The app, the kernel and the shell stay the objects that they are: whoever holds one of them holds the right one. What
is made anew is made by the app's own methods. Works with ipykernel 7, whose private parts some of this is.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import logging
import os
import selectors
import sys
import threading
import uuid
from collections.abc import Iterable
from typing import Any

_PARTS = (
    "session",
    "control_stream",
    "debugpy_stream",
    "debug_shell_socket",
    "shell_stream",
    "control_thread",
    "shell_channel_thread",
    "iopub_thread",
    "iopub_socket",
    "stdin_socket",
)
_PORTS = ("shell_port", "iopub_port", "stdin_port", "control_port", "hb_port")


def unsupported() -> str | None:
    """Why this process can have no other transport than the one it was started with; None when it can."""
    from ipykernel._version import __version__, version_info

    if version_info[0] != 7:
        return f"ipykernel {__version__} is not of the line 7"
    if not hasattr(os, "pidfd_open") or not os.path.isdir("/proc/self/fd"):
        return "the platform has no process descriptors"
    return None


class Transport:
    """What connects one kernel with the world. All of it in the main thread, while no event loop runs."""

    def __init__(self, shell: Any) -> None:
        self.kernel = shell.kernel
        self.app = shell.kernel.parent
        self._shell = shell
        self._history = History(shell)
        self._streams: list[Any] = [
            stream for stream in (sys.stdout, sys.stderr) if hasattr(stream, "_setup_stream_redirects")
        ]
        self._receive: Any = None  # what a message for the main thread is given to
        self._before: set[int] = set()
        self._own_known = True  # of the first transport, which is closed in good order, nothing need be known
        self._own: dict[int, str] = {}  # descriptors of the transport, and what each leads to

    def stop(self) -> None:
        """End the kernel's event loop, from inside it, once what it does at the moment is done."""
        self.app.io_loop.stop()

    def run(self) -> None:
        """Serve the kernel's messages until `stop`, or its shutdown."""
        with contextlib.suppress(KeyboardInterrupt):
            self.app.io_loop.start()

    def close(self) -> None:
        """Put all of it down in good order: no thread and no socket is left, the streams are."""
        streams = sys.stdout, sys.stderr, sys.displayhook
        for loop in self._service_loops():
            _forget_tasks(loop)
        atexit.unregister(self.app.close)
        self.app.close()
        self._history.close()
        sys.stdout, sys.stderr, sys.displayhook = streams

    def know_own(self) -> None:
        """All descriptors that were opened since it was taken up are its own: to be called before the first cell."""
        if self._own_known:
            return
        self._own_known = True
        self._own = {number: link for number, link in _descriptors().items() if number not in self._before}

    def know_pipes(self) -> None:
        """The pipes to the output thread are made when a thread first prints."""
        now = _descriptors()
        for pipe in self.app.iopub_thread._event_pipes.values():
            if not pipe.closed:
                self._own[pipe.FD] = now[pipe.FD]

    def flush(self) -> None:
        """Send what the output streams hold, whatever `sys.stdout` is."""
        for stream in self._streams:
            stream.flush()

    def abandon(self) -> None:
        """Let go of it in a forked child, where its threads are gone, without a word to those it connects."""
        app = self.app
        for loop in self._service_loops():
            _close_loop(loop)
        for context in (app.context, app.heartbeat.context):
            for lost in (context, *context._sockets):
                lost._shadow = True  # none of ours to close, nor to warn of
        stream = app.shell_channel_thread.manager._shell_channel_to_main.to_stream
        self._receive = stream._recv_callback
        # It is registered with the main loop; a call that is still to come would reach for a lost socket.
        stream.socket = None
        self._history.abandon()
        now = _descriptors()
        for number, link in self._own.items():
            if now.get(number) == link:
                with contextlib.suppress(OSError):  # closed with the object that it belonged to
                    os.close(number)
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in (1, 2):
            os.dup2(nothing, number)
        os.close(nothing)

    def _service_loops(self) -> list[Any]:
        """The event loops of ipykernel's own threads."""
        threads = self.app.iopub_thread, self.app.control_thread, self.app.shell_channel_thread
        return [thread.io_loop.asyncio_loop for thread in threads]

    def take_up(self, connection_file: str, output: str) -> None:
        """Make a new one, as the connection file says; `output` takes what the process itself writes."""
        app, kernel = self.app, self.kernel
        log = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for number in (1, 2):
            os.dup2(log, number)
        os.close(log)
        _renew_loop(app.io_loop, self._own.keys())
        asyncio.set_event_loop(app.io_loop.asyncio_loop)
        self._before = set(_descriptors())
        self._own_known = False
        atexit.unregister(app.close)
        if app.iopub_thread is not None:
            atexit.unregister(app.iopub_thread.stop)
        session = app.session
        session.pid, session.session = os.getpid(), str(uuid.uuid4())
        session.message_count, session.digest_history = 0, set()
        app.context = None
        for port in _PORTS:
            setattr(app, port, 0)
        sys.argv[:] = [connection_file if word == app.connection_file else word for word in sys.argv]
        app.connection_file = connection_file
        app.load_connection_file()
        with _same_handlers(logging.getLogger("tornado")):
            app.init_sockets()
        app.init_heartbeat()
        app.log_connection_info()
        self._redirect()
        with _instance(type(kernel), self._rewire):
            app.init_kernel()
        self._history.take_up()
        kernel.start()
        if self._receive is not None:
            # In the context that all cells have run in: what one set of its variables is set in the next.
            inner = app.shell_channel_thread.manager._shell_channel_to_main
            inner.on_recv(app.io_loop, self._receive)

    def _rewire(self, **parts: Any) -> Any:
        """Give the kernel new parts in place of making a new kernel of them."""
        kernel, shell = self.kernel, self._shell
        for name in _PARTS:
            setattr(kernel, name, parts[name])
        kernel._main_asyncio_lock = asyncio.Lock()
        kernel._aborting = False
        for place in (shell.displayhook, shell.display_pub, self.app.displayhook):
            place.pub_socket = kernel.iopub_socket
        old = getattr(kernel, "debugger", None)
        if old is not None:
            kernel.debugger = type(old)(
                kernel.log,
                kernel.debugpy_stream,
                kernel._publish_debug_event,
                kernel.debug_shell_socket,
                kernel.session,
                kernel._kernel_modules,
                kernel.debug_just_my_code,
                kernel.filter_internal_frames,
            )
        return kernel

    def _redirect(self) -> None:
        """Point the output streams to the new thread, and what is written to their descriptors to them."""
        shown = sys.stdout, sys.stderr
        thread = self.app.iopub_thread
        sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
        for stream in self._streams:
            stream.pub_thread, stream._io_loop = thread, thread.io_loop
            stream._master_pid = os.getpid()
            stream._buffer_lock, stream._local = threading.RLock(), threading.local()
            stream._flush_pending = stream._subprocess_flush_pending = False
            stream._should_watch = True
            stream._setup_stream_redirects(stream.name)
        sys.stdout, sys.stderr = shown


class History:
    """IPython's file of what was typed, where it is kept: each process has a connection and a session of its own."""

    def __init__(self, shell: Any) -> None:
        self._manager = shell.history_manager
        self._lost: list[Any] = []  # connections of processes that this one is a fork of: theirs to close

    @property
    def _kept(self) -> bool:
        return bool(self._manager.enabled) and str(self._manager.hist_file) != ":memory:"

    def close(self) -> None:
        """Let go of the file in good order."""
        if self._kept:
            self._manager.end_session()
            self._manager.save_thread.stop()
            self._manager.save_thread = None
            self._manager.db.close()

    def abandon(self) -> None:
        """Let go of the parent's, whose thread is not here."""
        manager = self._manager
        if self._kept:
            self._lost += [manager.db, manager.save_thread]
            manager.save_thread = None

    def take_up(self) -> None:
        """Begin a session of this process's own."""
        from IPython.core.history import HistorySavingThread

        manager = self._manager
        if self._kept:
            manager.db_input_cache_lock, manager.db_output_cache_lock = threading.Lock(), threading.Lock()
            manager.init_db()
            manager.new_session()
            manager.save_thread = HistorySavingThread(manager)
            manager.save_thread.start()


@contextlib.contextmanager
def _instance(cls: Any, made: Any) -> Any:
    """While this lasts, the class's one instance is had from `made`."""
    cls.instance = staticmethod(made)
    try:
        yield
    finally:
        del cls.instance


@contextlib.contextmanager
def _same_handlers(logger: logging.Logger) -> Any:
    handlers = list(logger.handlers)
    try:
        yield
    finally:
        logger.handlers[:] = handlers


def _descriptors() -> dict[int, str]:
    """The open descriptors, and what each leads to."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the one that lists them
            found[int(name)] = os.readlink(f"/proc/self/fd/{name}")
    return found


def _close_loop(loop: Any) -> None:
    """Close what a lost thread's event loop holds. Its own `close` would tell the epoll that the parent uses, too."""
    if not loop.is_closed():
        _forget_tasks(loop)
        _close_selector(loop)
        loop._closed = True


def _forget_tasks(loop: Any) -> None:
    """Let the tasks of a loop that will not run again end without a word."""
    for task in asyncio.all_tasks(loop):
        task._log_destroy_pending = False  # type: ignore[attr-defined]


def _close_selector(loop: Any) -> None:
    poll = getattr(loop._selector, "_selector", None)
    if poll is not None:
        poll.close()
    loop._ssock.close()
    loop._csock.close()


def _renew_loop(io_loop: Any, lost: Iterable[int]) -> None:
    """Give an event loop that does not run a selector of its own; what it watches beside `lost` it goes on watching.

    After a fork the old one's epoll is the parent's as well.
    """
    loop = io_loop.asyncio_loop
    for number in lost:
        io_loop.handlers.pop(number, None)
        io_loop.readers.discard(number)
        io_loop.writers.discard(number)
    watched = [key for key in loop._selector.get_map().values() if key.fd not in lost]
    own = loop._ssock.fileno()
    _close_selector(loop)
    loop._selector = selectors.DefaultSelector()
    loop._internal_fds = 0
    loop._make_self_pipe()
    for key in watched:
        if key.fd != own:
            loop._selector.register(key.fd, key.events, key.data)
