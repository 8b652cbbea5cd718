"""Pins: what keeps a state while somebody works from it, whatever becomes of its name."""

from __future__ import annotations

import logging
import threading
from collections import Counter

from bridge.errors import HomeDamaged, StateNotFound, StoreError
from bridge.store.database import Database, Transaction

_log = logging.getLogger(__name__)


class Pins:
    """The pins of one store. They are rows too, for other processes; rows of a dead owner do not count.

    A row is written before its state is used, and may outlast the use until the next `tidy`: a line of cells, each
    from the state that the one before left, then needs no transaction for its pins.
    """

    def __init__(self, database: Database, owner: str) -> None:
        self._database = database
        self._owner = owner
        self._lock = threading.Lock()
        self._counts: Counter[int] = Counter()
        self._rows: set[int] = set()  # the states whose rows are there, and stay while they are in here
        self._stale: set[int] = set()  # those whose rows are still to be deleted

    def add(self, state: int) -> None:
        """One more user of the state. StateNotFound when it was freed before."""
        with self._lock:
            if state in self._rows:
                self._counts[state] += 1
                return
        self._record(state)

    def remove(self, state: int) -> None:
        """One user less."""
        with self._lock:
            self._counts[state] -= 1
            if not self._counts[state]:
                del self._counts[state]

    def held(self) -> set[int]:
        """The states pinned by this store, whether or not their rows could be written."""
        with self._lock:
            return set(self._counts)

    def tidy(self, transaction: Transaction, successor: int | None = None) -> bool:
        """Delete the rows of states that nobody uses now; whether one of these has lost its name and can be freed.

        `successor` is a state just stored that is likely to be used next: it gets its row at once.
        """
        with self._lock:
            self._stale |= self._rows - self._counts.keys()
            self._rows -= self._stale
            gone = set(self._stale)
        transaction.executemany("DELETE FROM pins WHERE owner = ? AND state = ?", self._keys(gone))
        if successor is not None:
            transaction.execute("INSERT OR IGNORE INTO pins VALUES (?, ?)", (self._owner, successor))
        transaction.after_commit(lambda: self._tidied(gone, successor))
        orphans = (
            transaction.execute("SELECT 1 FROM orphans WHERE state = ?", (each,)).fetchone() for each in gone
        )
        return any(orphans)

    def settle(self) -> bool:
        """`tidy` in a transaction of its own, if there is anything to do."""
        with self._lock:
            if not (self._stale or self._rows - self._counts.keys()):
                return False
        with self._database.write() as transaction:
            return self.tidy(transaction)

    def _keys(self, states: set[int]) -> list[tuple[str, int]]:
        return [(self._owner, state) for state in states]

    def _tidied(self, gone: set[int], successor: int | None) -> None:
        with self._lock:
            self._stale -= gone
            if successor is not None:
                self._rows.add(successor)

    def _record(self, state: int) -> None:
        try:
            with self._database.write() as transaction:
                if not transaction.execute("SELECT 1 FROM states WHERE id = ?", (state,)).fetchone():
                    raise StateNotFound(f"state {state} was deleted")
                transaction.execute("INSERT OR IGNORE INTO pins VALUES (?, ?)", (self._owner, state))
                transaction.after_commit(lambda: self._recorded(state))
        except HomeDamaged:
            raise
        except StoreError as error:
            # A full disk must not keep cells from running. The count holds against our own sweep;
            # another process's needs room on that disk too.
            _log.warning("the pin of state %d is known to this process alone: %s", state, error)
            with self._lock:
                self._counts[state] += 1

    def _recorded(self, state: int) -> None:
        """Count the first user before any other transaction of this process, which might tidy."""
        with self._lock:
            self._stale.discard(state)
            self._rows.add(state)
            self._counts[state] += 1
