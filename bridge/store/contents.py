"""Rows that states share, by content: units, and pieces (runs of unit rows, runs of names, texts).

What this process has stored or loaded is remembered, so that an unchanged unit costs one dictionary lookup.
Another process may free rows meanwhile: each freeing raises `epoch` in the database, and a write transaction
that finds a new one forgets all row numbers and finds them again by content.
"""

from __future__ import annotations

import hashlib
import json
import operator
import sqlite3
import threading
import weakref
import zlib
from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bridge.errors import StoreError
from bridge.store.blobs import BlobStore
from bridge.store.database import Transaction, select_in
from bridge.store.manifest import State, Unit, pack, to_bytes, to_text, unpack

ROWS, NAMES, TEXT = b"r", b"n", b"t"  # the kinds of pieces: the first byte of a piece's body
_PIECES_REMEMBERED = 20_000
_LINES_REMEMBERED = 128
_WORTH_COMPRESSING = 128
_UNIT_OVERHEAD = 1000  # bytes a remembered unit takes beside its data, roughly

Payload = tuple[Any, ...]  # (kind, numbers) | (kind, names) | (kind, text): what a piece says


def to_json(value: Any) -> str:
    """Compact ASCII JSON: lone surrogates and non-finite numbers survive the way back."""
    return json.dumps(value, separators=(",", ":"))


def encode_piece(payload: Payload) -> bytes:
    """The stored body of a piece."""
    kind, value = payload
    if kind == ROWS:
        return ROWS + pack(value)
    raw = to_bytes(to_json(value) if kind == NAMES else value)
    if len(raw) < _WORTH_COMPRESSING:
        return bytes(kind + b"-" + raw)
    return bytes(kind + b"z" + zlib.compress(raw, 1))


def decode_piece(body: bytes) -> Payload:
    """What `encode_piece` was given. ValueError or zlib.error for a damaged body."""
    kind = body[:1]
    if kind == ROWS:
        return ROWS, unpack(body[1:])
    raw = zlib.decompress(body[2:]) if body[1:2] == b"z" else body[2:]
    text = to_text(raw)
    return (NAMES, tuple(json.loads(text))) if kind == NAMES else (kind, text)


def encode_unit(unit: Unit) -> tuple[bytes, str, bytes | None, str | None]:
    """The columns ident, meta, data, blobs of a unit."""
    meta = to_json([unit.key, unit.digest, unit.names, dict(unit.record), unit.size])
    blobs = "\n".join(unit.blobs) or None
    ident = hashlib.blake2b(f"{meta}\n{blobs}\n{unit.data is None}\n".encode(), digest_size=16)
    ident.update(unit.data or b"")
    return ident.digest(), meta, unit.data, blobs


def decode_unit(meta: str, data: bytes | None, blobs: str | None) -> Unit:
    """The unit of a row."""
    key, digest, names, record, size = json.loads(meta)
    return Unit(key, digest, tuple(names), record, data, tuple(blobs.split("\n")) if blobs else (), size)


class _Known(weakref.ref[Unit]):
    """A remembered unit that its last user may still let go of."""

    __slots__ = ("bytes", "ident", "row")
    bytes: int
    ident: int
    row: int


class Contents:
    """The shared rows of one database and what this process knows of them."""

    def __init__(self, blobs: BlobStore) -> None:
        self._blobs = blobs
        self._lock = threading.Lock()
        self._epoch = -1
        self._known: dict[int, _Known] = {}  # by id(unit): its row
        self._loaded: dict[int, _Known] = {}  # by row: the unit
        self._dead: deque[_Known] = deque()
        self._held = 0
        self._pieces: OrderedDict[Payload, int] = OrderedDict()
        self._lines: OrderedDict[int, Sequence[int]] = OrderedDict()  # by state: its unit rows

    def begin(self, transaction: Transaction) -> None:
        """Forget row numbers if any process has freed rows; the first call of a write that reuses rows."""
        epoch = read_epoch(transaction.connection)
        with self._lock:
            if epoch != self._epoch:
                self._known.clear()
                self._pieces.clear()
                self._lines.clear()
                self._epoch = epoch

    def unit_rows(self, transaction: Transaction, units: Sequence[Unit], parent: State | None) -> list[int]:
        """The rows of the units, new ones inserted. StoreError when a blob of a new one is not there.

        `parent` is a state that most of them come from, in the same places: these cost next to nothing.
        """
        self._bury()
        rows = self._rows_of_parent(units, parent)
        fresh: list[tuple[Unit, int]] = []
        for place in [place for place, row in enumerate(rows) if not row]:
            unit = units[place]
            known = self._known.get(id(unit))
            if known is not None and known() is unit:
                rows[place] = known.row
            else:
                rows[place] = self._store_unit(transaction, unit)
                fresh.append((unit, rows[place]))
        if fresh:
            transaction.after_commit(lambda: self._remember(fresh))
        return rows

    def _rows_of_parent(self, units: Sequence[Unit], parent: State | None) -> list[int]:
        """The rows of those units that the parent has in the same place, 0 for the others."""
        lined = self._lines.get(parent.id) if parent is not None else None
        if parent is None or lined is None:
            return [0] * len(units)
        same = map(operator.is_, units, parent.manifest.units.values())
        rows = list(map(operator.mul, lined, same))
        return rows + [0] * (len(units) - len(rows))

    def remember_line(self, state: int, rows: Sequence[int], epoch: int | None = None) -> None:
        """The unit rows of a state in order; `epoch` when they were read and not written."""
        with self._lock:
            if epoch is None or epoch == self._epoch:
                self._lines[state] = rows
                if len(self._lines) > _LINES_REMEMBERED:
                    self._lines.popitem(last=False)

    def piece(self, transaction: Transaction, kind: bytes, value: Any) -> int:
        """The row of a piece, inserted when new."""
        payload = (kind, value)
        row = self._pieces.get(payload)
        if row is None:
            body = encode_piece(payload)
            ident = hashlib.blake2b(body, digest_size=16).digest()
            row = _insert_once(transaction, "pieces", "(ident, body)", (ident, body))
            found = [(payload, row)]
            transaction.after_commit(lambda: self._remember_pieces(found))
        return row

    def load_pieces(
        self, connection: sqlite3.Connection, rows: Sequence[int], epoch: int
    ) -> dict[int, Payload]:
        """What the pieces say. KeyError (later, on use) for one that is missing."""
        wanted = list(dict.fromkeys(rows))
        found = {
            row: decode_piece(body)
            for row, body in select_in(connection, "SELECT id, body FROM pieces WHERE id IN ({})", wanted)
        }
        self._remember_pieces([(payload, row) for row, payload in found.items()], epoch)
        return found

    def load_units(self, connection: sqlite3.Connection, rows: Sequence[int], epoch: int) -> dict[int, Unit]:
        """The units of the rows; one object for one row, however many states hold it."""
        self._bury()
        found: dict[int, Unit] = {}
        for row in rows:
            known = self._loaded.get(row)
            unit = known() if known is not None else None
            if unit is not None:
                found[row] = unit
        missing = [row for row in rows if row not in found]
        fresh: list[tuple[Unit, int]] = []
        statement = "SELECT id, meta, data, blobs FROM units WHERE id IN ({})"
        for row, meta, data, blobs in select_in(connection, statement, missing):
            found[row] = decode_unit(meta, data, blobs)
            fresh.append((found[row], row))
        if fresh:
            self._remember(fresh, epoch)
        return found

    def forget(self, states: Iterable[int], units: Iterable[int], pieces: Iterable[int], epoch: int) -> None:
        """These rows were freed by this process, which made the epoch `epoch`."""
        gone_units, gone_pieces = set(units), set(pieces)
        with self._lock:
            for state in states:
                self._lines.pop(state, None)
            for row in gone_units:
                self._loaded.pop(row, None)
            for ident in [ident for ident, known in self._known.items() if known.row in gone_units]:
                del self._known[ident]
            for payload in [payload for payload, row in self._pieces.items() if row in gone_pieces]:
                del self._pieces[payload]
            if epoch == self._epoch + 1:  # else another process freed rows too, and `begin` has to see that
                self._epoch = epoch

    def held(self) -> int:
        """Bytes of the units that are in memory, roughly."""
        self._bury()
        return self._held

    def _store_unit(self, transaction: Transaction, unit: Unit) -> int:
        columns = encode_unit(unit)
        if unit.blobs:
            lost = [address for address in unit.blobs if not self._blobs.has(address)]
            if lost:
                raise StoreError(
                    f"{len(lost)} blobs of {unit.key!r} are not in the home, the first is {lost[0]}"
                )
            if transaction.execute("SELECT EXISTS (SELECT 1 FROM doomed)").fetchone()[0]:
                transaction.executemany(
                    "DELETE FROM doomed WHERE address = ?", [(each,) for each in unit.blobs]
                )
        return _insert_once(transaction, "units", "(ident, meta, data, blobs)", columns)

    def _remember(self, fresh: Sequence[tuple[Unit, int]], epoch: int | None = None) -> None:
        with self._lock:
            for unit, row in fresh:
                known = _Known(unit, self._dead.append)
                known.ident, known.row, known.bytes = id(unit), row, len(unit.data or b"") + _UNIT_OVERHEAD
                self._held += known.bytes
                self._loaded[row] = known
                if epoch is None or epoch == self._epoch:
                    self._known[known.ident] = known

    def _remember_pieces(self, pieces: Sequence[tuple[Payload, int]], epoch: int | None = None) -> None:
        with self._lock:
            if epoch is None or epoch == self._epoch:
                self._pieces.update(pieces)
                while len(self._pieces) > _PIECES_REMEMBERED:
                    self._pieces.popitem(last=False)

    def _bury(self) -> None:
        """Drop what is remembered of units that are gone. (The garbage collector only queues them: it may run
        anywhere, inside our own lock too.)"""
        with self._lock:
            while self._dead:
                known = self._dead.popleft()
                self._held -= known.bytes
                for index, key in ((self._known, known.ident), (self._loaded, known.row)):
                    if index.get(key) is known:
                        del index[key]


def read_epoch(connection: sqlite3.Connection) -> int:
    """How often rows have been freed in this home."""
    return int(connection.execute("SELECT value FROM meta WHERE key = 'epoch'").fetchone()[0])


def _insert_once(transaction: Transaction, table: str, columns: str, values: tuple[Any, ...]) -> int:
    marks = ", ".join("?" * len(values))
    cursor = transaction.execute(f"INSERT OR IGNORE INTO {table} {columns} VALUES ({marks})", values)
    if cursor.rowcount and cursor.lastrowid is not None:
        return cursor.lastrowid
    found = transaction.execute(f"SELECT id FROM {table} WHERE ident = ?", values[:1]).fetchone()
    return int(found[0])


def split_info(info: Mapping[str, Any], large: int = 256) -> tuple[str, list[str]]:
    """The info as JSON with its large values taken out, and these as JSON texts, in order."""
    kept: list[str] = []
    taken: list[str] = []
    for key, value in info.items():
        text = to_json(value)
        if len(text) > large:
            taken.append(text)
            kept.append(f"[{to_json(key)}]")
        else:
            kept.append(f"[{to_json(key)},{text}]")
    return "[" + ",".join(kept) + "]", taken


def join_info(kept: str, taken: Sequence[str]) -> dict[str, Any]:
    """The info that `split_info` was given, as JSON gives it back."""
    rest = iter(taken)
    return {entry[0]: entry[1] if len(entry) == 2 else json.loads(next(rest)) for entry in json.loads(kept)}
