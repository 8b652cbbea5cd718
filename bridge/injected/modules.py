"""The modules that the cells of a line imported, and those they made themselves."""

from __future__ import annotations

import ast
import importlib
import sys
from typing import Any

from . import failures, reducers
from .items import Item


class Modules(Item):
    """Which modules the cells of this line imported: `xml.dom` reached by attribute needs its own import again.

    A kernel that ran other lines has more modules loaded; those count only when a cell of this line names them.
    """

    early = True

    def __init__(self) -> None:
        super().__init__("modules")
        self._start = frozenset(sys.modules)
        self._known = set(sys.modules)
        self._line: list[str] = []
        self._named: list[str] = []
        self.removed = False  # whether a cell took a module away: the process is not what it was
        self.failed: list[dict[str, str]] = []

    def expect(self, code: str) -> None:
        """Note, before a cell runs, the modules that its import statements name."""
        self._named = _named_modules(code) if "import" in code else []

    def settle(self) -> None:
        """What was imported since the last cell is no cell's doing."""
        new = sys.modules.keys() - self._known
        self._start |= new
        self._known |= new

    def get(self) -> list[str]:
        return list(self._line)

    def probe(self) -> Any:
        found = [name for name in self._named if name in sys.modules]
        self._named = []
        if len(sys.modules) != len(self._known):
            self.removed = self.removed or not self._known <= sys.modules.keys()
            found += [name for name in list(sys.modules) if name not in self._known]
            self._known = set(sys.modules)
        known = self._start.union(self._line) if found else ()
        self._line += [
            name
            for name in dict.fromkeys(found)
            if name not in known
            and not name.startswith(("_bridge_kernel", "__mp_"))
            and name != "__main__"
            and not reducers.is_handmade(sys.modules[name])
        ]
        return len(self._line)

    def put(self, value: list[str]) -> None:
        self._line = list(value)
        self.failed = []
        for name in value:
            parent, _, _ = name.rpartition(".")
            # What a package makes up at run time under its own name cannot be imported; its import makes it again.
            if name in sys.modules or (parent and parent not in sys.modules):
                continue
            try:
                importlib.import_module(name)
            except (
                Exception
            ) as error:  # an import may fail in any way; the rest of the state does not depend on it
                if "." not in name:
                    self.failed.append({"name": name, "reason": failures.explain(error)})
        self._known = set(sys.modules)


def _named_modules(code: str) -> list[str]:
    """The modules that a cell's import statements may load, packages before what is in them."""
    try:
        tree = ast.parse(code)
    except SyntaxError:
        return []  # a cell with magics: what it loads is seen, unless it is loaded already
    paths = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            paths += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            paths += [f"{node.module}.{alias.name}" for alias in node.names]
    names: dict[str, None] = {}
    for path in paths:
        parts = path.split(".")
        names.update(dict.fromkeys(".".join(parts[:count]) for count in range(1, len(parts) + 1)))
    return list(names)


class Handmade(Item):
    """The modules that cells made and entered in `sys.modules`, for imports to find: name -> module."""

    def __init__(self) -> None:
        super().__init__("handmade")
        self._start = {id(module) for module in list(sys.modules.values())}
        self._looked_at = len(sys.modules)
        self._found: dict[str, Any] = {}

    def get(self) -> dict[str, Any]:
        return dict(self._found)

    def probe(self) -> Any:
        if len(sys.modules) != self._looked_at:
            self._looked_at = len(sys.modules)
            self._found = {
                name: module
                for name, module in list(sys.modules.items())
                if id(module) not in self._start and reducers.is_handmade(module)
            }
        # What is in them changes without a name of the namespace being touched.
        return object() if self._found else None

    def put(self, value: dict[str, Any]) -> None:
        for name in self._found.keys() - value.keys():
            sys.modules.pop(name, None)
        sys.modules.update(value)
        self._found, self._looked_at = dict(value), len(sys.modules)
