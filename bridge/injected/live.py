"""Values that cannot be saved: kept by reference in the kernel that made them, for the states that hold them.

A live value is named by a token. A cell that may have changed it, or moved it, gives it a new token in the new state:
the older state's value is then spent, and absent there, rather than wrong. Looking at a generator, a file or a
connection does not spend it.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import pickle
import types
import weakref
from collections.abc import Iterator
from typing import Any

_LIMIT = 256  # values kept for states that this kernel does not hold at the moment

_numbers = itertools.count(1)


class LiveValues:
    """The live values of one kernel."""

    def __init__(self, kernel_id: str) -> None:
        self.kernel_id = kernel_id
        self._kept: dict[str, dict[str, Any]] = {}  # token -> root -> value
        self._positions: dict[str, Any] = {}

    def token(self, value: Any, before: str | None) -> str:
        """The token of a value after a cell that reached it; `before` is the one it had."""
        place = position(value)
        if before is not None and place is not None and self._positions.get(before) == place:
            return before
        if before is not None:
            self._kept.pop(before, None)
            self._positions.pop(before, None)
        made = f"live:{self.kernel_id}:{next(_numbers)}"
        self._positions[made] = place
        return made

    def unmoved(self, token: str, values: dict[str, Any]) -> bool:
        """Whether a value is known to stand where it stood when it was given that token."""
        places = [position(value) for value in values.values()]
        return None not in places and places == [self._positions.get(token)]

    def keep(self, token: str, values: dict[str, Any]) -> None:
        """Hold on to a value that the namespace is about to lose."""
        self._kept[token] = values
        while len(self._kept) > _LIMIT:
            oldest = next(iter(self._kept))
            del self._kept[oldest]
            self._positions.pop(oldest, None)

    def give(self, token: str) -> dict[str, Any] | None:
        """The value of a token, or None when it is another kernel's or spent."""
        return self._kept.get(token)


def position(value: Any) -> Any:
    """Something equal as long as nobody moved the value; None where any touch may have changed it."""
    if issubclass(type(value), types.GeneratorType):
        return _frame_position(value.gi_frame)
    if issubclass(type(value), types.CoroutineType):
        return _frame_position(value.cr_frame)
    if issubclass(type(value), types.AsyncGeneratorType):
        return _frame_position(value.ag_frame)
    if issubclass(type(value), io.IOBase):
        if value.closed:
            return ("closed",)
        try:
            return ("file", value.tell())
        except (OSError, ValueError):
            return None
    if issubclass(type(value), (dict, list, tuple, set, frozenset)) or hasattr(type(value), "__next__"):
        return None
    if type(value).__module__ == "__main__":
        return None
    return ("object",)


def _frame_position(frame: types.FrameType | None) -> Any:
    """Where a suspended frame stands: its instruction and its variables, as far as these can be told."""
    if frame is None:
        return ("finished",)
    if any(type(value) not in _TOLD for value in frame.f_locals.values()):
        return None
    return ("frame", frame.f_lasti, pickle.dumps(dict(frame.f_locals)))


# Small values whose pickle says all of them, iterators' positions included.
_TOLD = frozenset(
    {type(None), bool, int, float, str, bytes, range, type(iter(range(0))), type(iter(())), type(iter([]))}
)


@contextlib.contextmanager
def nothing_finalized() -> Iterator[None]:
    """While this lasts, no `weakref.finalize` acts: what a switch lets go of lives on in its state.

    So a `TemporaryDirectory` keeps its folder. The table is the one of CPython's weakref module.
    """
    table: dict[Any, Any] = vars(weakref.finalize).get("_registry", {})
    waiting = dict(table)
    table.clear()
    try:
        yield
    finally:
        table.update((finalizer, info) for finalizer, info in waiting.items() if info.weakref() is not None)
