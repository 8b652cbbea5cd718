"""Attributes of modules and of libraries' classes that a cell sets: `textwrap.shorten = mine`.

Which attributes can have been set is read from the cell's code, so nothing is compared that no cell ever named.
"""

from __future__ import annotations

import ast
import re
import sys
import types
from typing import Any

from . import rebuild, reducers

ROOT = "\0patch:"

_MISSING = object()
_MAY_SET = re.compile(
    r"\.\s*\w+\s*(?:[-+*/%&|^@]|//|\*\*|>>|<<)?=[^=]|\bsetattr\b|\bdelattr\b|\bdel\b|\.\w+\s*[,:)]"
)


class Deleted:
    """Stands for an attribute that a cell deleted."""

    def __reduce__(self) -> tuple[Any, ...]:
        return Deleted, ()

    def __eq__(self, other: object) -> bool:
        return type(other) is Deleted

    def __hash__(self) -> int:
        return 0


class Patches:
    """The attributes that cells of this kernel may set, each with what it was before."""

    def __init__(self, scope: dict[str, Any]) -> None:
        self._scope = scope
        self._original: dict[str, Any] = {}  # root -> value before any cell set it
        self._seen: dict[str, Any] = {}

    def expect(self, code: str) -> None:
        """Note, before a cell runs, the attributes that its code may set."""
        if not _MAY_SET.search(code):
            return
        try:
            tree = ast.parse(code)
        except SyntaxError:
            return  # the cell fails by itself
        imports = _imported(tree)
        for node in ast.walk(tree):
            target = _target(node)
            if target is not None:
                self._note(target[0], target[1], imports)

    def _note(self, owner: ast.expr, name: str, imports: dict[str, str]) -> None:
        path = []
        while isinstance(owner, ast.Attribute):
            path.append(owner.attr)
            owner = owner.value
        if not isinstance(owner, ast.Name):
            return
        value: Any = self._scope.get(owner.id, _MISSING)
        if owner.id in imports:
            try:
                value = _resolve_import(imports[owner.id])
            except Exception:  # the cell's own import statement will tell the user
                return
        for part in reversed(path):
            value = getattr(value, part, _MISSING) if value is not _MISSING else value
        self.note(value, name)

    def note(self, owner: Any, name: str) -> None:
        """Note one attribute, when its owner is a module or a library's class."""
        if isinstance(owner, types.ModuleType):
            if sys.modules.get(owner.__name__) is not owner or owner.__name__ == "__main__":
                return
            root = f"{ROOT}{owner.__name__}::{name}"
        elif isinstance(owner, type) and reducers.by_reference(owner) and owner.__flags__ & (1 << 9):
            root = f"{ROOT}{owner.__module__}:{owner.__qualname__}:{name}"
        else:
            return
        if root not in self._original:
            self._original[root] = self._seen[root] = vars(owner).get(name, _MISSING)
            if isinstance(owner, types.ModuleType) and name in vars(owner):
                rebuild.keep_original(owner.__name__, name, vars(owner)[name])

    def changed(self) -> tuple[dict[str, Any], set[str]]:
        """The patched attributes with their values, and those that changed since the last call."""
        values, dirty = {}, set()
        for root, original in self._original.items():
            now = vars(_owner(root)).get(_name(root), _MISSING)
            if now is not original:
                values[root] = Deleted() if now is _MISSING else now
            if now is not self._seen[root]:
                self._seen[root] = now
                dirty.add(root)
        return values, dirty

    def put(self, values: dict[str, Any]) -> None:
        """Set the attributes of a state, and every other one back to what it was."""
        for root in values:
            self.note(_owner(root), _name(root))
        for root, original in self._original.items():
            value = values.get(root, original)
            owner, name = _owner(root), _name(root)
            if value is _MISSING or type(value) is Deleted:
                if name in vars(owner):
                    delattr(owner, name)
                value = _MISSING
            elif vars(owner).get(name, _MISSING) is not value:
                setattr(owner, name, value)
            self._seen[root] = value


def _owner(root: str) -> Any:
    module, path, _ = root.removeprefix(ROOT).split(":")
    return rebuild.attribute(module, path) if path else rebuild.module(module)


def _name(root: str) -> str:
    return root.rpartition(":")[2]


def _target(node: ast.AST) -> tuple[ast.expr, str] | None:
    """The owner and the name of the attribute that a piece of code sets or deletes."""
    if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
        return node.value, node.attr
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) >= 2:
        owner, name = node.args[:2]
        named = isinstance(name, ast.Constant) and isinstance(name.value, str)
        if node.func.id in ("setattr", "delattr") and named:
            return owner, str(name.value)  # type: ignore[attr-defined]  # a constant, see above
    return None


def _imported(tree: ast.AST) -> dict[str, str]:
    """What the cell's own imports bind: name -> dotted path."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                path = alias.name if alias.asname else alias.name.partition(".")[0]
                found[alias.asname or path] = path
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                found[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return found


def _resolve_import(path: str) -> Any:
    """What an import of that path would bind, when its root is loaded already or comes from the standard library."""
    root = path.partition(".")[0]
    if root not in sys.modules and root not in sys.stdlib_module_names:
        return _MISSING
    try:
        return rebuild.module(path)
    except ImportError:
        module, _, name = path.rpartition(".")
        return getattr(rebuild.module(module), name, _MISSING)
