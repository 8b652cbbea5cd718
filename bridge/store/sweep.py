"""Freeing what no state refers to any more: states that lost their name, then their rows, then blob files.

What is garbage is computed from one moment of the database, without holding anybody up, and freed in a short
write transaction that first takes out what was stored or pinned since. Blob files go last: a file is removed
only while writers are held off, when no unit needs it and it is older than the grace (a kernel may have just
written it, or found it there, for a state that is yet to be stored). A process killed half-way leaves nothing
wrong, only work.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from bridge.errors import HomeDamaged
from bridge.store.blobs import BlobStore
from bridge.store.contents import ROWS, Contents, decode_piece
from bridge.store.database import Database, Transaction, select_in
from bridge.store.locks import Owner
from bridge.store.manifest import unpack
from bridge.store.pins import Pins

GRACE = 60.0  # seconds a blob file is left alone after it was written or reused
STRAYS_AGE = 3600.0  # seconds after which a file that no state ever needed is taken for left over
INPUTS_GRACE = 3600.0  # seconds a cell stays in the chain table without a state that names it
READING, REMOVING = "reading states", "removing files"
_STATES_AT_ONCE = 1000  # states read between two reports of progress
_FILES_AT_ONCE = 100  # files looked at while writers wait
_VACUUM_PAGES = 64


Progress = Callable[[str, int, int], None]
"""Told how far a long work is: what is done, how many of how many."""


def no_progress(what: str, done: int, total: int) -> None:
    """Nobody looks."""


@dataclass(slots=True)
class Freed:
    """What a sweep freed; `bytes` are those of units and of blob files."""

    states: int = 0
    files: int = 0
    bytes: int = 0
    waiting: int = 0  # bytes of files that are too young to go yet


@dataclass(slots=True)
class Marks:
    """What some states refer to, by row number."""

    pieces: set[int] = field(default_factory=set)
    units: set[int] = field(default_factory=set)
    inputs: set[int] = field(default_factory=set)


@dataclass(slots=True)
class Chain:
    """The cells: the one before and the code piece of each, by row."""

    parents: dict[int, int | None] = field(default_factory=dict)
    codes: dict[int, int] = field(default_factory=dict)

    def read(self, connection: sqlite3.Connection, after: int) -> list[int]:
        """Add the cells with rows over `after`; gives their rows."""
        rows = connection.execute("SELECT id, parent, code FROM inputs WHERE id > ?", (after,)).fetchall()
        self.parents.update({row: parent for row, parent, _ in rows})
        self.codes.update({row: code for row, _, code in rows})
        return [row for row, _, _ in rows]

    def add_to(self, cells: set[int], row: int | None) -> None:
        """Add the row and all before it; those before one that is in `cells` are in it, too."""
        while row is not None and row not in cells:
            cells.add(row)
            row = self.parents.get(row)


@dataclass(slots=True)
class Garbage:
    """What one sweep may free, as of one moment; `last` are the last rows of that moment, by table."""

    states: set[int]
    marks: Marks
    blobs: set[str]
    chain: Chain
    last: dict[str, int]


class Sweeper:
    """Frees garbage of one home; several processes may do so at once."""

    def __init__(
        self, database: Database, blobs: BlobStore, contents: Contents, pins: Pins, owner: Owner
    ) -> None:
        self._database = database
        self._blobs = blobs
        self._contents = contents
        self._pins = pins
        self._owner = owner
        self._lock = threading.Lock()

    def has_work(self) -> bool:
        """Whether there are states without a name, or files waiting to be removed."""
        with self._database.read() as connection:
            return bool(
                connection.execute(
                    "SELECT EXISTS (SELECT 1 FROM orphans) OR EXISTS (SELECT 1 FROM doomed)"
                ).fetchone()[0]
            )

    def collect(self, grace: float, strays: float | None, progress: Progress = no_progress) -> Freed:
        """Free what can be freed; see Store.collect."""
        with self._lock:
            self._pins.settle()
            others = self._drop_dead_owners()
            if others:
                grace = max(grace, GRACE)
                strays = None if strays is None else max(strays, GRACE)
            freed = self._free_rows(grace, progress)
            self._free_files(grace, freed, progress)
            if strays is not None:
                self._free_strays(strays, freed, progress)
            self._shrink()
            return freed

    def preview(self, also: set[int], strays: float) -> Freed:
        """What `collect` would free if the states `also` had no names; young files are counted too."""
        with self._database.long_read() as connection:
            orphans = "SELECT state FROM orphans WHERE state NOT IN (SELECT state FROM names)"
            pins = connection.execute("SELECT owner, state FROM pins").fetchall()
            pinned = {state for owner, state in pins if self._owner.is_alive(owner)} | self._pins.held()
            states = ({row for (row,) in connection.execute(orphans)} | also) - pinned
            garbage = _find_garbage(connection, states, INPUTS_GRACE, no_progress)
            files = {
                address for (address,) in connection.execute("SELECT address FROM doomed")
            } | garbage.blobs
            size = _data_bytes(connection, garbage.marks.units)
            needed = set(_addresses(connection.execute("SELECT blobs FROM units WHERE blobs IS NOT NULL")))
        unknown = (address for address in self._blobs.list() if address not in needed)
        files.update(address for address in unknown if self._is_old(address, strays))
        return Freed(len(states), len(files), size + sum(map(self._blobs.size, files)))

    def _drop_dead_owners(self) -> list[str]:
        """Forget pins and open marks of processes that are gone; gives the other live owners."""
        others = self._owner.others()
        alive = [self._owner.id, *others]
        marks = ",".join("?" * len(alive))
        with self._database.read() as connection:
            dead = {
                owner
                for table in ("pins", "opened", "holds")
                for (owner,) in connection.execute(
                    f"SELECT owner FROM {table} WHERE owner NOT IN ({marks})", alive
                )
            }
        # Asked again one by one: an owner may have come in between the listing of the files and the reading.
        gone = [(owner,) for owner in dead if not self._owner.is_alive(owner)]
        if gone:
            with self._database.write() as transaction:
                transaction.executemany("DELETE FROM pins WHERE owner = ?", gone)
                transaction.executemany("DELETE FROM opened WHERE owner = ?", gone)
                transaction.executemany("DELETE FROM holds WHERE owner = ?", gone)
        return others

    def _free_rows(self, grace: float, progress: Progress) -> Freed:
        with self._database.write() as transaction:  # a state may have lost one of several names
            transaction.execute("DELETE FROM orphans WHERE state IN (SELECT state FROM names)")
        with self._database.long_read() as connection:
            orphans = {row for (row,) in connection.execute("SELECT state FROM orphans")}
            states = orphans - _pinned(connection) - self._pins.held()
            if not states:
                return Freed()
            garbage = _find_garbage(connection, states, 0.0 if grace == 0 else INPUTS_GRACE, progress)
        with self._database.write() as transaction:
            pinned = _pinned(transaction.connection) | self._pins.held()
            pinned |= {row for (row,) in transaction.execute("SELECT state FROM names")} & garbage.states
            _spare(transaction.connection, garbage, pinned)
            size, epoch = _delete(transaction, garbage)
            marks = garbage.marks
            transaction.after_commit(
                lambda: self._contents.forget(garbage.states, marks.units, marks.pieces, epoch)
            )
        return Freed(states=len(garbage.states), bytes=size)

    def _free_files(self, grace: float, freed: Freed, progress: Progress) -> None:
        with self._database.read() as connection:
            waiting = [address for (address,) in connection.execute("SELECT address FROM doomed")]
        for start in range(0, len(waiting), _FILES_AT_ONCE):
            part = waiting[start : start + _FILES_AT_ONCE]
            progress(REMOVING, start, len(waiting))
            with self._database.write() as transaction:
                # Whoever stores a unit that needs one of them takes it off the list in its transaction.
                still = select_in(
                    transaction.connection, "SELECT address FROM doomed WHERE address IN ({})", part
                )
                gone = [address for (address,) in list(still) if self._is_old(address, grace)]
                self._remove(gone, freed)
                freed.waiting += sum(self._blobs.size(address) for address in set(part).difference(gone))
                transaction.executemany("DELETE FROM doomed WHERE address = ?", [(each,) for each in gone])
        progress(REMOVING, len(waiting), len(waiting))

    def _free_strays(self, grace: float, freed: Freed, progress: Progress) -> None:
        """Remove old files that no unit ever came to need: their cell failed, or their process was killed."""
        with self._database.long_read() as connection:
            last = _last(connection, "units")
            needed = {address for (address,) in connection.execute("SELECT address FROM doomed")}
            needed.update(_addresses(connection.execute("SELECT blobs FROM units WHERE blobs IS NOT NULL")))
        strays = [
            address
            for address in self._blobs.list()
            if address not in needed and self._is_old(address, grace)
        ]
        freed.bytes += self._blobs.tidy(grace, time.time())
        for start in range(0, len(strays), _FILES_AT_ONCE):
            part = strays[start : start + _FILES_AT_ONCE]
            progress(REMOVING, start, len(strays))
            with self._database.write() as transaction:
                since = "SELECT blobs FROM units WHERE blobs IS NOT NULL AND id > ?"
                taken = set(_addresses(transaction.execute(since, (last,))))
                gone = [address for address in part if address not in taken and self._is_old(address, grace)]
                self._remove(gone, freed)
        progress(REMOVING, len(strays), len(strays))

    def _remove(self, addresses: Sequence[str], freed: Freed) -> None:
        freed.bytes += sum(map(self._blobs.delete, addresses))
        freed.files += len(addresses)

    def _is_old(self, address: str, grace: float) -> bool:
        age = self._blobs.age(address, time.time())
        return age is None or grace == 0 or age > grace

    def _shrink(self) -> None:
        """Give free pages of the database back to the disk, a few at a time: writers get their turns."""
        free = self._free_pages()
        while free > _VACUUM_PAGES:  # as many are kept for what comes next
            self._database.pragma(f"PRAGMA incremental_vacuum({_VACUUM_PAGES})")
            before, free = free, self._free_pages()
            if free >= before:  # writers free more than this takes: the next sweep goes on
                return

    def _free_pages(self) -> int:
        with self._database.read() as connection:
            return int(connection.execute("PRAGMA freelist_count").fetchone()[0])


def _pinned(connection: sqlite3.Connection) -> set[int]:
    return {row for (row,) in connection.execute("SELECT state FROM pins")}


def _last(connection: sqlite3.Connection, table: str) -> int:
    return int(connection.execute(f"SELECT COALESCE(MAX(id), 0) FROM {table}").fetchone()[0])


def _addresses(rows: Iterable[tuple[Any, ...]]) -> Iterator[str]:
    for (blobs,) in rows:
        yield from blobs.split("\n")


def _find_garbage(
    connection: sqlite3.Connection, states: set[int], inputs_grace: float, progress: Progress
) -> Garbage:
    """What only `states` refer to, and old cells that no state refers to."""
    last = {table: _last(connection, table) for table in ("states", "units", "inputs")}
    chain = Chain()
    chain.read(connection, 0)
    dropped, kept = Marks(), Marks()
    total = int(connection.execute("SELECT COUNT(*) FROM states").fetchone()[0])
    found = connection.execute("SELECT id, code, inputs, extra, units, names FROM states")
    for number, (row, *refs) in enumerate(found):
        if number % _STATES_AT_ONCE == 0:
            progress(READING, number, total)
        _mark_state(dropped if row in states else kept, refs, chain)
    progress(READING, total, total)
    # A cell added lately may belong to a state that is yet to come.
    for (row,) in connection.execute(
        "SELECT id FROM inputs WHERE created > ?", (time.time() - inputs_grace,)
    ):
        chain.add_to(kept.inputs, row)
    dropped.inputs = set(chain.parents) - kept.inputs
    dropped.pieces.update(chain.codes[row] for row in dropped.inputs)
    dropped.pieces -= kept.pieces
    dropped.pieces.difference_update(code for row, code in chain.codes.items() if row in kept.inputs)
    dropped.units = _units_of(connection, dropped.pieces)
    if dropped.units:
        dropped.units -= _units_of(connection, kept.pieces)
    blobs = set(_blobs_of(connection, dropped.units))
    if blobs:
        for row, lines in connection.execute("SELECT id, blobs FROM units WHERE blobs IS NOT NULL"):
            if row not in dropped.units:
                blobs.difference_update(lines.split("\n"))
    return Garbage(states, dropped, blobs, chain, last)


def _mark_state(marks: Marks, refs: Sequence[Any], chain: Chain) -> None:
    code, inputs, *packed = refs
    try:
        marks.pieces.add(code)
        for numbers in packed:
            marks.pieces.update(unpack(numbers))
    except ValueError as error:
        raise HomeDamaged(f"a state's record is damaged ({error}); nothing was freed") from error
    chain.add_to(marks.inputs, inputs)


def _units_of(connection: sqlite3.Connection, pieces: Iterable[int]) -> set[int]:
    units: set[int] = set()
    try:
        for (body,) in select_in(connection, "SELECT body FROM pieces WHERE id IN ({})", list(pieces)):
            if body[:1] == ROWS:
                units.update(decode_piece(body)[1])
    except ValueError as error:
        raise HomeDamaged(f"a list of units is damaged ({error}); nothing was freed") from error
    return units


def _blobs_of(connection: sqlite3.Connection, units: Iterable[int]) -> Iterator[str]:
    statement = "SELECT blobs FROM units WHERE blobs IS NOT NULL AND id IN ({})"
    return _addresses(select_in(connection, statement, list(units)))


def _spare(connection: sqlite3.Connection, garbage: Garbage, pinned: set[int]) -> None:
    """Take out of the garbage what was pinned or stored since it was computed."""
    chain, marks, kept = garbage.chain, garbage.marks, Marks()
    for row in chain.read(connection, garbage.last["inputs"]):
        chain.add_to(kept.inputs, row)
    again = garbage.states & pinned
    columns = "SELECT code, inputs, extra, units, names FROM states WHERE id "
    for refs in connection.execute(columns + "> ?", (garbage.last["states"],)):
        _mark_state(kept, refs, chain)
    for refs in select_in(connection, columns + "IN ({})", list(again)):
        _mark_state(kept, refs, chain)
    kept.pieces.update(chain.codes[row] for row in kept.inputs if row in chain.codes)
    kept.units = _units_of(connection, kept.pieces)
    garbage.states -= again
    marks.inputs -= kept.inputs
    marks.pieces -= kept.pieces
    marks.units -= kept.units
    garbage.blobs.difference_update(_blobs_of(connection, kept.units))


def _data_bytes(connection: sqlite3.Connection, units: Iterable[int]) -> int:
    statement = "SELECT COALESCE(SUM(LENGTH(data)), 0) FROM units WHERE id IN ({})"
    return sum(part for (part,) in select_in(connection, statement, list(units)))


def _delete(transaction: Transaction, garbage: Garbage) -> tuple[int, int]:
    """Delete the rows and list the files to remove; gives the bytes of units and the new epoch."""
    marks = garbage.marks
    freed = _data_bytes(transaction.connection, marks.units)
    for statement, rows in (
        ("DELETE FROM orphans WHERE state = ?", garbage.states),
        ("DELETE FROM states WHERE id = ?", garbage.states),
        ("DELETE FROM units WHERE id = ?", marks.units),
        ("DELETE FROM pieces WHERE id = ?", marks.pieces),
        ("DELETE FROM inputs WHERE id = ?", marks.inputs),
    ):
        transaction.executemany(statement, [(row,) for row in rows])
    transaction.executemany(
        "INSERT OR IGNORE INTO doomed VALUES (?)", [(address,) for address in garbage.blobs]
    )
    transaction.execute("UPDATE meta SET value = value + 1 WHERE key = 'epoch'")
    return freed, int(transaction.execute("SELECT value FROM meta WHERE key = 'epoch'").fetchone()[0])
