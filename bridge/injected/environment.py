"""What a cell may change beside its variables and expects to find again.

Each item is a root of its own in the state, so it is stored, shared and compared like a variable. An item that is as
in a kernel just started has no root. Items of libraries count once the user's code has loaded the library; nothing
here imports one.
"""

from __future__ import annotations

import contextlib
import copyreg
import gc
import importlib
import locale
import os
import random
import sys
import time
import warnings
from typing import Any

from . import failures, interactive, libraries
from .items import MISSING, ROOT, Item, Simple, raw_object
from .loggers import Levels, Logging
from .modules import Handmade, Modules


def _cwd() -> str | None:
    try:
        return os.getcwd()
    except FileNotFoundError:  # the folder was removed under our feet
        return None


def _chdir(path: str | None) -> None:
    if path is not None and path != _cwd():
        os.chdir(path)


class _Environ(Item):
    """`os.environ`, as differences from what the kernel was started with: another day's PATH may be another."""

    early = True

    def __init__(self) -> None:
        super().__init__("environ")
        self._start = dict(os.environ)

    def get(self) -> dict[str, str | None]:
        now = dict(os.environ)
        changes: dict[str, str | None] = {
            key: value for key, value in now.items() if self._start.get(key) != value
        }
        changes.update((key, None) for key in self._start.keys() - now.keys())
        return changes

    def probe(self) -> Any:
        # Copied as it is kept, without decoding it all after every cell.
        return dict(getattr(os.environ, "_data", os.environ))

    def put(self, value: dict[str, str | None]) -> None:
        wanted = {**self._start, **value}
        for key in list(os.environ):
            if wanted.get(key) is None:
                del os.environ[key]
        for key, text in wanted.items():
            if text is not None and os.environ.get(key) != text:
                os.environ[key] = text


def _sys_path(value: list[str]) -> None:
    sys.path[:] = value


class _Filters(Item):
    """The warning filters."""

    def __init__(self) -> None:
        super().__init__("warnings")

    def get(self) -> Any:
        return list(warnings.filters)

    def put(self, value: Any) -> None:
        if list(warnings.filters) != value:
            warnings.filters[:] = value  # type: ignore[index]
            warnings._filters_mutated()  # type: ignore[attr-defined]


class _Pickling(Item):
    """What cells registered with `copyreg.pickle`: class -> function."""

    def __init__(self) -> None:
        super().__init__("copyreg")

    def get(self) -> dict[type, Any]:
        table = copyreg.dispatch_table.items()
        return {kind: reduce for kind, reduce in table if "__main__" in (kind.__module__, reduce.__module__)}

    def probe(self) -> Any:
        return dict(copyreg.dispatch_table)

    def put(self, value: dict[type, Any]) -> None:
        for kind in self.get().keys() - value.keys():
            del copyreg.dispatch_table[kind]
        copyreg.dispatch_table.update(value)


class _Random(Simple):
    """The standard library's global generator."""

    def __init__(self) -> None:
        super().__init__("random", random.getstate, random.setstate)
        self._generator: Any = random.getstate.__self__  # type: ignore[attr-defined]

    def probe(self) -> Any:
        raw = raw_object(self._generator)
        return (raw, self._generator.gauss_next) if raw is not None else self.get()


def _umask() -> int:
    now = os.umask(0o077)
    os.umask(now)
    return now


def _garbage(value: tuple[bool, tuple[int, ...]]) -> None:
    enabled, thresholds = value
    gc.set_threshold(*thresholds)
    (gc.enable if enabled else gc.disable)()


def _timezone(_: Any) -> None:
    if hasattr(time, "tzset"):
        time.tzset()  # it follows `os.environ`, which is in place by now


def _process_items() -> list[Item]:
    """An item for each setting of the process that is one value."""
    return [
        Simple("recursionlimit", sys.getrecursionlimit, sys.setrecursionlimit),
        _Random(),
        Simple("gc", lambda: (gc.isenabled(), gc.get_threshold()), _garbage),
        Simple("switchinterval", sys.getswitchinterval, sys.setswitchinterval),
        Simple("umask", _umask, os.umask),
        Simple("timezone", lambda: time.tzname, _timezone),
        Simple(
            "locale",
            lambda: locale.setlocale(locale.LC_ALL),
            lambda name: locale.setlocale(locale.LC_ALL, name),
        ),
        Simple(
            "socket.timeout",
            lambda: sys.modules["socket"].getdefaulttimeout(),
            lambda value: sys.modules["socket"].setdefaulttimeout(value),
            library="socket",
        ),
    ]


class Environment:
    """All items of one kernel, and which of them changed since the last snapshot."""

    def __init__(self, shell: Any) -> None:
        self.modules = Modules()
        self.pandas = libraries.PandasOptions()
        self.items: list[Item] = [
            Simple("sys.path", lambda: list(sys.path), _sys_path, early=True),
            Simple("cwd", _cwd, _chdir, early=True),
            _Environ(),
            self.modules,
            Handmade(),
            *_process_items(),
            *libraries.items(),
            *interactive.items(shell),
            self.pandas,
            _Filters(),
            _Pickling(),
            Logging(),
            Levels(),
        ]
        self.early_roots = frozenset(item.root for item in self.items if item.early)
        self.start()

    def start(self) -> None:
        """Take the values of now for those of a kernel just started."""
        for item in self.items:
            if item.loaded():
                self._start(item)

    def expect(self, code: str) -> None:
        """A cell of that code is about to run."""
        self.modules.expect(code)

    def libraries(self) -> set[str]:
        """The modules whose loading `library_loaded` wants to hear of."""
        return {item.library for item in self.items if item.library is not None}

    def seed(self, seed: int, values: dict[str, Any]) -> None:
        """Start the generators that a state says nothing of: the same way each time it is executed from."""
        self._seed = seed
        for item in self.items:
            if item.root.endswith("random") and item.root not in values and item.loaded():
                self._start_generator(item)

    _seed: int | None = None

    def _start_generator(self, item: Item) -> None:
        if self._seed is None:
            return
        if item.library is None:
            random.seed(self._seed)
        elif item.library == "torch":
            sys.modules["torch"].manual_seed(self._seed)
        else:
            sys.modules["numpy.random.mtrand"]._rand.seed(self._seed % 2**32)
        item.seen, item.value = item.probe(), MISSING

    def _start(self, item: Item) -> None:
        """Take the present value as the one that needs no root; generators have none such."""
        if item is not self.pandas and not item.root.endswith("random"):
            item.baseline = item.get()

    def library_loaded(self, name: str) -> None:
        """A module that items live in has just been loaded: their start values are those of now."""
        for item in self.items:
            if item.library == name or (name == "pandas" and item is self.pandas):
                if item.root.endswith("random"):
                    self._start_generator(item)
                elif item is not self.pandas:
                    item.baseline = item.get()
                elif name == "pandas":
                    self.pandas.baseline = self.pandas._now()

    def changed(self) -> tuple[dict[str, Any], set[str]]:
        """All roots with their values, and those whose value changed since the last call."""
        dirty = set()
        for item in self.items:
            if not item.loaded():
                if item.value is not MISSING:
                    dirty.add(item.root)
                    item.value = MISSING
                continue
            if item.baseline is MISSING and item.seen is MISSING:
                self._start(item)
            probe = item.probe()
            if item.seen is not MISSING and item.seen == probe:
                continue
            item.seen = probe
            value = item.get()
            plain = value == item.baseline or (item is not self.modules and value == {})
            item.value = MISSING if plain else value
            dirty.add(item.root)
        values = {item.root: item.value for item in self.items if item.value is not MISSING}
        return values, dirty

    def put(self, values: dict[str, Any], *, early: bool) -> list[dict[str, str]]:
        """Bring these values back, and every other item to its start; the failures are named."""
        failed = []
        for item in self.items:
            if item.early is not early:
                continue
            if not item.loaded() and item.root in values and item.library is not None:
                with contextlib.suppress(ImportError):  # a kernel without the library has no use for its item
                    importlib.import_module(item.library)
            if not item.loaded():
                continue
            value = values.get(item.root, item.baseline)
            if value is MISSING:
                continue
            try:
                item.put(value)
            except Exception as error:  # a folder that is gone, an option that another version lacks
                failed.append({"name": item.root.removeprefix(ROOT), "reason": failures.explain(error)})
            item.seen = item.probe()
            item.value = values.get(item.root, MISSING)
        return failed + (self.modules.failed if early else [])
