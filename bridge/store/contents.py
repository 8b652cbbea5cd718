"""Rows that states share, by content: units, and pieces (runs of unit rows, runs of names, texts).

What this process has stored or loaded is remembered, so that an unchanged unit costs one dictionary lookup.
Another process may free rows meanwhile: each freeing raises `epoch` in the database, and a write transaction that
finds a new one forgets all row numbers and finds them again by content.
"""

from __future__ import annotations

import hashlib
import json
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
from bridge.store.manifest import Unit, pack, to_bytes, to_text, unpack

ROWS, NAMES, TEXT = b"r", b"n", b"t"  # the kinds of pieces: the first byte of a piece's body
_PIECES_REMEMBERED = 20_000
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

    def begin(self, transaction: Transaction) -> None:
        """Forget row numbers if any process has freed rows since; the first call of a write that reuses rows."""
        epoch = read_epoch(transaction.connection)
        with self._lock:
            if epoch != self._epoch:
                self._known.clear()
                self._pieces.clear()
                self._epoch = epoch

    def unit_rows(self, transaction: Transaction, units: Iterable[Unit]) -> list[int]:
        """The rows of the units, new ones inserted. StoreError when a blob of a new one is not there."""
        self._bury()
        known = self._known
        rows: list[int] = []
        fresh: list[tuple[Unit, int]] = []
        for unit in units:
            found = known.get(id(unit))
            if found is not None and found() is unit:
                rows.append(found.row)
            else:
                rows.append(self._store_unit(transaction, unit))
                fresh.append((unit, rows[-1]))
        if fresh:
            transaction.after_commit(lambda: self._remember(fresh))
        return rows

    def piece(self, transaction: Transaction, kind: bytes, value: Any) -> int:
        """The row of a piece, inserted when new."""
        payload = (kind, value)
        row = self._pieces.get(payload)
        if row is None:
            body = encode_piece(payload)
            ident = hashlib.blake2b(body, digest_size=16).digest()
            row = _insert_once(transaction, "pieces", "(ident, body)", (ident, body))
            found = row
            transaction.after_commit(lambda: self._remember_piece(payload, found))
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
        with self._lock:
            is_current = epoch == self._epoch
        if is_current:
            for row, payload in found.items():
                self._remember_piece(payload, row)
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

    def forget(self, units: Iterable[int], pieces: Iterable[int], epoch: int) -> None:
        """These rows were freed by this process, which made the epoch `epoch`."""
        gone_units, gone_pieces = set(units), set(pieces)
        with self._lock:
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

    def _remember_piece(self, payload: Payload, row: int) -> None:
        with self._lock:
            self._pieces[payload] = row
            if len(self._pieces) > _PIECES_REMEMBERED:
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
    found = transaction.execute(f"SELECT id FROM {table} WHERE ident = ?", values[:1]).fetchone()
    if found is not None:
        return int(found[0])
    marks = ", ".join("?" * len(values))
    row = transaction.execute(f"INSERT INTO {table} {columns} VALUES ({marks})", values).lastrowid
    assert row is not None  # always set after an INSERT
    return row


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
