"""A unit: one piece of top-level code as it was compiled, its tree and the code objects inside it."""

from __future__ import annotations

import ast
import types
from dataclasses import dataclass
from typing import Any

from .marks import Edits, Marks

Key = tuple[str, int]
AWAIT = getattr(ast, "PyCF_ALLOW_TOP_LEVEL_AWAIT", 0)


@dataclass(slots=True)
class Unit:
    """One compiled statement of a cell (or a text run by a magic)."""

    node: tuple[Any, ...]  # its tree, see `flow`
    codes: dict[Key, list[types.CodeType]]  # functions defined in it, however deep
    marks: Marks | None  # None: compiled without markers
    group: int = 0  # statements of one run share it: they follow each other
    foreign: bool = False  # compiled by a magic that wraps the code in a function of its own
    binds: frozenset[str] = frozenset()  # what the code itself stores (a check on the tree)

    @property
    def finished(self) -> bool | None:
        """Whether it ran to its end; None: unknown."""
        return None if self.marks is None else Edits.done in self.marks

    def functions(self, key: Key) -> list[types.CodeType]:
        """The code objects of a definition; all of the unit's when it cannot be told which."""
        return self.codes.get(key) or [code for codes in self.codes.values() for code in codes]


def inner_codes(code: types.CodeType) -> dict[Key, list[types.CodeType]]:
    """Every code object inside one, by (name, first line)."""
    found: dict[Key, list[types.CodeType]] = {}
    waiting = [code]
    while waiting:
        for constant in waiting.pop().co_consts:
            if isinstance(constant, types.CodeType):
                found.setdefault((constant.co_name, constant.co_firstlineno), []).append(constant)
                waiting.append(constant)
    return found
