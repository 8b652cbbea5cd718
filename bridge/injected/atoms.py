"""Large collections of Python's own atoms — a list or dict of texts, a column of them — in pieces, pickled once.

An atom never changes, so a piece is as it was stored as long as it points to the very same objects. These are kept
alive, so that no other object can come to lie where one of them lies: then equal pointers mean equal content, and an
untouched piece costs a hash of its pointers. NumPy is the user's: it is reached only when an array is met.
"""

from __future__ import annotations

import ctypes
import pickle
import sys
from collections.abc import MutableMapping, Sequence
from itertools import chain
from typing import Any

from . import blobs, rebuild, reducers
from .sharing import ATOMS

PIECE = 32 * 1024  # elements
MANY = 8 * 1024  # elements of a list, dict or set from which on it is cut
_LONG = (
    256  # bytes of a text, in the mean, from which on it matters whether it is stored once or once a piece
)
_KINDS: dict[type, str] = {list: "list", tuple: "tuple", dict: "dict", set: "set", frozenset: "frozenset"}


class Piece:
    """Elements in a row as they are stored: the blob's address, its size in bytes, and the elements themselves."""

    __slots__ = ("__weakref__", "_elements", "address", "size")

    def __init__(self, elements: Any, address: str, size: int) -> None:
        self._elements, self.address, self.size = elements, address, size


Pieces = MutableMapping[str, Piece]
"""By the hash of their pointers, the pieces that the units at hand consist of."""


class Apart:
    """Stands in a pickle for a list, tuple, dict or set, of which the unit's array of that index has the elements."""

    def __init__(self, index: int, collection: Any) -> None:
        self.reduced = rebuild.collection, (index, _KINDS[type(collection)])


reducers.enter(Apart, lambda saving, obj: obj.reduced)


def may_be_cut(value: Any) -> bool:
    """Whether a value is a large list, tuple, dict or set that begins with atoms."""
    if type(value) not in _KINDS or len(value) < MANY:
        return False
    first = next(iter(value.items())) if type(value) is dict else (next(iter(value)),)
    return all(type(each) in ATOMS for each in first)


def store(collection: Any, known: Pieces, folder: blobs.Folder) -> list[Piece] | None:
    """The pieces of a contiguous array of objects, or of what `may_be_cut`, new ones written.

    None when it holds anything but atoms, or long texts over and over. OSError when a piece cannot be written.
    """
    pieces = []
    row = _row(collection)
    for start in range(0, len(row), PIECE):
        piece = known.get(_key(row, start))
        if piece is None or not folder.relies_on(piece.address):
            elements = row[start : start + PIECE]
            if type(row) is not tuple:
                elements = elements.copy()  # a thread of the notebook's may go on writing to the array
            items = list(elements)
            if not all(map(_is_atomic, set(map(type, items)))) or (_are_long(items) and _repeats(row)):
                return None
            data = pickle.dumps(items, protocol=5)
            piece = known[_key(elements)] = Piece(elements, folder.put(data), len(data))
        pieces.append(piece)
    return pieces


def load_array(
    addresses: list[str], shape: tuple[int, ...], order: str, known: Pieces, folder: blobs.Folder
) -> tuple[Any, list[Piece]]:
    """An array from its pieces, and these."""
    array = sys.modules["numpy"].empty(shape, object, order=order)
    pieces = []
    row = _row(array)
    for start, address in zip(range(0, len(row), PIECE), addresses, strict=True):
        data = folder.read(address)
        elements = row[start : start + PIECE]
        elements[:] = pickle.loads(data)
        piece = known[_key(elements)] = Piece(elements.copy(), address, len(data))
        pieces.append(piece)
    return array, pieces


def load_items(addresses: list[str], known: Pieces, folder: blobs.Folder) -> tuple[list[Any], list[Piece]]:
    """The elements in these pieces in a row, and the pieces."""
    items: list[Any] = []
    pieces = []
    for address in addresses:
        data = folder.read(address)
        elements = tuple(pickle.loads(data))
        piece = known[_key(elements)] = Piece(elements, address, len(data))
        pieces.append(piece)
        items += elements
    return items, pieces


def _row(collection: Any) -> Any:
    """All elements as they follow each other: a view of an array's, else a tuple; of a dict keys and values in turns.

    No other thread can change a collection of atoms while it is taken: C does it, and runs no code of theirs.
    """
    if type(collection) is dict:
        return tuple(chain.from_iterable(collection.items()))
    return tuple(collection) if type(collection) in _KINDS else collection.ravel(order="K")


def _key(row: Any, start: int = 0) -> str:
    """The hash of a piece's pointers."""
    begin = (
        id(row) + tuple.__basicsize__ if type(row) is tuple else row.__array_interface__["data"][0]
    ) + start * tuple.__itemsize__
    size = min(PIECE, len(row) - start) * tuple.__itemsize__
    return blobs.address_of(memoryview((ctypes.c_char * size).from_address(begin)).cast("B"))


def _is_atomic(kind: type) -> bool:
    """Whether objects of this type never change and nobody relies on which one it is; so too pandas' `NA`."""
    return kind in ATOMS or kind is type(getattr(sys.modules.get("pandas"), "NA", None))


def _are_long(items: list[Any]) -> bool:
    return sum(len(each) for each in items if type(each) in (str, bytes)) > _LONG * len(items)


def _repeats(row: Sequence[Any]) -> bool:
    """Whether the same objects are met over and over: a pickle of the whole would have each once."""
    return 2 * len(set(map(id, row))) < len(row)
