"""What waits for the answers to one message that was sent to a kernel."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from bridge.pool.begin_marks import Mark
from bridge.pool.moment import moment
from bridge.pool.wire import Message

log = logging.getLogger(__name__)

END_OF_FILE = "\x04"
"""The input_reply value that makes `input()` raise EOFError (ipykernel, `Kernel._input_request`)."""

OnIopub = Callable[[Message], None]
OnInput = Callable[[str, bool], "str | None"]
Answer = Callable[[Message, str], None]


class Execution:
    """One execute_request under way, or any other request that ends with a reply and an idle status.

    `reply` is the content of the reply once it has come, `idle` whether the idle status has, `died` how the
    kernel ended if that came first.
    `receive` and `lost` are called by the kernel's channel thread alone.
    """

    def __init__(
        self,
        msg_id: str,
        on_iopub: OnIopub,
        on_input: OnInput,
        answer: Answer,
        *,
        silent: bool = False,
        mark: Mark | None = None,
    ) -> None:
        self.msg_id = msg_id
        self.sent_at = moment()
        # The first message that ipykernel publishes with its handler for SIGINT in place; a silent cell has none.
        self._beginning = "status" if silent else "execute_input"
        self.mark = mark  # what the kernel sets at that moment, in place of the message
        self.reply: dict[str, Any] | None = None
        self.died: str | None = None
        self._on_iopub = on_iopub
        self._on_input = on_input
        self._answer = answer
        self.idle = False
        self._lock = threading.Lock()  # guards the two below against each other
        self.begun_at: float | None = None  # monotonic
        self._when_begun: Callable[[], None] | None = None
        self._ended = threading.Event()

    def wait(self, timeout: float | None) -> bool:
        """True once the execution has ended: its own reply and its own idle have come, or the kernel died.

        False when `timeout` seconds (None: without limit, the kernel's death ends it) have gone by before.
        """
        return self._ended.wait(timeout)

    @property
    def ended(self) -> bool:
        """Whether there is nothing more to wait for."""
        return self._ended.is_set()

    def has_begun(self) -> bool:
        """Whether the kernel is, or was, in the cell's code."""
        if self.begun_at is None and self.mark is not None and self.mark.is_set():
            self._begin()
        return self.begun_at is not None

    def when_begun(self, action: Callable[[], None]) -> bool:
        """Has `action` called once the kernel is known to be in the cell's code; False if it is.

        A message that says so makes it known, and `has_begun`; it is called in the thread of either.
        """
        self.has_begun()
        with self._lock:
            if self.begun_at is None:
                self._when_begun = action
            return self.begun_at is None

    def overtaken(self) -> None:
        """The kernel has answered what was sent after this: what has not come of it will not come.

        A signal that meets ipykernel itself, before or after the cell's own code, costs the reply or the idle.
        """
        if self.reply is None:
            self.reply = {"status": "error", "ename": "KeyboardInterrupt", "evalue": "", "traceback": []}
        self._ended.set()

    def receive(self, channel: str, message: Message) -> bool:
        """Takes one message that answers this one; True when it was the last one to wait for."""
        if channel == "iopub":
            if message["msg_type"] == self._beginning:
                self._begin()
            self._publish(message)
        elif channel == "stdin":
            # A thread of its own: whoever answers may take their time, and output must flow meanwhile.
            name = f"input-{self.msg_id[-12:]}"
            threading.Thread(target=self._ask, args=(message,), name=name, daemon=True).start()
        elif channel == "shell":
            self.reply = message["content"]
            # The kernel has published nothing and leaves out the idle status; see `bridge.injected.around`.
            self.idle = self.idle or message["metadata"].get("quiet") is True
        if self.reply is not None and self.idle:
            self._ended.set()
            return True
        return False

    def lost(self, reason: str) -> None:
        """The kernel is gone; what has not come will not come."""
        self.died = reason
        self._ended.set()

    def _begin(self) -> None:
        with self._lock:
            self.begun_at = self.begun_at or time.monotonic()
            action, self._when_begun = self._when_begun, None
        if action is not None:
            action()

    def _publish(self, message: Message) -> None:
        if message["msg_type"] == "status" and message["content"].get("execution_state") == "idle":
            self.idle = True
        try:
            self._on_iopub(message)
        except Exception:  # the listener's fault must not end the thread that reads for everybody
            log.exception("a listener failed on a %s message", message["msg_type"])

    def _ask(self, request: Message) -> None:
        content = request["content"]
        try:
            value = self._on_input(str(content.get("prompt", "")), bool(content.get("password", False)))
        except (
            Exception
        ):  # a cell that waits for ever would be worse than one that meets the end of its input
            log.exception("the source of input lines failed; the cell gets the end of file")
            value = None
        if self._ended.is_set():
            return  # interrupted meanwhile: the line would be read by the next cell
        self._answer(request, END_OF_FILE if value is None else value)


class Request:
    """One message of ours under way whose reply alone is waited for.

    `receive` and `lost` are called by the kernel's channel thread alone.
    """

    def __init__(self) -> None:
        self.reply: Message | None = None
        self.died: str | None = None
        self._ended = threading.Event()

    def wait(self, timeout: float) -> bool:
        """True once the reply has come or the kernel died; False after `timeout` seconds."""
        return self._ended.wait(timeout)

    def receive(self, channel: str, message: Message) -> bool:
        """Takes one message that answers this one; True when it is the reply."""
        if channel != "shell":
            return False
        self.reply = message
        self._ended.set()
        return True

    def lost(self, reason: str) -> None:
        """The kernel is gone; there will be no reply."""
        self.died = reason
        self._ended.set()


class Overtaker:
    """A request sent after a cell; its own reply and idle prove that the cell has no more to come.

    A kernel answers its shell requests one after the other, and each channel keeps the order. `then` is called
    at the proof. `receive` and `lost` are called by the kernel's channel thread alone.
    """

    def __init__(self, then: Callable[[], None]) -> None:
        self._then = then
        self._replied = False
        self._idle = False

    def receive(self, channel: str, message: Message) -> bool:
        """Takes one message that answers this one; True when it was the last one to wait for."""
        if channel == "shell":
            self._replied = True
        elif channel == "iopub" and message["content"].get("execution_state") == "idle":
            self._idle = True
        if self._replied and self._idle:
            self._then()
        return self._replied and self._idle

    def lost(self, reason: str) -> None:
        """The kernel is gone; the cell is told that by itself."""


class Greeting:
    """A kernel_info_request to a kernel that may not be there yet: its reply, and whether iopub is heard.

    `receive` and `lost` are called by the kernel's channel thread alone.
    """

    def __init__(self) -> None:
        self.info: dict[str, Any] | None = None
        self.died: str | None = None
        self.replied = threading.Event()
        self.heard = threading.Event()

    def receive(self, channel: str, message: Message) -> bool:
        """Takes one message that answers this one; never the last, the owner forgets it."""
        if channel == "shell":
            self.info = message["content"]
            self.replied.set()
        elif channel == "iopub":
            self.heard.set()
        return False

    def lost(self, reason: str) -> None:
        """The kernel is gone; there will be no reply."""
        self.died = reason
        self.replied.set()
        self.heard.set()
