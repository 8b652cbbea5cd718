"""Libraries imported ahead of any cell, and out of sight until one imports them.

Their modules are taken out of `sys.modules` again. An import of one finds it here, and brings to light what its first
import would have loaded: itself and whatever it imported in its turn. So `sys.modules` tells what a notebook's cells
imported, and whoever waits for a library to be loaded hears of it then.
"""

from __future__ import annotations

import builtins
import contextlib
import importlib
import importlib.abc
import importlib.machinery
import os
import sys
import warnings
from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import Any

from .display import Watch


class Hidden(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the modules that were imported ahead.

    `modules` are theirs by name, `needs` which others each of them imported, `filters` the warnings' filters that the
    import of some added.
    """

    def __init__(
        self, modules: dict[str, ModuleType], needs: dict[str, set[str]], filters: dict[str, list[Any]]
    ) -> None:
        self._modules = modules
        self._filters = filters
        self._needs = needs
        self._specs = {
            name: (module.__spec__, getattr(module, "__loader__", None)) for name, module in modules.items()
        }
        self._files = {name: _file(module.__spec__) for name, module in modules.items() if "." not in name}
        self._bound: set[str] = set()  # submodules that their packages know by name
        for name, module in modules.items():
            package, _, tail = name.rpartition(".")
            if package in modules and vars(modules[package]).get(tail) is module:
                self._bound.add(name)
                delattr(modules[package], tail)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """A spec of the module that is there; None for any other, and for one that a plain import finds elsewhere."""
        if name not in self._modules:
            return None
        if "." not in name and self._files[name] != _file(
            importlib.machinery.PathFinder.find_spec(name, path)
        ):
            self._modules.clear()  # another version, or another path: what was imported with it is void, too
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=hasattr(self._modules[name], "__path__"))

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return self._modules[spec.name]

    def exec_module(self, module: ModuleType) -> None:
        waiting, brought = [module.__name__], []
        while waiting:
            name = waiting.pop()
            each = self._modules.pop(name, None)
            if each is not None:
                brought.append((name, each))
                waiting.extend(self._needs.get(name, ()))
        for name, each in brought:
            each.__spec__, each.__loader__ = self._specs[name]
            sys.modules.setdefault(name, each)
        for name, _ in brought:
            if name in self._filters:
                warnings.filters[:0] = self._filters.pop(name)  # type: ignore[index]
                warnings._filters_mutated()  # type: ignore[attr-defined]
        for name, each in brought:
            package, _, tail = name.rpartition(".")
            if name in self._bound:
                setattr(sys.modules[package], tail, each)


def load(names: Iterable[str]) -> None:
    """Import these modules and hide them and all that they import; what is not there is left out."""
    before = dict(sys.modules)
    needs: dict[str, set[str]] = {}
    filters: dict[str, list[Any]] = {}
    plain_filters = list(warnings.filters)
    finders = list(sys.meta_path)
    plain_import = builtins.__import__

    def noting(name: str, scope: Any = None, local: Any = None, fromlist: Any = (), level: int = 0) -> Any:
        count = len(sys.modules)
        known = set(sys.modules) if scope else ()
        try:
            return plain_import(name, scope, local, fromlist, level)
        finally:
            importer = scope.get("__name__") if scope else None
            if importer is not None:
                found = needs.setdefault(importer, set())
                found.update(_named(name, scope, fromlist, level))
                if len(sys.modules) != count:
                    found.update(sys.modules.keys() - known)

    sys.meta_path[:] = [finder for finder in finders if not isinstance(finder, Watch)]
    builtins.__import__ = noting  # type: ignore[assignment]
    try:
        for name in names:
            count = len(warnings.filters)
            with contextlib.suppress(Exception):  # the cell that imports it will be told
                importlib.import_module(name)
            filters[name] = list(warnings.filters[: max(0, len(warnings.filters) - count)])
    finally:
        builtins.__import__ = plain_import
        sys.meta_path[:] = finders
        warnings.filters[:] = plain_filters  # type: ignore[index]
        warnings._filters_mutated()  # type: ignore[attr-defined]
    added = {name: module for name, module in sys.modules.items() if name not in before}
    for name in added:
        del sys.modules[name]
    sys.meta_path.insert(0, Hidden(added, needs, filters))
    _watch_first()


def _watch_first() -> None:
    """Let those who wait for a library find it before this does."""
    sys.meta_path.sort(key=lambda finder: not isinstance(finder, Watch))


def _named(name: str, scope: dict[str, Any], fromlist: Any, level: int) -> Iterable[str]:
    """The modules that an import statement may have meant: that named, its packages, and what is taken from it."""
    if level:
        package = scope.get("__package__") or ""
        base = package.rsplit(".", level - 1)[0] if level > 1 else package
        name = f"{base}.{name}" if name else base
    parts = name.split(".")
    yield from (".".join(parts[: end + 1]) for end in range(len(parts)))
    for item in fromlist or ():
        yield f"{name}.{item}"


def _file(spec: Any) -> Any:
    """The file of a module and the time of its last change."""
    origin = getattr(spec, "origin", None)
    try:
        return (origin, os.stat(origin).st_mtime_ns) if origin else None
    except OSError:
        return (origin, 0)
