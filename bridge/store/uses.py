"""When states were used last, and which ones kernels hold: what is looked at when room is wanted."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable

from bridge.errors import StoreError
from bridge.store.database import Database
from bridge.store.manifest import timestamp

_log = logging.getLogger(__name__)


class Uses:
    """The uses of states by one store: noted in memory, where a cell does not feel it, and written now and then.

    `holding` gives the ids of the states that kernels hold at the moment; whoever has kernels sets it.
    """

    def __init__(self, database: Database, owner: str) -> None:
        self.holding: Callable[[], Iterable[int]] = tuple
        self._database = database
        self._owner = owner
        self._lock = threading.Lock()
        self._noted: dict[int, str] = {}
        self._held: set[int] = set()  # as written

    def note(self, state: int) -> None:
        """The state is used now."""
        with self._lock:
            self._noted[state] = timestamp()

    def write(self) -> set[int]:
        """Write down what was noted, and what kernels hold; gives the latter. StoreError: it is kept for later."""
        held = set(self.holding())
        with self._lock:
            noted, self._noted = self._noted, {}
        if not noted and held == self._held:
            return held
        try:
            with self._database.write() as transaction:
                transaction.executemany(
                    "UPDATE states SET used = MAX(COALESCE(used, ''), ?) WHERE id = ?",
                    [(moment, state) for state, moment in noted.items()],
                )
                transaction.execute("DELETE FROM holds WHERE owner = ?", (self._owner,))
                transaction.executemany(
                    "INSERT INTO holds VALUES (?, ?)", [(self._owner, state) for state in held]
                )
        except BaseException:
            with self._lock:
                self._noted = {**noted, **self._noted}
            raise
        self._held = held
        return held

    def close(self) -> None:
        """Write down what is noted; the kernels are gone. A store that cannot be written loses it."""
        self.holding = tuple
        try:
            self.write()
        except StoreError as error:
            _log.warning("the last uses of states are not known: %s", error)
