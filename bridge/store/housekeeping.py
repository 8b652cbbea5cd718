"""The one thread of a store: it frees garbage after deletions and writes the log back into the database."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from bridge.errors import BridgeError

_log = logging.getLogger(__name__)

SETTLE_SECONDS = 1.0  # a sweep comes this long after the first deletion, so that many are freed at once
RETRY_SECONDS = 61.0  # files too young to be removed are looked at again after this
_STRAYS_SECONDS = 3600.0
_FIRST_STRAYS_SECONDS = 600.0
_LOAD = 20.0  # sweeping takes at most one part in so many of the time
_CLOSE_SECONDS = 5.0


class Housekeeper:
    """Runs `sweep(strays)` and `checkpoint()` in the background until `close`; `sweep` tells of work left."""

    def __init__(self, sweep: Callable[[bool], bool], checkpoint: Callable[[], None]) -> None:
        self._sweep = sweep
        self._checkpoint = checkpoint
        self._changed = threading.Condition()
        self._closing = False
        self._sweep_due: float | None = None
        self._strays_due = time.monotonic() + _FIRST_STRAYS_SECONDS
        self._checkpoint_due = False
        self._pause = SETTLE_SECONDS
        self._thread = threading.Thread(target=self._run, name="store-housekeeping", daemon=True)
        self._thread.start()

    def garbage(self) -> None:
        """Something may be freed: sweep soon."""
        with self._changed:
            due = time.monotonic() + self._pause
            self._sweep_due = due if self._sweep_due is None else min(due, self._sweep_due)
            self._changed.notify()

    def log_is_long(self) -> None:
        """The write-ahead log has grown: write it back now."""
        with self._changed:
            self._checkpoint_due = True
            self._changed.notify()

    def close(self) -> None:
        """End the thread, after the step it is in. Idempotent."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(_CLOSE_SECONDS)
        if self._thread.is_alive():
            _log.warning("the store's housekeeping did not end within %.0f s", _CLOSE_SECONDS)

    def _run(self) -> None:
        while True:  # ends by `close`; each wait ends by the next due time
            with self._changed:
                while not (self._closing or self._checkpoint_due or self._next() <= 0):
                    self._changed.wait(self._next())
                if self._closing:
                    return
                now = time.monotonic()
                with_strays = now >= self._strays_due
                sweeps = with_strays or (self._sweep_due is not None and now >= self._sweep_due)
                checkpoints, self._checkpoint_due = self._checkpoint_due, False
                if sweeps:
                    self._sweep_due = None
                if with_strays:
                    self._strays_due = now + _STRAYS_SECONDS
            try:
                if checkpoints:
                    self._checkpoint()
                if sweeps:
                    self._do_sweep(with_strays)
            except BridgeError as error:  # reported; the next deletion brings the next attempt
                _log.warning("housekeeping of the store failed: %s", error)

    def _do_sweep(self, with_strays: bool) -> None:
        started = time.monotonic()
        is_work_left = self._sweep(with_strays)
        ended = time.monotonic()
        with self._changed:
            self._pause = max(SETTLE_SECONDS, _LOAD * (ended - started))
            if is_work_left:
                due = ended + RETRY_SECONDS
                self._sweep_due = due if self._sweep_due is None else min(due, self._sweep_due)

    def _next(self) -> float:
        """Seconds to the next due time."""
        due = self._strays_due if self._sweep_due is None else min(self._strays_due, self._sweep_due)
        return due - time.monotonic()
