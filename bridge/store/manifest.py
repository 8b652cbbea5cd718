"""What a state is made of, as plain data, and the packing of row numbers. Nothing here touches a disk."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

# A list of unit rows is cut after every row number that is 31 modulo 32: a cut that depends on the rows and
# not on their positions, so that one changed, added or removed unit changes one piece, not all later ones.
_CUT = 32
_LONGEST_PIECE = 256
NAMES_PER_PIECE = 64


class _Weak:
    """Gives the slotted dataclass below weak references (`weakref_slot` needs Python 3.11)."""

    __slots__ = ("__weakref__",)


@dataclass(frozen=True, slots=True)
class Unit(_Weak):
    """A serialised group of names: everything that is pickled together.

    `record` holds JSON values only and is opaque to the store. `size` is in bytes, pickle and buffers.
    """

    key: str  # names the unit inside a state; unique there
    digest: str  # decides equality: the same digest is the same content on load
    names: tuple[str, ...]  # top-level names it binds (may be empty)
    record: Mapping[str, Any]
    data: bytes | None  # the pickle when small, else None (it is then among `blobs`)
    blobs: tuple[str, ...]  # addresses of every blob it needs
    size: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """The content of one namespace: its units by key and its names in dict order."""

    units: Mapping[str, Unit]
    order: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class State:
    """One immutable state. `parent` is the id of the state it was made from, which may be gone by now."""

    id: int
    parent: int | None
    created: str  # UTC, ISO 8601 with microseconds and "Z"
    code: str
    inputs: int | None  # row of the last cell of its chain of cells, see Store.inputs
    info: Mapping[str, Any]  # JSON, opaque to the store
    manifest: Manifest


def timestamp(moment: datetime | None = None) -> str:
    """The moment (default: now) as the store writes it: `2026-12-02T00:53:07.123456Z`."""
    text = (moment or datetime.now(timezone.utc)).astimezone(timezone.utc).isoformat(timespec="microseconds")
    return text.replace("+00:00", "Z")


def to_bytes(name: str) -> bytes:
    """A name as it is stored; any text, lone surrogates included."""
    return name.encode("utf-8", "surrogatepass")


def to_text(stored: bytes) -> str:
    """The name that was stored."""
    return stored.decode("utf-8", "surrogatepass")


def pack(numbers: Iterable[int]) -> bytes:
    """Whole numbers as differences, zigzag and variable length: a run of neighbours takes a byte each."""
    out = bytearray()
    last = 0
    for number in numbers:
        step = number - last
        last = number
        value = step * 2 if step >= 0 else -step * 2 - 1
        while value > 0x7F:
            out.append(value & 0x7F | 0x80)
            value >>= 7
        out.append(value)
    return bytes(out)


def unpack(packed: bytes) -> tuple[int, ...]:
    """The numbers that `pack` was given. ValueError for bytes that end inside a number."""
    numbers: list[int] = []
    last = value = shift = 0
    for byte in packed:
        value |= (byte & 0x7F) << shift
        if byte & 0x80:
            shift += 7
            continue
        last += -(value + 1 >> 1) if value & 1 else value >> 1
        numbers.append(last)
        value = shift = 0
    if shift:
        raise ValueError("packed numbers end too early")
    return tuple(numbers)


def cut_rows(rows: Sequence[int]) -> list[tuple[int, ...]]:
    """The rows in pieces; lists that share a run of rows share the pieces inside that run."""
    ends = [end for end, row in enumerate(rows, 1) if row % _CUT == _CUT - 1]
    pieces: list[tuple[int, ...]] = []
    start = 0
    for end in [*ends, len(rows)]:
        while start < end:
            pieces.append(tuple(rows[start : min(end, start + _LONGEST_PIECE)]))
            start += len(pieces[-1])
    return pieces


def cut_names(order: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The names in pieces of a fixed length: names are nearly always added at the end."""
    return [order[start : start + NAMES_PER_PIECE] for start in range(0, len(order), NAMES_PER_PIECE)]
