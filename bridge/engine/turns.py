"""Whose turn it is: one at a time, in the order they came."""

from __future__ import annotations

import collections
import threading

from bridge.errors import Interrupted, KernelTimeout
from bridge.pool import Ticket


class Turns:
    """A lock that is handed on in the order of the requests, and whose wait a ticket can end."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._line: collections.deque[object] = collections.deque()

    @property
    def taken(self) -> bool:
        """Whether somebody has the turn."""
        return bool(self._line)

    def take_if_free(self) -> bool:
        """Take the turn unless somebody has it or waits for it; whether it was taken."""
        with self._changed:
            if self._line:
                return False
            self._line.append(object())
            return True

    def take(self, ticket: Ticket | None = None, timeout: float | None = None) -> None:
        """Wait for the turn. Interrupted when the ticket is cancelled, KernelTimeout after `timeout` seconds."""
        ticket, mine = ticket or Ticket(), object()
        with self._changed:
            self._line.append(mine)
        ticket.watch(self._wake)
        with self._changed:
            arrived = self._changed.wait_for(lambda: self._line[0] is mine or ticket.cancelled, timeout)
            cancelled = ticket.cancelled
            if not arrived or cancelled:
                self._line.remove(mine)
                self._changed.notify_all()
        ticket.watch(None)
        if cancelled:
            raise Interrupted("interrupted while it waited for its turn")
        if not arrived:
            raise KernelTimeout(f"the session was kept busy for {timeout:g} s")

    def give_back(self) -> None:
        """The turn is over."""
        with self._changed:
            self._line.popleft()
            self._changed.notify_all()

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()
