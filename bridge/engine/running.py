"""Executions under way: found by their id, interrupted wherever they are."""

from __future__ import annotations

import threading
import time
from typing import Any

from bridge.engine.feed import Feed
from bridge.errors import Conflict
from bridge.pool import KernelProcess, Ticket

REMEMBERED, REMEMBERED_SIZE = 256, 64 * 1024 * 1024
"""Ended executions whose events can be read again, and about the characters that these may have."""
IGNORED_AFTER = 5.0
"""Seconds after which an interrupt that had no effect is called ignored."""


class Running:
    """One execution, from its request to its reply.

    `ticket` ends its wait for a kernel. A kernel is `attached` while its cell runs there.
    """

    def __init__(self, exec_id: str, code: str, feed: Feed | None = None) -> None:
        self.exec_id = exec_id
        self.code = code
        self.feed = feed or Feed()
        self.feed.add({"event": "queued"})
        self.ticket = Ticket()
        self.forced = False
        self.timed_out = False
        self.shutdown = False  # the engine is closing
        self.discard = False  # a reset came: what it leaves is not stored
        self._lock = threading.Lock()
        self._kernel: KernelProcess | None = None
        self._over = False
        self._interrupted_at: float | None = None

    @property
    def interrupted(self) -> bool:
        """Whether somebody interrupted it, at any time."""
        return self._interrupted_at is not None

    def attach(self, kernel: KernelProcess) -> bool:
        """Its cell is about to be sent to this kernel; False when it was interrupted before."""
        with self._lock:
            if self._interrupted_at is not None:
                return False
            self._kernel = kernel
            return True

    def detach(self) -> None:
        """Its cell is over: an interrupt from now on must not reach the kernel's next cell."""
        with self._lock:
            self._over = self._over or self._kernel is not None
            self._kernel = None

    def interrupt(self, force: bool) -> dict[str, Any]:
        """Interrupt it: `{"interrupted", "how"}`. Only `force` kills the process."""
        with self._lock:
            if self._over:
                return {"interrupted": False, "how": None}
            self._interrupted_at = self._interrupted_at or time.monotonic()
            kernel = self._kernel
            if kernel is None:
                self.ticket.cancel()
                return {"interrupted": True, "how": "queued"}
            if force:
                self.forced = True
                kernel.kill()
                return {"interrupted": True, "how": "kill"}
            kernel.interrupt()
            return {"interrupted": True, "how": "signal"}

    def status(self) -> dict[str, Any]:
        """For the status: id, kernel and what became of an interrupt."""
        with self._lock:
            kernel, since = self._kernel, self._interrupted_at
        found: dict[str, Any] = {"exec_id": self.exec_id, "kernel_id": kernel.id if kernel else None}
        if since is not None:
            found["interrupted"] = True
            found["ignored"] = kernel is not None and time.monotonic() - since > IGNORED_AFTER
        return found


class Registry:
    """All executions of one engine, and what the latest ended ones showed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: dict[str, Running] = {}
        self._ended: dict[str, Feed] = {}  # the latest last
        self._size = 0  # of all these together, which do not grow any more
        self._none_left = threading.Condition(self._lock)

    def begin(self, exec_id: str, code: str, feed: Feed | None = None) -> Running:
        """A new execution, whose events go to `feed`; Conflict while one of that id is under way."""
        with self._lock:
            if exec_id in self._running:
                raise Conflict(f"an execution with exec_id {exec_id!r} is running")
            running = self._running[exec_id] = Running(exec_id, code, feed)
        return running

    def end(self, running: Running, reply: dict[str, Any]) -> None:
        """The execution has its reply."""
        running.feed.end(reply)
        with self._lock:
            self._running.pop(running.exec_id, None)
            self._forget(running.exec_id)
            self._ended[running.exec_id] = running.feed
            self._size += running.feed.size
            while len(self._ended) > 1 and (len(self._ended) > REMEMBERED or self._size > REMEMBERED_SIZE):
                self._forget(next(iter(self._ended)))
            self._none_left.notify_all()

    def _forget(self, exec_id: str) -> None:
        feed = self._ended.pop(exec_id, None)
        self._size -= feed.size if feed is not None else 0

    def feed(self, exec_id: str) -> Feed | None:
        """The events of the execution of that id, which runs, or is among the latest that ended."""
        with self._lock:
            running = self._running.get(exec_id)
            return running.feed if running is not None else self._ended.get(exec_id)

    def find(self, exec_id: str) -> Running | None:
        """The execution of that id, while it is under way."""
        with self._lock:
            return self._running.get(exec_id)

    def all(self) -> list[Running]:
        """Every execution under way."""
        with self._lock:
            return list(self._running.values())

    def wait_until_empty(self, timeout: float) -> bool:
        """Wait until nothing is under way; False after `timeout` seconds."""
        with self._lock:
            return self._none_left.wait_for(lambda: not self._running, timeout)
