"""Keeping a home under a size: the states used least recently lose their names, and the sweep frees them.

Never evicted: a labelled state (its name was given by `Store.label`), the states of a workspace that is kept, the
first one of a workspace, and what is in use: pinned, held by a kernel, or used a moment ago, by any process.
What later states share with an evicted one stays, so these lose nothing.
"""

from __future__ import annotations

import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TypeVar

from bridge.store.blobs import BlobStore
from bridge.store.contents import ROWS, decode_piece
from bridge.store.database import Database, Transaction, select_in
from bridge.store.home import Home
from bridge.store.manifest import timestamp, unpack
from bridge.store.pins import Pins
from bridge.store.sweep import Progress
from bridge.store.uses import Uses

K = TypeVar("K")

SPARE = 0.9
"""The part of the limit that is filled after an eviction, so that not every cell brings the next one."""
REMEMBERED = 10_000
"""Names that are told to be evicted, not merely missing; about as many: those of one eviction go together."""
_ROW = 60  # bytes that a row takes beside its content, roughly

_MAY_GO = """
EXISTS (SELECT 1 FROM names WHERE state = s.id) AND NOT EXISTS (
    SELECT 1 FROM names n JOIN workspaces w ON w.id = n.workspace
    WHERE n.state = s.id AND (n.labelled OR w.labelled = 2 OR n.name = x'696e697469616c')
)
"""
_EVICTABLE = f"SELECT id, COALESCE(used, created) AS last FROM states s WHERE {_MAY_GO} ORDER BY last, id"


@dataclass(frozen=True, slots=True)
class Evicted:
    """What an eviction came to, in bytes: `freed` about what its `states` needed alone, `over` what the home
    still has over the limit, and whether states used a moment ago may go later (`waiting`)."""

    states: int = 0
    freed: int = 0
    over: int = 0
    waiting: bool = False


class Ledger:
    """What goes when states go one after the other: the bytes of what no other state refers to any more."""

    def __init__(self, blobs: BlobStore) -> None:
        self._blobs = blobs
        self._states: dict[int, list[int]] = {}
        self._pieces: Counter[int] = Counter()  # how many states have it
        self._units: Counter[int] = Counter()  # how many pieces have it
        self._blob_units: Counter[str] = Counter()  # how many units have it
        self._bodies: dict[int, tuple[int, Sequence[int]]] = {}  # bytes and units of a piece
        self._contents: dict[int, tuple[int, Sequence[str]]] = {}  # bytes and blobs of a unit

    @classmethod
    def read(cls, connection: sqlite3.Connection, blobs: BlobStore) -> Ledger:
        """The ledger of a home, as of one moment."""
        made = cls(blobs)
        for row, *packed in connection.execute("SELECT id, extra, units, names FROM states"):
            made._states[row] = list({piece for numbers in packed for piece in unpack(numbers)})
            made._pieces.update(made._states[row])
        for row, body in connection.execute("SELECT id, body FROM pieces"):
            if row in made._pieces:
                units = decode_piece(body)[1] if body[:1] == ROWS else ()
                made._bodies[row] = (len(body) + _ROW, units)
                made._units.update(units)
        size = "LENGTH(meta) + COALESCE(LENGTH(data), 0)"
        for row, length, lines in connection.execute(f"SELECT id, {size}, blobs FROM units"):
            if row in made._units:
                addresses = lines.split("\n") if lines else ()
                made._contents[row] = (length + _ROW, addresses)
                made._blob_units.update(addresses)
        return made

    def release(self, state: int) -> int:
        """The state goes; gives the bytes that nobody needs then."""
        freed = _ROW
        for piece in _last(self._pieces, self._states[state]):
            size, units = self._bodies[piece]
            freed += size
            for unit in _last(self._units, units):
                size, addresses = self._contents[unit]
                freed += size + sum(map(self._blobs.size, _last(self._blob_units, addresses)))
        return freed


def _last(counts: Counter[K], keys: Iterable[K]) -> Iterator[K]:
    """Counts each key down; gives those that nobody has any more."""
    for key in keys:
        counts[key] -= 1
        if not counts[key]:
            yield key


def choose(
    connection: sqlite3.Connection, blobs: BlobStore, excess: int, young: str, spared: Container[int]
) -> tuple[list[int], int, bool]:
    """The states to evict for `excess` bytes, what they free, and whether there are more, used after `young`."""
    ledger = Ledger.read(connection, blobs)
    chosen: list[int] = []
    freed = 0
    for state, last in connection.execute(_EVICTABLE):
        if freed >= excess:
            break
        if last > young:
            return chosen, freed, True
        if state not in spared:
            chosen.append(state)
            freed += ledger.release(state)
    return chosen, freed, False


def take_names(transaction: Transaction, states: Iterable[int]) -> None:
    """The states lose all their names, and each name remembers why."""
    moment = timestamp()
    rows = [(state,) for state in states]
    for statement in (
        f"INSERT OR REPLACE INTO evicted SELECT workspace, name, '{moment}' FROM names WHERE state = ?",
        "INSERT OR IGNORE INTO orphans VALUES (?)",
        "DELETE FROM names WHERE state = ?",
    ):
        transaction.executemany(statement, rows)
    transaction.execute(
        "DELETE FROM evicted WHERE moment <= (SELECT moment FROM evicted ORDER BY moment DESC LIMIT 1 OFFSET ?)",
        (REMEMBERED,),
    )


class Evictor:
    """Keeps one home under a size; `collect` frees what has no name, and may be called at any time."""

    def __init__(
        self, home: Home, database: Database, pins: Pins, uses: Uses, collect: Callable[[Progress], object]
    ) -> None:
        self._home = home
        self._database = database
        self._pins = pins
        self._uses = uses
        self._collect = collect

    def keep(self, limit: int, grace: float, progress: Progress) -> Evicted:
        """Bring the home under `limit` bytes if it is over; states used in the last `grace` seconds stay.

        Files written in the last minute stay on the disk till the next sweep, and are not counted.
        """
        if self._home.size() <= limit:
            return Evicted()
        self._collect(progress)
        size = self._size()
        if size <= limit:
            return Evicted()
        self._uses.write()
        chosen, freed, waiting = self._choose(size - int(limit * SPARE), grace)
        if chosen:
            with self._database.write() as transaction:
                chosen = self._still_evictable(transaction.connection, chosen)
                take_names(transaction, chosen)
            self._collect(progress)
        return Evicted(len(chosen), freed, max(0, self._size() - limit), waiting)

    def preview(self, limit: int, grace: float, freed_before: int) -> Evicted:
        """What `keep` would do once so many bytes are freed."""
        size = self._home.size() - freed_before
        if size <= limit:
            return Evicted()
        chosen, freed, waiting = self._choose(size - int(limit * SPARE), grace)
        return Evicted(len(chosen), freed, max(0, size - freed - limit), waiting)

    def _choose(self, excess: int, grace: float) -> tuple[list[int], int, bool]:
        young = timestamp(datetime.fromtimestamp(time.time() - grace, timezone.utc))
        with self._database.long_read() as connection:
            return choose(connection, self._home.blobs, excess, young, self._in_use(connection))

    def _still_evictable(self, connection: sqlite3.Connection, chosen: Sequence[int]) -> list[int]:
        """Those of the states that nobody has labelled, or begun to use, since they were chosen."""
        in_use = self._in_use(connection)
        rows = select_in(connection, f"SELECT id FROM states s WHERE id IN ({{}}) AND {_MAY_GO}", chosen)
        return [state for (state,) in rows if state not in in_use]

    def _size(self) -> int:
        """Bytes of the home without the files that a later sweep removes."""
        with self._database.read() as connection:
            doomed = [address for (address,) in connection.execute("SELECT address FROM doomed")]
        return self._home.size() - sum(map(self._home.blobs.size, doomed))

    def _in_use(self, connection: sqlite3.Connection) -> set[int]:
        """What is pinned or held, by rows of which those of dead processes go with every sweep."""
        rows = connection.execute("SELECT state FROM pins UNION SELECT state FROM holds")
        return {state for (state,) in rows} | self._pins.held()
