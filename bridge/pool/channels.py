"""The sockets of one kernel, and the one thread that owns them."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import zmq

from bridge.pool.wire import BadMessage, Frame, Message, Wire

log = logging.getLogger(__name__)

BATCH = 1000
"""Messages read from one socket before the others get their turn."""
POLL_MS = 10_000
"""Bound of the thread's wait in milliseconds; `close` and `kernel_died` end it at once."""
DRAIN_QUIET_MS = 50
"""After a death: milliseconds without a message that mean that all has been read."""
DRAIN_LIMIT = 0.3
"""After a death: seconds that reading may go on while messages come one by one."""


class Handler(Protocol):
    """What waits for the answers to one message; both methods run in the channel thread."""

    def receive(self, channel: str, message: Message) -> bool:
        """Takes one answer; True when no more is wanted."""
        ...

    def lost(self, reason: str) -> None:
        """Says that no more answers will come."""
        ...


class Channels:
    """A kernel's shell, control, stdin and iopub channels.

    One thread polls all of them and hands every message to the handler of its parent message; any thread may
    send. iopub is read without a receive limit: a limit loses output without an error.
    `endpoints` gives the zmq URL of each channel.
    """

    def __init__(
        self, context: zmq.Context[Any], endpoints: Mapping[str, str], wire: Wire, name: str
    ) -> None:
        self.name = name
        self._context = context
        self._endpoints = endpoints
        self._wire = wire
        self._outgoing: deque[tuple[str, list[Frame]]] = deque()
        self._handlers: dict[str, Handler] = {}
        self._lock = threading.Lock()  # guards _handlers against _lost: nobody may register after the end
        self._lost: str | None = None
        self._death: str | None = None
        self._closing = False
        self._inner, self._outer = socket.socketpair()
        self._inner.setblocking(False)
        self._outer.setblocking(False)
        self._signalled = False
        self._thread = threading.Thread(target=self._run, name=f"kernel-{name}", daemon=True)

    def start(self) -> None:
        """Connects and begins to read."""
        self._thread.start()

    def send(
        self,
        channel: str,
        msg_type: str,
        content: Mapping[str, Any],
        *,
        handler: Handler | None = None,
        header: Mapping[str, Any] | None = None,
        parent: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
        buffers: Sequence[Frame] = (),
    ) -> None:
        """Sends one message; its answers go to `handler`, which learns of an end that came before, too."""
        header = header or self._wire.header(msg_type)
        frames = self._wire.frames(header, content, parent=parent, metadata=metadata, buffers=buffers)
        with self._lock:
            lost = self._lost
            if lost is None and handler is not None:
                self._handlers[header["msg_id"]] = handler
        if lost is None:
            self._outgoing.append((channel, frames))
            self._wake()
        elif handler is not None:
            handler.lost(lost)

    def header(self, msg_type: str) -> dict[str, Any]:
        """A new header, for callers that must know the id before they send."""
        return self._wire.header(msg_type)

    def ignore_iopub(self) -> None:
        """Reads nothing of iopub from now on: somebody else listens, and every message costs its parsing."""
        self._outgoing.append(("iopub", []))
        self._wake()

    def forget(self, msg_id: str) -> None:
        """Drops the answers to one message from now on."""
        self._handlers.pop(msg_id, None)

    def kernel_died(self, reason: str) -> None:
        """Tells that the process is gone: what it sent is still handed out, then all handlers are lost."""
        self._death = reason
        self._wake()

    def close(self) -> None:
        """Ends the thread and the sockets; handlers still there are lost. Idempotent, bounded by 2 s."""
        self._closing = True
        self._wake()
        if self._thread.ident is None:
            self._shut("its channels were closed")
        elif self._thread is not threading.current_thread():
            self._thread.join(2.0)
            if self._thread.is_alive():
                log.error("kernel %s: the channel thread does not end; a listener blocks it", self.name)

    @property
    def session(self) -> str:
        """The session id in the headers that are made here."""
        return self._wire.session

    @property
    def awaited(self) -> bool:
        """Whether any answer is still awaited: the kernel is at work for somebody."""
        return bool(self._handlers)

    @property
    def closed(self) -> bool:
        """Whether the thread has ended and with it every socket is closed."""
        return not self._thread.is_alive()

    def _wake(self) -> None:
        # The flag saves the system call when the thread has not yet seen the last one. It is lowered before
        # the queue is read, so a message queued after that raises it again.
        if not self._signalled:
            self._signalled = True
            try:
                self._outer.send(b"!")
            except OSError:
                log.debug("kernel %s: nobody left to wake", self.name)  # closed meanwhile: nothing to send to

    # Below: the channel thread alone.

    def _run(self) -> None:
        reason = "its channels failed"
        sockets: dict[str, zmq.Socket[Any]] = {}
        try:
            sockets = {channel: self._connect(channel) for channel in self._endpoints}
            reason = self._serve(sockets)
        except Exception:  # whatever it was, those who wait must hear of the end
            log.exception("kernel %s: the channel thread failed", self.name)
        finally:
            for connected in sockets.values():
                connected.close(linger=0)
            self._shut(reason)

    def _connect(self, channel: str) -> zmq.Socket[Any]:
        connected: zmq.Socket[Any] = self._context.socket(zmq.SUB if channel == "iopub" else zmq.DEALER)
        connected.linger = 0
        connected.sndhwm = 0
        connected.rcvhwm = 0
        # The kernel binds a while after we connect; at the default of 100 ms each start waited for that long.
        connected.reconnect_ivl = 10
        if channel == "iopub":
            connected.subscribe(b"")
        else:
            # Input requests are addressed to the shell's identity, on the stdin channel.
            connected.setsockopt(zmq.IDENTITY, self._wire.session.encode("ascii"))
        connected.connect(self._endpoints[channel])
        return connected

    def _serve(self, sockets: Mapping[str, zmq.Socket[Any]]) -> str:
        """Reads and sends until closed or the kernel died; gives the reason."""
        poller = zmq.Poller()
        poller.register(self._inner, zmq.POLLIN)
        names: dict[Any, str] = {}
        for channel, connected in sockets.items():
            poller.register(connected, zmq.POLLIN)
            names[connected] = channel
        while not self._closing:
            for ready, _ in poller.poll(POLL_MS):
                if ready in names:
                    self._read(ready, names[ready])
                else:
                    self._inner.recv(64)
                    self._signalled = False
            self._flush(sockets)
            if self._death is not None:
                self._drain(sockets)
                return self._death
        return "its channels were closed"

    def _flush(self, sockets: Mapping[str, zmq.Socket[Any]]) -> None:
        """Sends what is queued."""
        while self._outgoing:
            channel, frames = self._outgoing.popleft()
            if not frames:
                sockets[channel].unsubscribe(b"")
                continue
            # Copied: pyzmq's zero-copy send starts a thread with a context of its own that nobody ends.
            sockets[channel].send_multipart(frames)

    def _read(self, connected: zmq.Socket[Any], channel: str) -> int:
        """Hands out what has come on one channel, up to a batch; gives how many messages."""
        for count in range(BATCH):
            try:
                frames = connected.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return count
            try:
                message = self._wire.message(frames)
            except BadMessage as error:
                log.warning("kernel %s: unreadable message on %s: %s", self.name, channel, error)
                continue
            self._hand_out(channel, message)
        return BATCH

    def _hand_out(self, channel: str, message: Message) -> None:
        parent = message["parent_header"].get("msg_id")
        handler = self._handlers.get(parent)
        if handler is None:
            log.debug("kernel %s: %s on %s is awaited by nobody", self.name, message["msg_type"], channel)
        elif handler.receive(channel, message):
            self.forget(parent)

    def _drain(self, sockets: Mapping[str, zmq.Socket[Any]]) -> None:
        """Reads what a dead kernel still sent: it sits in the sockets' buffers or on its way there."""
        poller = zmq.Poller()
        for connected in sockets.values():
            poller.register(connected, zmq.POLLIN)
        names = {connected: channel for channel, connected in sockets.items()}
        limit = time.monotonic() + DRAIN_LIMIT
        while ready := poller.poll(DRAIN_QUIET_MS):
            for connected, _ in ready:
                read = self._read(connected, names[connected])
                if read == BATCH:
                    limit = time.monotonic() + DRAIN_LIMIT  # a backlog: the bound is its length
            if time.monotonic() > limit:
                break

    def _shut(self, reason: str) -> None:
        with self._lock:
            self._lost = reason
            handlers, self._handlers = list(self._handlers.values()), {}
        for handler in handlers:
            handler.lost(reason)
        self._inner.close()
        self._outer.close()
