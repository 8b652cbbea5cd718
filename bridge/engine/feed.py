"""What becomes of an execution, event by event: to be followed while it runs, and read again for a while after."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from bridge.outputs.collector import Event

KEPT = 32 * 1024 * 1024
"""About the characters of events that one execution keeps; more are replaced by the outputs that they led to."""

REPLY = 2_000
"""What a reply counts for beside its outputs: to count its many small fields takes a while, and it is waited for."""


class Feed:
    """The events of one execution, numbered from 1. Thread-safe.

    The first is `{"event": "queued"}`, then `{"event": "running", "kernel_id"}`, then the changes of its outputs (see
    `bridge.outputs.collector`), and the last `{"event": "reply", "reply"}` with the execution reply. Who asks for what
    is too long ago gets `{"event": "clear"}` and the outputs as they were.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._events: list[Event] = []
        self._first = 1  # the number of the first event that is kept
        self._size, self._bound = 0, KEPT
        self._ended = False
        self._outputs: Callable[[], list[dict[str, Any]]] | None = None

    @property
    def size(self) -> int:
        """About the characters of the events that are kept."""
        return self._size

    def begin(self, outputs: Callable[[], list[dict[str, Any]]], kernel_id: str) -> None:
        """Its cell is about to run in that kernel; `outputs` gives all outputs at any time."""
        self._outputs = outputs
        self.add({"event": "running", "kernel_id": kernel_id})

    def add(self, event: Event) -> None:
        """One more event; never waits."""
        with self._changed:
            self._add(event, _size(event))

    def _add(self, event: Event, size: int) -> None:
        self._events.append(event)
        self._size += size
        if self._size > self._bound and self._outputs is not None:
            self._compact(self._outputs())
        self._changed.notify_all()

    def end(self, reply: dict[str, Any]) -> None:
        """The execution has its reply, which is the last event."""
        with self._changed:
            self._outputs = None
            self._ended = True
            self._add({"event": "reply", "reply": reply}, _size(reply.get("output")) + REPLY)

    def close(self) -> None:
        """Nothing more will come, be it that nothing came. Idempotent."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def after(self, number: int, timeout: float) -> tuple[list[tuple[int, Event]], bool]:
        """The events after that number with their numbers, waited for if need be, and whether the last is among them.

        None within `timeout` seconds gives an empty list.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._ended or self._last() > number, timeout)
            first = max(number + 1, self._first)
            kept = self._events[first - self._first :]
            return list(enumerate(kept, first)), self._ended

    def _last(self) -> int:
        return self._first + len(self._events) - 1

    def _compact(self, outputs: list[dict[str, Any]]) -> None:
        """Keep the outputs in place of the events that led to them; whoever follows gets them as new events."""
        self._first = self._last() + 1
        self._events = [{"event": "clear"}, *({"event": "output", "output": output} for output in outputs)]
        self._size = sum(map(_size, self._events))
        self._bound = max(KEPT, 2 * self._size)


def _size(value: Any) -> int:
    """About the characters of an event as JSON."""
    if isinstance(value, str):
        return len(value) + 2
    if isinstance(value, dict):
        return sum(len(key) + 4 + _size(item) for key, item in value.items())
    if isinstance(value, list):
        return sum(map(_size, value))
    return 8
