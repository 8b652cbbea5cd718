"""A unit in the making: what a saver pickles together, and what it learns of that."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from typing import Any

from . import atoms, rebuild


class Body:
    """Stands in a pickle for the content of a node, which is filled in the moment it is loaded."""

    def __init__(self, key: str, content: Any) -> None:
        self.key, self.content = key, content

    def __reduce__(self) -> tuple[Any, ...]:
        return rebuild.fill, (self.key, self.content)


@dataclass(slots=True, eq=False)
class Part:
    """A unit in the making."""

    roots: dict[str, Any]
    nodes: dict[str, Any] = field(default_factory=dict)
    arrays: list[Any] = field(default_factory=list)  # and, for one of atoms, the list of its pieces
    buffers: list[pickle.PickleBuffer] = field(default_factory=list)
    refs: set[str] = field(default_factory=set)
    files: set[str] = field(default_factory=set)
    globals: set[str] = field(default_factory=set)
    problems: set[str] = field(default_factory=set)
    engine: str = "pickle"
    transparent: bool = False  # the pickler has met all that can be reached from it, or names it by its key
    data: bytes = b""
    pickler: Any = None  # keeps what the memo lists alive
    failure: str | None = None
    joined: list[tuple[list[str], str]] = field(
        default_factory=list
    )  # roots and digest of each part that it was

    def pieces(self) -> list[atoms.Piece]:
        """What its arrays of atoms are stored as."""
        return [piece for stored in self.arrays if type(stored) is list for piece in stored]

    def clear(self) -> None:
        """Forget a pickle that is made again."""
        self.arrays, self.buffers = [], []
        self.refs, self.files, self.globals, self.problems = set(), set(), set(), set()
        self.pickler, self.failure = None, None
        self.engine, self.transparent = "pickle", False
