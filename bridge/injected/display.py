"""How the REST door's kernels show things: library defaults, figures, order of the streams.

None of this is installed for the kernelspec door, which leaves ipykernel as it is.
"""

from __future__ import annotations

import functools
import importlib.abc
import importlib.machinery
import inspect
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, NoReturn

PANDAS = {
    "display_max_rows": "max_rows",
    "display_max_columns": "max_columns",
    "display_max_colwidth": "max_colwidth",
}


class _Loader(importlib.abc.Loader):
    """Runs a module's own loader, then what is to happen once it is loaded."""

    def __init__(self, loader: Any, after: Callable[[ModuleType], None]) -> None:
        self._loader, self._after = loader, after

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        made: ModuleType | None = self._loader.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        # The module must look as if it had been loaded without us.
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._after(module)


class Watch(importlib.abc.MetaPathFinder):
    """Calls a function once when the user's code first imports a certain module."""

    def __init__(self, actions: dict[str, Callable[[ModuleType], None]]) -> None:
        self._actions = dict(actions)

    def install(self) -> None:
        """Begin to watch; a module that is there already is taken at once."""
        for name in list(self._actions):
            if name in sys.modules:
                self._actions.pop(name)(sys.modules[name])
        sys.meta_path.insert(0, self)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The module's own spec with our loader around its own; None for all modules that are not watched."""
        action = self._actions.get(name)
        if action is None:
            return None
        for finder in sys.meta_path:
            if finder is self:
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None and spec.loader is not None:
                del self._actions[name]
                spec.loader = _Loader(spec.loader, action)
                return spec
        return None


def pandas_defaults(options: dict[str, int]) -> Callable[[ModuleType], None]:
    """Sets pandas' display options when it is first imported, so that a user's own `set_option` lasts."""

    def apply(pandas: ModuleType) -> None:
        for field, option in PANDAS.items():
            pandas.set_option(f"display.{option}", options[field])

    return apply


def polars_defaults(options: dict[str, int]) -> Callable[[ModuleType], None]:
    """The same for polars."""

    def apply(polars: ModuleType) -> None:
        config = polars.Config
        config.set_tbl_rows(options["display_max_rows"])
        config.set_tbl_cols(options["display_max_columns"])
        config.set_fmt_str_lengths(options["display_max_colwidth"])

    return apply


def numpy_floats(shell: Any) -> Callable[[ModuleType], None]:
    """Has `%precision` reach NumPy's floats whenever NumPy is loaded.

    IPython does that only where NumPy was there before the first value was shown; a pool's kernels would differ.
    """

    def apply(numpy: ModuleType) -> None:
        formatter = shell.display_formatter.formatters["text/plain"]
        printers = formatter._trait_values.get("type_printers")
        if printers is not None:
            printers.setdefault(numpy.float64, lambda obj, p, cycle: p.text(formatter.float_format % obj))

    return apply


def show_figures(backend_bases: ModuleType) -> None:
    """Makes `show()` of a backend without a window paint the open figures into the cell's output."""

    def pyplot_show(cls: type, *, block: bool | None = None) -> None:
        flush_figures()

    backend_bases.FigureManagerBase.pyplot_show = classmethod(pyplot_show)


def flush_figures() -> None:
    """Show every open figure once and close it, whatever backend drew it."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is None or not pyplot.get_fignums():
        return
    from IPython.display import display

    show: Any = display
    try:
        for number in pyplot.get_fignums():
            figure = pyplot.figure(number)
            _with_png(figure)
            show(figure)
    finally:
        pyplot.close("all")


def _with_png(figure: Any) -> None:
    """Make sure that IPython knows how to paint figures: only the inline backend tells it by itself."""
    from IPython import get_ipython
    from IPython.core import pylabtools

    shell: Any = get_ipython()
    formatter = shell.display_formatter.formatters["image/png"]
    if type(figure) not in formatter and "Figure" not in str(formatter.deferred_printers):
        select: Any = pylabtools.select_figure_formats
        select(shell, {"png"}, bbox_inches="tight")


def figures_at_cell_end(error: bool) -> None:
    """Leave no figure open: shown after a good cell, closed after a failed one."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is None or not pyplot.get_fignums():
        return
    if error:
        pyplot.close("all")
    else:
        flush_figures()


def lenient_bundles(shell: Any) -> None:
    """Let a `_repr_mimebundle_` that takes no `include` and `exclude` work as well."""
    from IPython.core.formatters import MimeBundleFormatter, catch_format_error
    from IPython.utils.dir2 import get_real_method

    class LenientFormatter(MimeBundleFormatter):
        @catch_format_error  # type: ignore[untyped-decorator]
        def __call__(self, obj: Any, include: Any = None, exclude: Any = None) -> Any:
            method = get_real_method(obj, self.print_method) if self.enabled else None
            if method is not None and type(obj) not in self and not _takes_choice(method):
                return method()
            return super().__call__(obj, include=include, exclude=exclude)

    old = shell.display_formatter.mimebundle_formatter
    made = LenientFormatter(parent=old.parent)
    made.type_printers.update(old.type_printers)
    made.deferred_printers.update(old.deferred_printers)
    shell.display_formatter.mimebundle_formatter = made


def _takes_choice(method: Callable[..., Any]) -> bool:
    try:
        inspect.signature(method).bind(include=None, exclude=None)
    except TypeError:
        return False
    except ValueError:  # no signature to be had: let it be called as IPython does
        return True
    return True


def whole_lines_from_forks() -> None:
    """Has a forked child print whole lines to its file descriptors, which ipykernel captures.

    ipykernel's own streams send each write of a child by itself, and those of several children mix.
    """

    def in_child() -> None:
        for name, descriptor in (("stdout", 1), ("stderr", 2)):
            if type(getattr(sys, name)).__module__ == "ipykernel.iostream":
                # It lives as long as the child, whose every print goes through it.
                text = open(  # noqa: SIM115
                    descriptor, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False
                )
                setattr(sys, name, text)

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=in_child)


def last_words(kernel: Any) -> None:
    """Lets what a cell printed and flushed leave the process before `os._exit` ends it."""
    leave = os._exit

    @functools.wraps(leave)
    def _exit(status: int) -> NoReturn:
        if os.getpid() == kernel.session.pid:  # in no child of a cell's
            sys.stdout.flush()
            sys.stderr.flush()
            time.sleep(0.05)  # what the streams handed over, zmq's own thread has yet to send
        leave(status)

    os._exit = _exit


def safe_packing(session: Any) -> None:
    """Let a message with text or numbers that JSON lacks through, with the bad character or number replaced.

    And let a cell that patches `json` not cut its kernel off from the world.
    """
    from jupyter_client.jsonutil import json_default

    pack = session.pack

    def pack_safely(content: Any) -> Any:
        try:
            text = json.dumps(content, default=json_default, ensure_ascii=False, allow_nan=False)
            return text.encode()
        except (TypeError, ValueError):  # a lone surrogate is a ValueError too
            return pack(clean(content))

    def unpack_safely(packed: Any) -> Any:
        return json.loads(packed.decode("utf-8", "replace") if isinstance(packed, bytes) else packed)

    session.pack, session.unpack = pack_safely, unpack_safely


def clean(value: Any) -> Any:
    """The value with lone surrogates escaped and NaN and infinities as None."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, float):
        return value if value - value == 0 else None
    if isinstance(value, dict):
        return {clean(key): clean(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [clean(part) for part in value]
    return value
