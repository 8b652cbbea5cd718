"""What cells change of IPython itself: magics, aliases, hooks, transformers, extensions, and how it shows things.

Of all that can be registered the notebook's own counts. What a library registers stays with the library, which stays
loaded; an extension is loaded again by its name.
"""

from __future__ import annotations

import functools
import itertools
import operator
import types
from collections.abc import Callable, Iterable
from typing import Any

from .items import Item, Simple

_TABLES = ("type_printers", "deferred_printers")
_TRAITS = ("ast_node_interactivity", "autocall", "automagic", "autoawait", "sphinxify_docstring")


def is_notebooks(thing: Any) -> bool:
    """Whether a function, method or object was made by the notebook."""
    owner = getattr(thing, "__self__", thing)
    function = getattr(thing, "__func__", thing)
    return "__main__" in (type(owner).__module__, getattr(function, "__module__", None))


_FIXED = (types.FunctionType, types.BuiltinFunctionType)


class _Same:
    """Compares equal to another one of the very same objects, at C speed; never where a cell may change what is in one.

    Of the notebook's own these are all but plain functions.
    """

    def __init__(self, things: Iterable[Any]) -> None:
        self._things = list(things)

    @functools.cached_property
    def _fixed(self) -> bool:
        return all(type(thing) in _FIXED or not is_notebooks(thing) for thing in self._things)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _Same)
            and len(self._things) == len(other._things)
            and all(map(operator.is_, self._things, other._things))
            and self._fixed
        )

    __hash__ = None  # type: ignore[assignment]


class _Listed(Item):
    """Those of the notebook's own in some lists of the shell's: name of the list -> what is in it."""

    def __init__(self, name: str, lists: Callable[[], dict[str, list[Any]]]) -> None:
        super().__init__(name)
        self._lists = lists

    def get(self) -> dict[str, list[Any]]:
        found = {
            name: [thing for thing in held if is_notebooks(thing)] for name, held in self._lists().items()
        }
        return {name: own for name, own in found.items() if own}

    def probe(self) -> Any:
        return _Same(itertools.chain.from_iterable(self._lists().values()))

    def put(self, value: dict[str, list[Any]]) -> None:
        for name, held in self._lists().items():
            wanted = [thing for thing in held if not is_notebooks(thing)] + value.get(name, [])
            if _Same(held) != _Same(wanted):
                held[:] = wanted


class _Magics(Item):
    """The magics that cells defined: (line or cell, name) -> function."""

    def __init__(self, shell: Any) -> None:
        super().__init__("ipython.magics")
        self._magics: dict[str, dict[str, Any]] = shell.magics_manager.magics
        self._start = {
            (kind, name): each for kind, magics in self._magics.items() for name, each in magics.items()
        }

    def get(self) -> dict[tuple[str, str], Any]:
        return {
            (kind, name): function
            for kind, magics in self._magics.items()
            for name, function in magics.items()
            if is_notebooks(function)
        }

    def probe(self) -> Any:
        return _Same(itertools.chain.from_iterable(map(dict.values, self._magics.values())))

    def put(self, value: dict[tuple[str, str], Any]) -> None:
        for kind, name in self.get().keys() - value.keys():
            before = self._start.get((kind, name))
            if before is None:
                del self._magics[kind][name]
            else:
                self._magics[kind][name] = before
        for (kind, name), function in value.items():
            self._magics[kind][name] = function


class _Aliases(Item):
    """The shell commands that `%alias` gave a name: name -> command."""

    def __init__(self, shell: Any) -> None:
        super().__init__("ipython.aliases")
        self._manager = shell.alias_manager
        self._line_magics: dict[str, Any] = shell.magics_manager.magics["line"]  # what aliases are entered as
        self._start = self._now()

    def _now(self) -> dict[str, str]:
        return {str(name): str(command) for name, command in self._manager.aliases}

    def get(self) -> dict[str, str]:
        return {name: command for name, command in self._now().items() if self._start.get(name) != command}

    def probe(self) -> Any:
        return _Same(self._line_magics.values())

    def put(self, value: dict[str, str]) -> None:
        for name in self.get().keys() - value.keys():
            self._manager.undefine_alias(name)
            if name in self._start:
                self._manager.define_alias(name, self._start[name])
        for name, command in value.items():
            self._manager.define_alias(name, command)


class _Extensions(Item):
    """The IPython extensions that cells loaded, by name; one that cannot be unloaded stays."""

    def __init__(self, shell: Any) -> None:
        super().__init__("ipython.extensions")
        self._manager = shell.extension_manager
        self._start = set(self._manager.loaded)

    def get(self) -> list[str]:
        return sorted(self._manager.loaded - self._start)

    def probe(self) -> Any:
        return set(self._manager.loaded)

    def put(self, value: list[str]) -> None:
        for name in self.get():
            if name not in value:
                self._manager.unload_extension(name)
                self._manager.loaded.discard(
                    name
                )  # so that it can be loaded again where it cannot be unloaded
        for name in value:
            if name not in self._manager.loaded:
                self._manager.load_extension(name)


class _CustomError(Item):
    """What shows an exception of some classes in place of IPython: (classes, function), or nothing."""

    def __init__(self, shell: Any) -> None:
        super().__init__("ipython.errors")
        self._shell = shell

    def get(self) -> tuple[Any, ...]:
        classes = self._shell.custom_exceptions
        wrapper = getattr(self._shell.CustomTB, "__func__", None)
        if not classes or not isinstance(wrapper, types.FunctionType) or not wrapper.__closure__:
            return ()
        held = dict(zip(wrapper.__code__.co_freevars, wrapper.__closure__, strict=True))
        return (tuple(classes), held["handler"].cell_contents) if "handler" in held else ()

    def put(self, value: tuple[Any, ...]) -> None:
        if value:
            self._shell.set_custom_exc(*value)
        elif self._shell.custom_exceptions:
            self._shell.custom_exceptions = ()


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
        for name in self._SETTINGS:  # from here on it holds all of them, be it their defaults
            getattr(self._formatter, name)

    def get(self) -> dict[str, Any]:
        held = self._formatter._trait_values  # a trait asked for takes five steps
        return {name: held[name] for name in self._SETTINGS}

    def probe(self) -> Any:
        return list(map(self._formatter._trait_values.get, self._SETTINGS))

    def put(self, value: dict[str, Any]) -> None:
        for name in self._SETTINGS:
            if name in value and getattr(self._formatter, name) != value[name]:
                setattr(self._formatter, name, value[name])


class _Printers(Item):
    """The display functions that cells registered for types, by MIME type; a type may be named by module and name."""

    def __init__(self, shell: Any) -> None:
        super().__init__("ipython.printers")
        self._formatters = shell.display_formatter.formatters

    def get(self) -> dict[str, list[tuple[Any, Any]]]:
        found = {}
        for mime, formatter in self._formatters.items():
            own = [
                (kind, printer)
                for table in _TABLES
                # Not the attribute: what its default holds depends on when it is first asked for.
                for kind, printer in formatter._trait_values.get(table, {}).items()
                if is_notebooks(printer)
            ]
            if own:
                found[mime] = own
        return found

    def probe(self) -> Any:
        held = [formatter._trait_values for formatter in self._formatters.values()]
        tables = [values[table] for table in _TABLES for values in held if table in values]
        return _Same(itertools.chain.from_iterable(map(dict.values, tables)))

    def put(self, value: dict[str, list[tuple[Any, Any]]]) -> None:
        for mime, own in self.get().items():
            for kind, _ in own:
                self._table(mime, kind).pop(kind, None)
        for mime, own in value.items():
            for kind, printer in own:
                self._table(mime, kind)[kind] = printer

    def _table(self, mime: str, kind: Any) -> dict[Any, Any]:
        table: dict[Any, Any] = getattr(self._formatters[mime], _TABLES[isinstance(kind, tuple)])
        return table


def _trait(shell: Any, name: str) -> Item:
    """A setting of the shell's own."""
    return Simple(f"ipython.{name}", lambda: getattr(shell, name), lambda value: setattr(shell, name, value))


def items(shell: Any) -> list[Item]:
    """An item for each of these things."""
    return [
        _Formatter(shell),
        _Printers(shell),
        _Extensions(shell),
        _Magics(shell),
        _Aliases(shell),
        _Listed("ipython.hooks", lambda: shell.events.callbacks),
        _Listed(
            "ipython.transformers",
            lambda: {
                "ast": shell.ast_transformers,
                "cleanup": shell.input_transformers_cleanup,
                "post": shell.input_transformers_post,
            },
        ),
        _CustomError(shell),
        Simple(
            "ipython.xmode",
            lambda: shell.InteractiveTB.mode,
            lambda mode: shell.InteractiveTB.set_mode(mode=mode),
        ),
        *(_trait(shell, name) for name in _TRAITS if shell.has_trait(name)),
    ]
