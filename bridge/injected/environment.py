"""What a cell may change beside its variables and expects to find again.

Each item is a root of its own in the state, so it is stored, shared and compared like a variable. An item that is as
in a kernel just started has no root. Items of libraries count once the user's code has loaded the library; nothing
here imports one.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import importlib
import io
import logging
import os
import random
import sys
import warnings
from collections.abc import Callable
from typing import Any

from . import failures

ROOT = "\0env:"  # no name of a namespace starts like this

_MISSING = object()


class Item:
    """One thing beside the variables.

    `get` gives its value, fit to be pickled; `put` brings such a value back. `early` items are put before the
    variables are loaded: imports depend on them. `baseline` is its value in a kernel just started, or as the library
    was loaded; `probe` gives something cheap that is equal as long as the value is.
    """

    early = False
    library: str | None = None

    def __init__(self, name: str) -> None:
        self.root = ROOT + name
        self.baseline: Any = _MISSING
        self.seen: Any = _MISSING  # the probe at the last snapshot
        self.value: Any = _MISSING  # the value that is stored, _MISSING when it is the baseline

    def stored(self) -> bool:
        """Whether the state at hand says something of this item."""
        return self.value is not _MISSING

    def loaded(self) -> bool:
        """Whether this item exists in the process."""
        return self.library is None or self.library in sys.modules

    def get(self) -> Any:
        """The value as it is now."""
        raise NotImplementedError

    def put(self, value: Any) -> None:
        """Make that value the present one."""
        raise NotImplementedError

    def probe(self) -> Any:
        """Something cheap that changes with the value."""
        return self.get()


class _Simple(Item):
    """An item made of two functions."""

    def __init__(
        self,
        name: str,
        get: Callable[[], Any],
        put: Callable[[Any], Any],
        *,
        early: bool = False,
        library: str | None = None,
    ) -> None:
        super().__init__(name)
        self._get, self._put = get, put
        self.early, self.library = early, library

    def get(self) -> Any:
        return self._get()

    def put(self, value: Any) -> None:
        self._put(value)


def _module(name: str) -> Any:
    return sys.modules[name]


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


class _Modules(Item):
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
            if name not in known and not name.startswith(("_bridge_kernel", "__mp_")) and name != "__main__"
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


def _keeps_records(handler: logging.Handler) -> bool:
    """Whether a log message may change what this handler holds in memory."""
    stream = getattr(handler, "stream", None)
    own = type(handler).__module__ == "__main__" or hasattr(handler, "buffer")
    return own or isinstance(stream, (io.StringIO, io.BytesIO)) or type(stream).__module__ == "__main__"


_FRESH: tuple[Any, ...] = (logging.NOTSET, True, False, [])


class _Logging(Item):
    """Level, handlers, propagation and disabling of the loggers that differ from those of a kernel just started."""

    def __init__(self) -> None:
        super().__init__("logging")
        self._start = {name: self._of(logger) for name, logger in self._loggers().items()}

    @staticmethod
    def _loggers() -> dict[str, logging.Logger]:
        found = {
            name: logger
            for name, logger in list(logging.root.manager.loggerDict.items())
            if isinstance(logger, logging.Logger)
        }
        found[""] = logging.root
        return found

    @staticmethod
    def _of(logger: logging.Logger) -> tuple[Any, ...]:
        return logger.level, logger.propagate, logger.disabled, list(logger.handlers)

    def probe(self) -> Any:
        value = self.get()
        # A handler that keeps records is changed by every message, and by no cell that names it.
        keeps = any(_keeps_records(handler) for *_, handlers in value.values() for handler in handlers)
        return object() if keeps else value

    def get(self) -> dict[str, tuple[Any, ...]]:
        now = {name: self._of(logger) for name, logger in self._loggers().items()}
        return {name: value for name, value in now.items() if value != self._start.get(name, _FRESH)}

    def put(self, value: dict[str, tuple[Any, ...]]) -> None:
        for name in self._loggers().keys() | value.keys():
            logger = logging.getLogger(name) if name else logging.root
            level, propagate, disabled, handlers = value.get(name) or self._start.get(name, _FRESH)
            if self._of(logger) != (level, propagate, disabled, handlers):
                logger.setLevel(level)
                logger.propagate, logger.disabled = propagate, disabled
                logger.handlers[:] = handlers


def _decimal_get() -> Any:
    context = _module("decimal").getcontext()
    return context.copy()


def _decimal_key() -> Any:
    context = _module("decimal").getcontext()
    return repr(context)


class _Decimal(_Simple):
    """The decimal context of the main thread."""

    def probe(self) -> Any:
        return _decimal_key()


class _NumpyRandom(Item):
    """NumPy's global generator."""

    library = "numpy.random.mtrand"

    def __init__(self) -> None:
        super().__init__("numpy.random")

    def get(self) -> Any:
        state = _module(self.library)._rand.get_state()
        return (state[0], state[1].tobytes(), *state[2:])

    def put(self, value: Any) -> None:
        numpy = _module("numpy")
        words = numpy.frombuffer(value[1], dtype=numpy.uint32)
        _module(self.library)._rand.set_state((value[0], words, *value[2:]))


class _RcParams(Item):
    """matplotlib's rcParams, as differences from those it was loaded with."""

    library = "matplotlib"

    def __init__(self) -> None:
        super().__init__("matplotlib")

    def _now(self) -> dict[str, Any]:
        # dict's own methods: the class resolves a backend when one is asked for.
        return dict(dict.items(_module("matplotlib").rcParams))

    def get(self) -> dict[str, Any]:
        start = dict(dict.items(getattr(_module("matplotlib"), "rcParamsOrig", {})))
        return {
            key: value for key, value in self._now().items() if key != "backend" and start.get(key) != value
        }

    def probe(self) -> Any:
        return self._now()

    def put(self, value: dict[str, Any]) -> None:
        module = _module("matplotlib")
        if not hasattr(module, "rcParamsOrig"):
            return
        wanted = {**dict(dict.items(module.rcParamsOrig)), **value}
        for key, entry in wanted.items():
            if key != "backend" and dict.__getitem__(module.rcParams, key) != entry:
                dict.__setitem__(module.rcParams, key, entry)


class _PandasOptions(Item):
    """pandas' options, as differences from those it was loaded with (the display defaults of ours included)."""

    library = "pandas._config.config"

    def __init__(self) -> None:
        super().__init__("pandas")

    def _now(self) -> dict[str, Any]:
        flat: dict[str, Any] = {}

        def walk(prefix: str, tree: dict[str, Any]) -> None:
            for key, value in tree.items():
                if isinstance(value, dict):
                    walk(f"{prefix}{key}.", value)
                else:
                    flat[prefix + key] = value

        walk("", _module("pandas._config.config")._global_config)
        return flat

    def get(self) -> dict[str, Any]:
        now = self._now()
        if self.baseline is _MISSING:
            return {}
        return {key: value for key, value in now.items() if self.baseline.get(key, _MISSING) != value}

    def probe(self) -> Any:
        return self._now()

    def put(self, value: dict[str, Any]) -> None:
        if "pandas" not in sys.modules or self.baseline is _MISSING:
            return
        now = self._now()
        for key, entry in {**self.baseline, **value}.items():
            if key in now and now[key] != entry:
                sys.modules["pandas"].set_option(key, entry)


def _numpy_print(value: Any) -> None:
    _module("numpy").set_printoptions(**value)


def _numpy_errors(value: Any) -> None:
    _module("numpy").seterr(**value)


def _torch_get() -> Any:
    return _module("torch").get_rng_state().numpy().tobytes()


def _torch_put(value: bytes) -> None:
    torch = _module("torch")
    torch.set_rng_state(torch.frombuffer(bytearray(value), dtype=torch.uint8))


class _Formatter(Item):
    """How IPython writes values as text: `%precision`, `%pprint` and the like."""

    _SETTINGS = (
        "float_precision",
        "float_format",
        "pprint",
        "max_width",
        "max_seq_length",
        "newline",
        "verbose",
    )

    def __init__(self, shell: Any) -> None:
        super().__init__("ipython.formatter")
        self._formatter = shell.display_formatter.formatters["text/plain"]

    def get(self) -> dict[str, Any]:
        return {name: getattr(self._formatter, name) for name in self._SETTINGS}

    def put(self, value: dict[str, Any]) -> None:
        for name in self._SETTINGS:
            if name in value and getattr(self._formatter, name) != value[name]:
                setattr(self._formatter, name, value[name])


class _Printers(Item):
    """The display functions that cells registered for types, by MIME type."""

    def __init__(self, shell: Any) -> None:
        super().__init__("ipython.printers")
        self._shell = shell
        self._formatters = shell.display_formatter.formatters

    def get(self) -> dict[str, list[tuple[Any, Any]]]:
        scope = self._shell.user_ns
        found = {}
        for mime, formatter in self._formatters.items():
            own = [
                (kind, printer)
                # Not `type_printers`: what its default holds depends on when it is first asked for.
                for kind, printer in formatter._trait_values.get("type_printers", {}).items()
                if getattr(printer, "__globals__", None) is scope
            ]
            if own:
                found[mime] = own
        return found

    def put(self, value: dict[str, list[tuple[Any, Any]]]) -> None:
        for mime, own in self.get().items():
            for kind, _ in own:
                self._formatters[mime].type_printers.pop(kind, None)
        for mime, own in value.items():
            self._formatters[mime].type_printers.update(own)


class _Inline(Item):
    """The settings of the inline backend: `%config InlineBackend.figure_formats = ['svg']`."""

    library = "matplotlib_inline.backend_inline"
    _SETTINGS = ("figure_formats", "print_figure_kwargs", "rc", "close_figures")

    def __init__(self) -> None:
        super().__init__("inline")

    def _config(self) -> Any:
        return _module("matplotlib_inline.config").InlineBackend.instance()

    def get(self) -> dict[str, Any]:
        config = self._config()
        return {name: copy.copy(getattr(config, name)) for name in self._SETTINGS}

    def put(self, value: dict[str, Any]) -> None:
        config = self._config()
        for name, setting in value.items():
            if getattr(config, name) != setting:
                setattr(config, name, setting)


class Environment:
    """All items of one kernel, and which of them changed since the last snapshot."""

    def __init__(self, shell: Any) -> None:
        self.modules = _Modules()
        self.pandas = _PandasOptions()
        self.items: list[Item] = [
            _Simple("sys.path", lambda: list(sys.path), _sys_path, early=True),
            _Simple("cwd", _cwd, _chdir, early=True),
            _Environ(),
            self.modules,
            _Simple("recursionlimit", sys.getrecursionlimit, sys.setrecursionlimit),
            _Simple("random", random.getstate, random.setstate),
            _NumpyRandom(),
            _Simple("torch.random", _torch_get, _torch_put, library="torch"),
            _Formatter(shell),
            _Printers(shell),
            _Simple(
                "numpy.print", lambda: _module("numpy").get_printoptions(), _numpy_print, library="numpy"
            ),
            _Simple("numpy.errors", lambda: _module("numpy").geterr(), _numpy_errors, library="numpy"),
            _RcParams(),
            _Inline(),
            self.pandas,
            _Decimal(
                "decimal", _decimal_get, lambda value: _module("decimal").setcontext(value), library="decimal"
            ),
            _Filters(),
            _Logging(),
        ]
        self.early_roots = frozenset(item.root for item in self.items if item.early)
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
            _module("torch").manual_seed(self._seed)
        else:
            _module("numpy.random.mtrand")._rand.seed(self._seed % 2**32)
        item.seen, item.value = item.probe(), _MISSING

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
                if item.value is not _MISSING:
                    dirty.add(item.root)
                    item.value = _MISSING
                continue
            if item.baseline is _MISSING and item.seen is _MISSING:
                self._start(item)
            probe = item.probe()
            if item.seen is not _MISSING and item.seen == probe:
                continue
            item.seen = probe
            value = item.get()
            plain = value == item.baseline or (item is not self.modules and value == {})
            item.value = _MISSING if plain else value
            dirty.add(item.root)
        values = {item.root: item.value for item in self.items if item.value is not _MISSING}
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
            if value is _MISSING:
                continue
            try:
                item.put(value)
            except Exception as error:  # a folder that is gone, an option that another version lacks
                failed.append({"name": item.root.removeprefix(ROOT), "reason": failures.explain(error)})
            item.seen = item.probe()
            item.value = values.get(item.root, _MISSING)
        return failed + (self.modules.failed if early else [])
