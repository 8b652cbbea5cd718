"""What libraries keep beside the variables: NumPy's and PyTorch's generators, the options of pandas and matplotlib.

An item counts once the user's code has loaded its library; nothing here imports one.
"""

from __future__ import annotations

import copy
import ctypes
import sys
from typing import Any

from .items import MISSING, Item, Simple, raw_object

_MT19937 = 625 * 4  # bytes of its state: 624 words, and which of them is next


def _module(name: str) -> Any:
    return sys.modules[name]


def _decimal_get() -> Any:
    context = _module("decimal").getcontext()
    return context.copy()


def _decimal_key() -> Any:
    return _module("decimal").getcontext().__reduce__()


class _Decimal(Simple):
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

    def probe(self) -> Any:
        generator = _module(self.library)._rand
        bits = generator._bit_generator
        # Its own bytes hold what is left of the last pair of normal numbers.
        raw = raw_object(generator) if type(bits).__name__ == "MT19937" else None
        return (raw, ctypes.string_at(bits.ctypes.state_address, _MT19937)) if raw is not None else self.get()

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
        return list(dict.values(_module("matplotlib").rcParams))

    def put(self, value: dict[str, Any]) -> None:
        module = _module("matplotlib")
        if not hasattr(module, "rcParamsOrig"):
            return
        wanted = {**dict(dict.items(module.rcParamsOrig)), **value}
        for key, entry in wanted.items():
            if key != "backend" and dict.__getitem__(module.rcParams, key) != entry:
                dict.__setitem__(module.rcParams, key, entry)


class PandasOptions(Item):
    """pandas' options, as differences from those it was loaded with (the display defaults of ours included)."""

    library = "pandas._config.config"

    def __init__(self) -> None:
        super().__init__("pandas")
        self._tables: list[dict[str, Any]] = []  # where the options are, as of the last look at all of them

    def _now(self) -> dict[str, Any]:
        flat: dict[str, Any] = {}
        self._tables = []

        def walk(prefix: str, table: dict[str, Any]) -> None:
            self._tables.append(table)
            for key, value in table.items():
                if isinstance(value, dict):
                    walk(f"{prefix}{key}.", value)
                else:
                    flat[prefix + key] = value

        walk("", _module("pandas._config.config")._global_config)
        return flat

    def get(self) -> dict[str, Any]:
        now = self._now()
        if self.baseline is MISSING:
            return {}
        return {key: value for key, value in now.items() if self.baseline.get(key, MISSING) != value}

    def probe(self) -> Any:
        if not self._tables:
            self._now()
        return list(map(list, map(dict.values, self._tables)))

    def put(self, value: dict[str, Any]) -> None:
        if "pandas" not in sys.modules or self.baseline is MISSING:
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


def items() -> list[Item]:
    """An item for each thing but pandas' options."""
    return [
        _NumpyRandom(),
        Simple("torch.random", _torch_get, _torch_put, library="torch"),
        Simple("numpy.print", lambda: _module("numpy").get_printoptions(), _numpy_print, library="numpy"),
        Simple("numpy.errors", lambda: _module("numpy").geterr(), _numpy_errors, library="numpy"),
        _RcParams(),
        _Inline(),
        _Decimal(
            "decimal", _decimal_get, lambda value: _module("decimal").setcontext(value), library="decimal"
        ),
    ]
