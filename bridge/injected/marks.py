"""Markers: which branches of top-level code ran, told by the code itself without a visible name.

A marker is `MARKS[n] = None` at the start of a block, `(MARKS[n], value)[1]` around a part of an
expression, or `TURNS_n @ iterable` around the iterable of a loop. MARKS and TURNS_n are constants: the AST
holds a placeholder string, which is swapped for the object in the compiled code's `co_consts`. They are
set only in code that runs once (outside loops, functions and classes), so they cost nothing that can be
measured, and no code object that outlives the cell holds one: functions are compiled as ever. Positions
are those of the marked code.
"""

from __future__ import annotations

import array
import ast
import collections
import types
from collections.abc import Callable
from typing import Any

_PLACE = "\0bridge"
# A constant index into a constant string would be folded; numbers beyond its length are left alone.
_FIRST = 1000

# Iterables that turn exactly len() times, if at all, and whose len() runs no code of the user's.
_SIZED: frozenset[type] = frozenset(
    {
        list, tuple, dict, set, frozenset, str, bytes, bytearray, range, memoryview, array.array,
        type({}.keys()), type({}.values()), type({}.items()), collections.deque, collections.OrderedDict,
        collections.defaultdict, collections.Counter,
    }
)  # fmt: skip


_BRANCHING = tuple(
    kind
    for name in ("If", "Try", "TryStar", "ExceptHandler", "Match", "match_case")
    if (kind := getattr(ast, name, None)) is not None
)


class Marks(dict[int, bool | None]):
    """Markers met so far. A loop's value is True: it turned; False: it did not; None: it may have."""

    # Tracebacks count code objects, which hash their constants.
    __hash__ = object.__hash__  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return self is other

    def __missing__(self, number: int) -> None:
        self[number] = None

    def turned(self, number: int | None) -> bool | None:
        """Whether the loop of this marker turned: True, False or None for unknown. Not reached: False."""
        if number is None:
            return None
        return self.get(number, False)


class _Turns:
    """Notes on `turns @ iterable` whether the iterable has an item, and gives it back untouched."""

    __slots__ = ("marks", "number")

    def __init__(self, marks: Marks, number: int) -> None:
        self.marks, self.number = marks, number

    def __matmul__(self, iterable: Any) -> Any:
        self.marks[self.number] = len(iterable) > 0 if type(iterable) in _SIZED else None
        return iterable


class Edits:
    """Markers to be set in one statement; `applied` sets them, compiles, and takes them out again."""

    def __init__(self) -> None:
        self.marks = Marks()
        self._count = _FIRST
        self._turns: list[int] = []
        self._jobs: list[Callable[[], Callable[[], None]]] = []

    def _next(self) -> int:
        self._count += 1
        return self._count

    def statement(self, body: list[ast.stmt], *, end: bool = False) -> int:
        """A marker at the start (or end) of a block."""
        number = self._next()

        def job() -> Callable[[], None]:
            mark = _store(number, body[-1] if end else body[0])
            body.insert(len(body) if end else 0, mark)
            return lambda: body.remove(mark)

        self._jobs.append(job)
        return number

    def after(self, body: list[ast.stmt], statement: ast.stmt) -> int:
        """A marker right after one statement of a block."""
        number = self._next()

        def job() -> Callable[[], None]:
            mark = _store(number, statement)
            body.insert(body.index(statement) + 1, mark)
            return lambda: body.remove(mark)

        self._jobs.append(job)
        return number

    def value(self, parent: ast.AST, field: str, index: int | None) -> int:
        """A marker that is met when this part of the expression is."""
        number = self._next()
        self._jobs.append(lambda: _swap(parent, field, index, lambda old: _noted(number, old)))
        return number

    def iterable(self, parent: ast.AST) -> int:
        """A marker that notes whether the loop's (or comprehension's) iterable is empty."""
        number = self._next()
        self._turns.append(number)
        self._jobs.append(lambda: _swap(parent, "iter", None, lambda old: _turning(number, old)))
        return number

    def compiled(self, tree: Any, compile_tree: Callable[[Any], types.CodeType]) -> types.CodeType:
        """The code of a tree with its markers, and with `done` at the end of statements."""
        undo: list[Callable[[], None]] = []
        try:
            undo.extend(job() for job in self._jobs)
            if not isinstance(tree, ast.Expression):
                body = [*tree.body, _store(self.done, _last_of(tree.body[-1]))]
                tree = type(tree)(**{**dict(ast.iter_fields(tree)), "body": body})
            code = compile_tree(tree)
        finally:
            for each in reversed(undo):
                each()
        things: dict[Any, Any] = {_PLACE: self.marks}
        for number in self._turns:
            things[f"{_PLACE}{number}"] = _Turns(self.marks, number)
        constants = [things.get(each, each) if type(each) is str else each for each in code.co_consts]
        return code.replace(co_consts=tuple(constants))

    done = 1  # below _FIRST is safe for a stored marker: a store is never folded


def _last_of(statement: ast.stmt) -> ast.stmt:
    """The statement that likely runs last in this one: its frame ends with that line, which tracebacks may show."""
    inner: Any = statement
    while isinstance(inner, _BRANCHING):  # loops and `with` end at their own first line
        parts = [getattr(inner, name, None) for name in ("finalbody", "handlers", "cases", "orelse", "body")]
        inner = next(part for part in parts if part)[-1]
    last: ast.stmt = inner
    return last


def _constant(value: Any, at: ast.AST) -> ast.expr:
    return ast.copy_location(ast.Constant(value), at)


def _store(number: int, at: ast.stmt) -> ast.stmt:
    place = ast.Subscript(_constant(_PLACE, at), _constant(number, at), ast.Store())
    mark = ast.Assign([ast.copy_location(place, at)], _constant(None, at))
    return ast.copy_location(mark, at)


def _noted(number: int, value: ast.expr) -> ast.expr:
    met = ast.Subscript(_constant(_PLACE, value), _constant(number, value), ast.Load())
    both = ast.Tuple([ast.copy_location(met, value), value], ast.Load())
    second = ast.Subscript(ast.copy_location(both, value), _constant(1, value), ast.Load())
    return ast.copy_location(second, value)


def _turning(number: int, iterable: ast.expr) -> ast.expr:
    # Not a subscript: the compiler warns of one that a string could not take.
    noted = ast.BinOp(_constant(f"{_PLACE}{number}", iterable), ast.MatMult(), iterable)
    return ast.copy_location(noted, iterable)


def _swap(
    parent: ast.AST, field: str, index: int | None, wrap: Callable[[ast.expr], ast.expr]
) -> Callable[[], None]:
    if index is None:
        old = getattr(parent, field)
        setattr(parent, field, wrap(old))
        return lambda: setattr(parent, field, old)
    values = getattr(parent, field)
    kept = values[index]
    values[index] = wrap(kept)
    return lambda: values.__setitem__(index, kept)
