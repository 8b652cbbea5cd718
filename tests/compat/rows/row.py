"""One line of the compatibility table: how an object of a class is made, and what is asked of it."""

from __future__ import annotations

from dataclasses import dataclass

APART = 64 * 1024
"""Bytes from which on a buffer is expected out of band."""


@dataclass(frozen=True)
class Row:
    """`make` and `check` are expressions; in `check` the object is called `x`, and both see what `before` defines.

    `check` must give the same text for equal objects, whatever the process: no addresses, no order of sets.
    `alone` False: two objects of the class share something by nature, so one unit for both is right.
    `apart` are bytes that must be stored out of band, at least.
    """

    name: str
    make: str
    check: str
    before: str = ""
    alone: bool = True
    apart: int = 0


APART = 64 * 1024
"""Bytes from which on a buffer is expected out of band."""


@dataclass(frozen=True)
class Library:
    """The rows of one library; `module` is what must be importable for them, `before` is run for each of them."""

    name: str
    module: str
    before: str
    rows: tuple[Row, ...]
