"""The one thread of a store: it frees garbage after deletions, keeps the home under its limit, writes down which
states were used, and writes the log back into the database."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bridge.errors import BridgeError

_log = logging.getLogger(__name__)

SETTLE_SECONDS = 1.0  # a sweep comes this long after the first deletion, so that many are freed at once
RETRY_SECONDS = 61.0  # files too young to be removed are looked at again after this
USES_SECONDS = 30.0  # uses are written down so long after the first of them: less than what `evict` spares
_STRAYS_SECONDS = 3600.0
_FIRST_STRAYS_SECONDS = 600.0
_LOAD = 20.0  # sweeping takes at most one part in so many of the time
_CLOSE_SECONDS = 5.0
CHECKPOINT, USES, PINS, SWEEP, STRAYS, LIMIT = "checkpoint", "uses", "pins", "sweep", "strays", "limit"


class Housekeeper:
    """Runs in the background, until `close`: `sweep(strays)`, which tells of work left, `checkpoint()`,
    `write_uses()`, `tidy_pins()`, and `keep_limit()`, which tells whether it is to be run again later.
    """

    def __init__(
        self,
        sweep: Callable[[bool], bool],
        checkpoint: Callable[[], None],
        write_uses: Callable[[], object] = lambda: None,
        keep_limit: Callable[[], bool] = lambda: False,
        tidy_pins: Callable[[], object] = lambda: None,
    ) -> None:
        self._sweep = sweep
        self._duties: dict[str, Callable[[], object]] = {  # in the order in which they are done
            CHECKPOINT: checkpoint,
            USES: write_uses,
            PINS: tidy_pins,
            SWEEP: lambda: self._do_sweep(False),
            STRAYS: lambda: self._do_sweep(True),
            LIMIT: self._do_limit,
        }
        self._keep_limit = keep_limit
        self._changed = threading.Condition()
        self._closing = False
        self._due: dict[str, float] = {STRAYS: time.monotonic() + _FIRST_STRAYS_SECONDS}
        self._pauses = {SWEEP: SETTLE_SECONDS, LIMIT: SETTLE_SECONDS}
        self._thread = threading.Thread(target=self._run, name="store-housekeeping", daemon=True)

    def start(self) -> None:
        """Begin; what was asked for before is not forgotten."""
        self._thread.start()

    def garbage(self) -> None:
        """Something may be freed: sweep soon."""
        self._ask(SWEEP, self._pauses[SWEEP])

    def log_is_long(self) -> None:
        """The write-ahead log has grown: write it back now."""
        self._ask(CHECKPOINT, 0.0)

    def unpinned(self) -> None:
        """Nobody may use some pinned states any more: let go of them soon, unless they are used again."""
        self._ask(PINS, SETTLE_SECONDS)

    def used(self) -> None:
        """States have been used: write it down in time."""
        self._ask(USES, USES_SECONDS)

    def grown(self) -> None:
        """The home has grown: look at its limit soon."""
        self._ask(LIMIT, self._pauses[LIMIT])

    def close(self) -> None:
        """End the thread, after the step it is in. Idempotent."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        if self._thread.ident is None:  # never started
            return
        self._thread.join(_CLOSE_SECONDS)
        if self._thread.is_alive():
            _log.warning("the store's housekeeping did not end within %.0f s", _CLOSE_SECONDS)

    def _ask(self, duty: str, seconds: float) -> None:
        """The duty is due in so many seconds, if not earlier."""
        due = time.monotonic() + seconds
        if self._due.get(duty, math.inf) <= due:  # the usual case, which a cell is not to feel
            return
        with self._changed:
            self._due[duty] = min(due, self._due.get(duty, math.inf))
            self._changed.notify()

    def _run(self) -> None:
        while True:  # ends by `close`; each wait ends by the next due time
            with self._changed:
                while not (self._closing or self._next() <= 0):
                    self._changed.wait(self._next())
                if self._closing:
                    return
                now = time.monotonic()
                duties = [duty for duty in self._duties if self._due.get(duty, math.inf) <= now]
                for duty in duties:
                    del self._due[duty]
                if STRAYS in duties:
                    self._due[STRAYS] = now + _STRAYS_SECONDS
            for duty in duties:
                try:
                    self._duties[duty]()
                except BridgeError as error:  # reported; the next deletion brings the next attempt
                    _log.warning("housekeeping of the store failed: %s", error)

    def _do_sweep(self, with_strays: bool) -> None:
        with self._timed(SWEEP):
            is_work_left = self._sweep(with_strays)
        if is_work_left:
            self._ask(SWEEP, RETRY_SECONDS)

    def _do_limit(self) -> None:
        with self._timed(LIMIT):
            is_to_go_on = self._keep_limit()
        if is_to_go_on:
            self._ask(LIMIT, RETRY_SECONDS)

    @contextmanager
    def _timed(self, duty: str) -> Iterator[None]:
        """The longer it takes, the longer is the pause before the next one."""
        started = time.monotonic()
        yield
        self._pauses[duty] = max(SETTLE_SECONDS, _LOAD * (time.monotonic() - started))

    def _next(self) -> float:
        """Seconds to the next due time."""
        return min(self._due.values()) - time.monotonic()
