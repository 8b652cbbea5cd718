"""What the pool's tests share: cells run to their end, and bounded waits."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from bridge.pool import Execution, KernelProcess

BOUND = 30.0
"""Seconds after which a wait counts as hung."""

ECHO = """
def _install():
    kernel = get_ipython().kernel
    def echo(stream, ident, msg):
        content, buffers = {"echo": msg["content"]}, msg["buffers"]
        kernel.session.send(stream, "bridge_reply", content, msg, ident=ident, buffers=buffers)
    kernel.shell_handlers["bridge_request"] = echo
_install()
del _install
"""
"""A cell after which the kernel answers our own requests with what they carry."""


class Cell:
    """A cell under way in a kernel; its input lines come from `lines`, then end."""

    def __init__(self, kernel: KernelProcess, code: str, lines: Iterable[str] = (), **options: Any) -> None:
        self.messages: list[dict[str, Any]] = []
        self.prompts: list[tuple[str, bool]] = []
        self._lines = iter(lines)
        self._awaited = ""
        self._seen = threading.Event()
        self._lock = threading.Lock()
        self.execution: Execution = kernel.execute(
            code, on_iopub=self._publish, on_input=self._line, **{"metadata": {}, **options}
        )

    def _publish(self, message: dict[str, Any]) -> None:
        with self._lock:
            self.messages.append(message)
            if self._awaited and self._awaited in self._text():
                self._seen.set()

    def _line(self, prompt: str, password: bool) -> str | None:
        self.prompts.append((prompt, password))
        return next(self._lines, None)

    def _text(self) -> str:
        return "".join(m["content"]["text"] for m in self.messages if m["msg_type"] == "stream")

    @property
    def text(self) -> str:
        """All stream text so far."""
        with self._lock:
            return self._text()

    def until(self, text: str) -> Cell:
        """Waits until the cell has printed `text`."""
        with self._lock:
            self._awaited = text
            if text in self._text():
                return self
        assert self._seen.wait(BOUND), f"{text!r} was never printed, only {self.text!r}"
        return self

    def end(self) -> Cell:
        """Waits until the cell has ended."""
        assert self.execution.wait(BOUND), f"the cell did not end; printed {self.text!r}"
        return self

    @property
    def error(self) -> str | None:
        """The name of the exception the cell ended with."""
        return (self.execution.reply or {}).get("ename")


def run(kernel: KernelProcess, code: str, lines: Iterable[str] = (), **options: Any) -> Cell:
    """The cell after its end."""
    return Cell(kernel, code, lines, **options).end()


def eventually(condition: Callable[[], Any], what: str, bound: float = BOUND) -> None:
    """Waits until the condition holds; fails after `bound` seconds."""
    limit = time.monotonic() + bound
    while not condition():
        assert time.monotonic() < limit, f"not within {bound:g} s: {what}"
        time.sleep(0.01)


def all_warm(status: list[dict[str, Any]], count: int) -> bool:
    """Whether `count` kernels are there and none starts or ends."""
    return len(status) == count and all(kernel["state"] in ("idle", "leased") for kernel in status)
