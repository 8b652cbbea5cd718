"""The definitions that a line of cells made and that still hold: imports, functions and classes, as source. Pure."""

from __future__ import annotations

import ast
from collections.abc import Container, Iterable

_DEFINED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def definitions(cells: Iterable[str], names: Container[str]) -> dict[str, str]:
    """Name -> source of the direct top-level imports, functions and classes of these cells; the latest wins.

    A later assignment, deletion, loop or with target takes the name out; only `names` are told.
    """
    found: dict[str, str] = {}
    for cell in cells:
        source = _python_of(cell)
        try:
            tree = ast.parse(source)
        except SyntaxError:
            continue  # a cell that IPython alone understands binds nothing that can be told from its text
        for statement in tree.body:
            _apply(statement, source, found)
    return {name: text for name, text in found.items() if name in names}


def _python_of(cell: str) -> str:
    """The cell with its magic and shell lines blanked out."""
    lines = ["" if line.startswith(("%", "!", "?")) else line for line in cell.splitlines()]
    return "\n".join(lines)


def _apply(statement: ast.stmt, source: str, found: dict[str, str]) -> None:
    """Let one top-level statement change what is defined."""
    bound = _bound_by(statement)
    for name in bound:
        found.pop(name, None)
    if isinstance(statement, (*_DEFINED, ast.Import, ast.ImportFrom)):
        lines = source.splitlines()
        first = min([statement.lineno, *(node.lineno for node in getattr(statement, "decorator_list", []))])
        text = "\n".join(lines[first - 1 : statement.end_lineno])
        found.update(dict.fromkeys(bound, text))


def _bound_by(statement: ast.stmt) -> list[str]:
    """The top-level names that a statement binds or deletes."""
    if isinstance(statement, _DEFINED):
        return [statement.name]
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return [alias.asname or alias.name.partition(".")[0] for alias in statement.names]
    names = []
    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop()
        if isinstance(node, (*_DEFINED, ast.Lambda)) and node is not statement:
            continue
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            names.append(node.id)
        waiting.extend(ast.iter_child_nodes(node))
    return names
