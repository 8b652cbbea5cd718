"""Running requests beside the test, and meeting their cells at files: no test needs to sleep and hope."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

import psutil

T = TypeVar("T")


def until(check: Callable[[], T], what: str, timeout: float = 30) -> T:
    """The first true value of `check()`; fails with `what` when none came within `timeout` seconds."""
    deadline = time.monotonic() + timeout
    pause = threading.Event()
    while not (value := check()):
        assert time.monotonic() < deadline, f"not within {timeout} s: {what}"
        pause.wait(0.01)
    return value


def is_over(pid: int) -> bool:
    """Whether a process has ended, reaped or not."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def left_of(processes: Iterable[psutil.Process], seconds: float) -> list[psutil.Process]:
    """Those that run on for so long; one that only waits for a stranger to reap it does not."""
    _, left = psutil.wait_procs(list(processes), seconds)
    return [process for process in left if not is_over(process.pid)]


def background(call: Callable[..., T], *args: Any, **named: Any) -> Future[T]:
    """Runs `call` in a thread of its own; `.result(timeout)` gives what it gave or raised."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(call(*args, **named))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


class Flag:
    """A file that says that something has happened, readable and raisable from both sides."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / f"flag-{uuid.uuid4().hex}"

    @property
    def up(self) -> bool:
        return self.path.exists()

    def wait(self, timeout: float = 30) -> None:
        """Returns once the cell has raised the flag."""
        until(lambda: self.up, f"{self.path} raised by a cell", timeout)

    def raise_(self) -> None:
        self.path.touch()

    @property
    def raising(self) -> str:
        """A line of code that raises the flag."""
        return f"open({str(self.path)!r}, 'w').close()"

    @property
    def waiting(self) -> str:
        """Lines of code that wait, 60 s at the most, until the flag is up."""
        return (
            "import os, time\n"
            "for _wait in range(6000):\n"
            f"    if os.path.exists({str(self.path)!r}): break\n"
            "    time.sleep(0.01)\n"
            "else: raise RuntimeError('nobody raised the flag')"
        )
