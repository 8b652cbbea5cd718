"""The sockets to the real kernel, beside those that the pool has."""

from __future__ import annotations

import time
from typing import Any

import zmq

from bridge.errors import KernelDied, KernelTimeout
from bridge.pool import KernelProcess
from bridge.pool.wire import BadMessage, Letter

GREET_SECONDS = 30.0
"""Seconds in which a kernel that has started must be heard on iopub."""
STEP_MS = 100
"""Milliseconds after which it is greeted again: a subscription may have come after the first greeting."""


class Inner:
    """A leased kernel as the front end's messages reach it; `close` before its release.

    What is sent begins with the front end's identities, and so does what comes back: the kernel's ROUTER puts ours
    before them and takes it off again. So nothing need be remembered to route an answer.
    """

    def __init__(self, kernel: KernelProcess) -> None:
        self.kernel = kernel
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        endpoints, self.wire = kernel.hand_over()
        self._ours = (kernel.session.encode(), self.wire.session.encode())
        self.sockets = {channel: self._connect(channel, endpoints[channel]) for channel in endpoints}

    def _connect(self, channel: str, endpoint: str) -> zmq.Socket[Any]:
        connected: zmq.Socket[Any] = self.context.socket(zmq.SUB if channel == "iopub" else zmq.DEALER)
        connected.linger = 0
        connected.sndhwm = connected.rcvhwm = 0
        if channel == "iopub":
            connected.subscribe(b"")
        else:
            # Input requests are addressed to the shell's identity, on the stdin channel.
            connected.setsockopt(zmq.IDENTITY, self.wire.session.encode())
        connected.connect(endpoint)
        return connected

    def greet(self) -> None:
        """Return when iopub is heard; KernelDied or KernelTimeout when it is not. Reads all that comes meanwhile."""
        end = time.monotonic() + GREET_SECONDS
        iopub, heard = self.sockets["iopub"], False
        while not heard:
            if not self.kernel.alive:
                raise KernelDied(self.kernel.exit_reason or "the kernel ended")
            if time.monotonic() > end:
                raise KernelTimeout("the kernel's output is not heard")
            greeting = self.wire.letter("kernel_info_request", {})
            self.send("shell", greeting)
            while not heard and iopub.poll(STEP_MS):
                letter = self.receive("iopub")
                heard = (
                    letter is not None
                    and letter.part(1).get("msg_id") == greeting.header["msg_id"]
                    and letter.part(3).get("execution_state") == "idle"
                )
        # Each greeting was answered before its status was published.
        while self.sockets["shell"].poll(0):
            self.receive("shell")

    def send(self, channel: str, letter: Letter) -> None:
        """Send a message as it is, signed for the kernel."""
        self.sockets[channel].send_multipart(self.wire.seal(letter))

    def receive(self, channel: str) -> Letter | None:
        """The next message, None when it is unreadable; zmq.Again when there is none."""
        frames = self.sockets[channel].recv_multipart(zmq.NOBLOCK)
        try:
            return self.wire.open(frames)
        except BadMessage:
            return None

    def is_private(self, letter: Letter) -> bool:
        """Whether a message of iopub is about a request of our own, or the greeting of a subscriber."""
        return any(ours in letter.parts[1] for ours in self._ours) or b'"iopub_welcome"' in letter.parts[0]

    def nudge(self) -> None:
        """Wake the kernel: a cell that awaits meets an interrupt only when its event loop next wakes."""
        self.send("shell", self.wire.letter("kernel_info_request", {}))

    def close(self) -> None:
        """Close the sockets."""
        for connected in self.sockets.values():
            connected.close(linger=0)
        self.context.term()
