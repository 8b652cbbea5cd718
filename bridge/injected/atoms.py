"""NumPy arrays of Python's own atoms, a column of texts above all: stored in pieces, and pickled once.

An atom never changes, so a piece is as it was stored as long as it points to the very same objects. These are kept
alive, so that no other object can come to lie where one of them lies: then equal pointers mean equal content, and an
untouched piece costs a hash of its pointers. NumPy is the user's: it is reached only when an array is met.
"""

from __future__ import annotations

import ctypes
import pickle
import sys
from collections.abc import Iterator, MutableMapping
from typing import Any

from . import blobs
from .sharing import ATOMS

PIECE = 32 * 1024  # elements


class Piece:
    """Elements in a row as they are stored: the blob's address, its size in bytes, and the elements themselves."""

    __slots__ = ("__weakref__", "_elements", "address", "size")

    def __init__(self, elements: Any, address: str, size: int) -> None:
        self._elements, self.address, self.size = elements, address, size


Pieces = MutableMapping[str, Piece]
"""By the hash of their pointers, the pieces that the units at hand consist of."""


def store(array: Any, known: Pieces, folder: blobs.Folder) -> list[Piece] | None:
    """The pieces of a contiguous array of objects, new ones written; None when it holds anything but atoms.

    OSError when one cannot be written.
    """
    pieces = []
    for elements in _cut(array):
        piece = known.get(_key(elements))
        if piece is None or not folder.relies_on(piece.address):
            elements = elements.copy()  # a thread of the notebook's may go on writing to the array
            items = elements.tolist()
            if not all(map(_is_atomic, set(map(type, items)))):
                return None
            data = pickle.dumps(items, protocol=5)
            piece = known[_key(elements)] = Piece(elements, folder.put(data), len(data))
        pieces.append(piece)
    return pieces


def load(
    addresses: list[str], shape: tuple[int, ...], order: str, known: Pieces, folder: blobs.Folder
) -> tuple[Any, list[Piece]]:
    """An array from its pieces, and these."""
    array = sys.modules["numpy"].empty(shape, object, order=order)
    pieces = []
    for elements, address in zip(_cut(array), addresses, strict=True):
        data = folder.read(address)
        elements[:] = pickle.loads(data)
        piece = known[_key(elements)] = Piece(elements.copy(), address, len(data))
        pieces.append(piece)
    return array, pieces


def _cut(array: Any) -> Iterator[Any]:
    """Views of a contiguous array's elements, as they follow each other in memory."""
    flat = array.ravel(order="K")
    return (flat[start : start + PIECE] for start in range(0, len(flat), PIECE))


def _key(elements: Any) -> str:
    """The hash of these elements' pointers."""
    begin = elements.__array_interface__["data"][0]
    return blobs.address_of(memoryview((ctypes.c_char * elements.nbytes).from_address(begin)).cast("B"))


def _is_atomic(kind: type) -> bool:
    """Whether objects of this type never change and nobody relies on which one it is; so too pandas' `NA`."""
    return kind in ATOMS or kind is type(getattr(sys.modules.get("pandas"), "NA", None))
