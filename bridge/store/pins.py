"""Pins: what keeps a state while somebody works from it, whatever becomes of its name."""

from __future__ import annotations

import logging
import threading
from collections import Counter

from bridge.errors import HomeDamaged, StateNotFound, StoreError
from bridge.store.database import Database

_log = logging.getLogger(__name__)


class Pins:
    """The pins of one store. They are rows too, for other processes; rows of a dead owner do not count."""

    def __init__(self, database: Database, owner: str) -> None:
        self._database = database
        self._owner = owner
        # Two locks: a sweep asks for `held` in a write transaction, which the holder of `_turn` may wait for.
        self._turn = threading.Lock()
        self._lock = threading.Lock()
        self._counts: Counter[int] = Counter()

    def add(self, state: int) -> None:
        """One more user of the state. StateNotFound when it was freed before."""
        with self._turn:
            if not self._counts[state]:
                self._record(state)
            with self._lock:
                self._counts[state] += 1

    def remove(self, state: int) -> bool:
        """One user less; whether the state has neither users nor a name now, so that it can be freed."""
        with self._turn:
            with self._lock:
                self._counts[state] -= 1
                if self._counts[state]:
                    return False
                del self._counts[state]
            try:
                with self._database.write() as transaction:
                    transaction.execute(
                        "DELETE FROM pins WHERE owner = ? AND state = ?", (self._owner, state)
                    )
                    found = transaction.execute("SELECT 1 FROM orphans WHERE state = ?", (state,)).fetchone()
            except HomeDamaged:
                raise
            except StoreError as error:  # the row then ends with this process, when its owner's lock does
                _log.warning("the pin of state %d stays till the end of this process: %s", state, error)
                return False
            return found is not None

    def held(self) -> set[int]:
        """The states pinned by this store, whether or not their rows could be written."""
        with self._lock:
            return set(self._counts)

    def _record(self, state: int) -> None:
        try:
            with self._database.write() as transaction:
                if not transaction.execute("SELECT 1 FROM states WHERE id = ?", (state,)).fetchone():
                    raise StateNotFound(f"state {state} was deleted")
                transaction.execute("INSERT OR IGNORE INTO pins VALUES (?, ?)", (self._owner, state))
        except HomeDamaged:
            raise
        except StoreError as error:
            # A full disk must not keep cells from running. The count above holds against our own sweep;
            # another process's needs room on that disk too.
            _log.warning("the pin of state %d is known to this process alone: %s", state, error)
