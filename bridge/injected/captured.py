"""A session's definitions as source: which imports, functions and classes of its cells still hold.

Recorded are direct top-level statements alone, decorators included; what is nested in `if`, `try`, `with` and the
like is not. A name is dropped when a later statement binds it to something else, and when the namespace no longer
binds it to what its definition made. Order is that of the last definition of each name.
"""

from __future__ import annotations

import ast
import sys
import types
import weakref
from collections.abc import Iterator, Mapping
from typing import Any

_DEFINED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_IMPORTS = (ast.Import, ast.ImportFrom)
_TARGETS = (
    *(ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Delete),
    *(ast.For, ast.AsyncFor, ast.With, ast.AsyncWith),
)

_MODULE_FRAMES = ("<module>", "<cell line")  # the latter in IPython 8.0 to 8.4


class Captured:
    """The definitions of one namespace, name to source in recorded order."""

    def __init__(self, scope: Mapping[str, Any]) -> None:
        self._scope = scope
        self._sources: dict[str, str] = {}
        self._objects: dict[str, Any] = {}  # name -> a call that gives what its definition made

    def sources(self) -> dict[str, str]:
        """Name -> source, in recorded order, of what still holds."""
        self._forget_rebound()
        return dict(self._sources)

    def after_cell(self, code: str, error: BaseException | None, file_name: str) -> None:
        """Note a cell that ran, as Python text; of one that failed the statements before the failing one."""
        try:
            statements = ast.parse(code).body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return self._forget_rebound()  # it never ran, or nothing can be told from its text
        failing = None if error is None else failing_statement(statements, error, file_name)
        completed = statements if error is None else statements[: failing or 0]
        fresh: dict[str, str] = {}
        for statement in completed:
            found = definitions(statement, code)
            if not found and isinstance(statement, _TARGETS):
                for name in targets(statement):
                    self._drop(name)
            for name in () if found else bound(statement):
                fresh.pop(name, None)
            for name, source in found.items():
                self._drop(name)
                fresh.pop(name, None)
                fresh[name] = source
        for statement in [] if error is None else statements[len(completed) :][:1]:
            for name in bound(statement):
                fresh.pop(name, None)  # it may have been bound to something else before the failure
        self._forget_rebound()
        for name, source in fresh.items():
            if name in self._scope:
                self.register(name, source)

    def register(self, name: str, source: str) -> None:
        """The namespace's value of a name was made by this source."""
        self._drop(name)
        self._sources[name] = source
        self._objects[name] = _hold(self._scope[name])

    def _drop(self, name: str) -> None:
        self._sources.pop(name, None)
        self._objects.pop(name, None)

    def _forget_rebound(self) -> None:
        """Drop the names that are bound to something else by now, however that came."""
        missing = object()
        for name, give in list(self._objects.items()):
            made = give()
            if made is None or self._scope.get(name, missing) is not made:
                self._drop(name)


def _hold(value: Any) -> Any:
    """A call that gives the value as long as it lives, without keeping it alive where that can be had."""
    try:
        return weakref.ref(value)
    except TypeError:
        return lambda: value


def definitions(statement: ast.stmt, code: str) -> dict[str, str]:
    """Name -> source of what one statement defines; each name of an import is an import of its own."""
    if isinstance(statement, ast.Import):
        return {
            alias.asname or alias.name.partition(".")[0]: ast.unparse(ast.Import([alias]))
            for alias in statement.names
        }
    if isinstance(statement, ast.ImportFrom):
        return {
            alias.asname or alias.name: ast.unparse(
                ast.ImportFrom(statement.module, [alias], statement.level)
            )
            for alias in statement.names
            if alias.name != "*"  # which names it binds its text does not tell
        }
    if isinstance(statement, _DEFINED):
        return {
            statement.name: "\n".join(code.split("\n")[_first_line(statement) - 1 : statement.end_lineno])
        }
    return {}


def targets(statement: ast.stmt) -> Iterator[str]:
    """The names that a top-level assignment, deletion, loop or `with` binds or deletes itself, not in its body."""
    parts: list[Any] = []
    for field in ("targets", "target"):
        found = getattr(statement, field, None)
        parts.extend(found if isinstance(found, list) else [found])
    parts.extend(item.optional_vars for item in getattr(statement, "items", ()))
    if isinstance(statement, ast.AnnAssign) and statement.value is None:
        return
    for part in filter(None, parts):
        for node in ast.walk(part):
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                yield node.id


def bound(statement: ast.AST) -> Iterator[str]:
    """Every name that a statement may bind or delete in its own scope, nested statements included."""
    waiting = [statement]
    while waiting:
        node = waiting.pop()
        if isinstance(node, _DEFINED):
            yield node.name
            waiting.extend([*node.decorator_list, *getattr(node, "bases", ())])
            continue
        if isinstance(node, ast.Lambda):
            continue
        if isinstance(node, ast.comprehension):  # its targets are its own, a walrus in it is not
            waiting.extend([node.iter, *node.ifs])
            continue
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.alias):
            yield node.asname or node.name.partition(".")[0]
        for field in ("name", "rest"):  # of an `except`, of patterns
            if not isinstance(node, ast.alias) and isinstance(getattr(node, field, None), str):
                yield getattr(node, field)
        waiting.extend(ast.iter_child_nodes(node))


def looked_up(source: str) -> set[str]:
    """The names that a definition reads while it runs: in decorators, defaults, bases, class bodies, annotations."""
    found: set[str] = set()
    waiting: list[ast.AST] = [*ast.parse(source).body]
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            waiting.extend([*node.decorator_list, node.args, *filter(None, [node.returns])])
        elif isinstance(node, ast.Lambda):
            waiting.append(node.args)
        else:
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                found.add(node.id)
            waiting.extend(ast.iter_child_nodes(node))
    return found


def failing_statement(statements: list[ast.stmt], error: BaseException, file_name: str) -> int | None:
    """The index of the top-level statement of a cell in which an error was raised; None when it cannot be told.

    IPython runs each statement as code of its own, whose frame is the outermost of this file in the traceback,
    however deep or often the same function was called before.
    """
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if code.co_filename == file_name and code.co_name.startswith(_MODULE_FRAMES):
            return _statement_at(statements, *_position(trace))
        trace = trace.tb_next
    if isinstance(error, SyntaxError) and error.filename == file_name and error.lineno:
        return _statement_at(
            statements, error.lineno, None
        )  # found when the statement's turn to be compiled came
    return None


def _position(trace: types.TracebackType) -> tuple[int, int | None]:
    """Line and column of where a frame was; no column before Python 3.11."""
    if sys.version_info >= (3, 11):
        for number, position in enumerate(trace.tb_frame.f_code.co_positions()):
            if number == trace.tb_lasti // 2:
                return position[0] or trace.tb_lineno, position[2]
    return trace.tb_lineno, None


def _statement_at(statements: list[ast.stmt], line: int, column: int | None) -> int | None:
    """The first statement that covers the place; without a column the first on that line, so never a later one."""
    for index, statement in enumerate(statements):
        if _first_line(statement) <= line <= (statement.end_lineno or statement.lineno):
            is_before = (
                column is not None
                and line == statement.end_lineno
                and statement.end_col_offset is not None
                and column >= statement.end_col_offset
            )
            if not is_before:
                return index
    return None


def _first_line(statement: ast.stmt) -> int:
    """The line of a statement or of its first decorator."""
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(each.lineno for each in decorators)])
