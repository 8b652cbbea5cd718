"""Whether an object that two units both hold makes them one: does anybody see that it is one object?"""

from __future__ import annotations

import copyreg
import datetime
import sys
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from . import memos, oddities, reducers

ATOMS = frozenset({type(None), bool, int, float, complex, str, bytes})
# Shared by everyone who uses the library, and the same again after a load: no sign of aliasing.
# (dtype is NumPy's, ExtensionDtype and BaseOffset pandas', DataType Arrow's and polars'; of SymPy's expressions each is
# a value. A span of time is a number with a unit.)
_COMMON = frozenset(
    {
        "dtype", "ExtensionDtype", "DataType", "BaseOffset", "Pattern", "timezone", "ZoneInfo", "code", "module",
        "builtin_function_or_method", "cython_function_or_method",
    }
)  # fmt: skip
_INDEXES = {("pandas", "Index"), ("pandas.core.indexes.base", "Index")}
_QUANTITIES = frozenset({datetime.timedelta})
_CONTAINERS = (list, tuple, set, frozenset, deque)
_DATA = frozenset({dict, OrderedDict, defaultdict, *_CONTAINERS})
_CODE = (
    type,
    types.ModuleType,
    types.FunctionType,
    types.BuiltinFunctionType,
    property,
    classmethod,
    staticmethod,
)
_STATELESS = (
    object.__basicsize__ + 2 * tuple.__itemsize__
)  # room for no more than `__dict__` and `__weakref__`
_DEEP = 20  # levels of a constant that are looked at
_MANY = 200_000  # objects that `Visible` looks at before it takes everything for visible


def is_common(kind: type) -> bool:
    """Whether objects of this type are values whose identity nobody relies on."""
    if kind in ATOMS or kind in _QUANTITIES:
        return True
    return any(base.__name__ in _COMMON or base.__module__ == "sympy.core.basic" for base in kind.__mro__)


def is_canonical(obj: Any) -> bool:
    """Whether loading twice gives this very object twice: a library's singleton, an interned or registered object.

    Only library classes are asked, and none whose objects have a length: they may be large, and none is interned.
    """
    kind = type(obj)
    if hasattr(kind, "__len__") or not (reducers.by_reference(kind) or reducers.is_builtin(kind)):
        return False
    try:
        reducer = copyreg.dispatch_table.get(kind)
        reduced: Any = reducer(obj) if reducer is not None else obj.__reduce_ex__(5)
        return isinstance(reduced, str) or reduced[0](*reduced[1]) is obj
    except Exception:  # a class that cannot be saved, or made again, raises anything: then it has an identity
        return False


def is_constant(obj: Any, depth: int = 0) -> bool:
    """Whether this cannot change and is, but for its identity, what is in it.

    So a slice or range, a tuple or frozenset of such, a library's frozen dataclass of such, and a library's object
    without any state.
    """
    kind = type(obj)
    if depth == _DEEP:
        return False
    if kind in (tuple, frozenset) or (issubclass(kind, tuple) and reducers.by_reference(kind)):
        return all(is_common(type(item)) or is_constant(item, depth + 1) for item in obj)
    if kind is slice or kind is range:
        return True
    if kind is object or not reducers.by_reference(kind):
        return False
    if oddities.is_frozen(kind):
        values = (_attributes(obj) or {}).values()
        return all(is_common(type(item)) or is_constant(item, depth + 1) for item in values)
    return (
        kind.__basicsize__ <= _STATELESS
        and getattr(obj, "__dict__", None) == {}
        and not hasattr(kind, "__len__")
    )


class Sharing:
    """Tells which of the objects that two units hold make them one; it serves one snapshot.

    A constant, an index of pandas, or an object of a library's own makes none when a cell meets it in neither unit but
    inside a library's object: two figures with the same marker, two models with the same default.
    """

    def __init__(self, has_identity: Callable[[Any], bool]) -> None:
        self._has_identity = has_identity
        self._visible: dict[int, Visible] = {}
        self._owned: set[int] = set()
        self._packages: set[str] = set()  # those that `_owned` is about
        self._asked: set[int] = set()  # ids of the units whose packages are among them

    def joins(self, obj: Any, holders: Iterable[Holder]) -> bool:
        """Whether the units that hold this object must be one."""
        if not self._has_identity(obj):
            return False
        if any(obj is value for part in holders for value in part.roots.values()):
            return True
        if not is_constant(obj) and not self._is_owned(obj, holders):
            return True
        for part in holders:
            if id(part) not in self._visible:
                self._visible[id(part)] = Visible(part.roots.values())
        return any(self._visible[id(part)].has(obj) for part in holders)

    def _is_owned(self, obj: Any, holders: Iterable[Holder]) -> bool:
        new = [part for part in holders if id(part) not in self._asked]
        self._asked.update(id(part) for part in new)
        met = [each for part in new for each in memos.objects(part.pickler).values()]
        for each in met:
            if any((base.__module__, base.__name__) in _INDEXES for base in type(each).__mro__):
                _add_index(each, self._owned)
        packages = _packages_of(met) - self._packages
        if packages:
            self._owned |= owned_by(packages)
            self._packages |= packages
        return id(obj) in self._owned


class Holder(Protocol):
    """A unit in the making, as far as it matters here."""

    roots: dict[str, Any]
    pickler: Any


def _add_index(index: Any, owned: set[int]) -> None:
    """Add an index of pandas and its insides: it never changes, and a frame's copies and selections share it."""
    waiting = [index]
    while waiting:
        value = waiting.pop()
        if id(value) in owned or type(value) in ATOMS or is_common(type(value)):
            continue
        owned.add(id(value))
        if type(value) in _DATA:
            waiting += value.values() if issubclass(type(value), dict) else value
        elif type(value).__module__.partition(".")[0] in ("pandas", "numpy"):
            waiting += (_attributes(value) or {}).values()
            waiting += [getattr(value, name, None) for name in ("base", "_ndarray")]


def _packages_of(met: Iterable[Any]) -> set[str]:
    """The top-level packages of the library classes among these objects."""
    names = {each.__module__ for each in met if isinstance(each, type) and isinstance(each.__module__, str)}
    return {name.partition(".")[0] for name in names} - {"builtins", "__main__", reducers.PREFIX}


def owned_by(packages: set[str]) -> set[int]:
    """The ids of what these libraries keep for themselves: the data in their modules and classes.

    An instance is entered when it is a module's or a class's attribute, and not what it, or a container, holds of other
    instances: those may be anybody's that the library has registered.
    """
    owned: set[int] = set()
    holders: list[Mapping[str, Any]] = [
        vars(module)
        for name, module in list(sys.modules.items())
        if name.partition(".")[0] in packages and isinstance(module, types.ModuleType)
    ]
    # Types are asked throughout, never the objects: some announce by a warning that they were looked at.
    for names in list(holders):
        classes = [each for each in list(names.values()) if issubclass(type(each), type)]
        holders += [type.__getattribute__(each, "__dict__") for each in classes if id(each) not in owned]
        owned.update(map(id, classes))
    for names in holders:
        for value in list(names.values()):
            if type(value) in ATOMS or issubclass(type(value), _CODE) or id(value) in owned:
                continue
            owned.add(id(value))
            attributes = _attributes(value)
            if attributes is not None:
                owned.add(id(attributes))
                _enter(attributes, owned)
            _enter(value, owned)
    return owned


def _attributes(value: Any) -> dict[str, Any] | None:
    """An instance's own dict of attributes, got past any code of its class; None where it has none."""
    try:
        found = object.__getattribute__(value, "__dict__")
    except Exception:  # a property of that name may raise anything
        return None
    return found if type(found) is dict else None


def _enter(container: Any, owned: set[int]) -> None:
    """Add the data in a container, at any depth."""
    waiting = [container]
    while waiting and len(owned) < _MANY:
        value = waiting.pop()
        if issubclass(type(value), dict):
            parts: list[Any] = list(dict.values(value))
        elif type(value) in _CONTAINERS:
            parts = list(value)
        else:
            continue
        for part in parts:
            if (type(part) in _DATA or type(part).__name__ == "ndarray") and id(part) not in owned:
                owned.add(id(part))
                waiting.append(part)


class Visible:
    """What a cell meets of a unit's names by way of plain containers and of the notebook's own objects."""

    def __init__(self, values: Iterable[Any]) -> None:
        self._ids: set[int] | None = set()
        waiting = list(values)
        while waiting:
            value = waiting.pop()
            if type(value) in ATOMS or id(value) in self._ids:
                continue
            if len(self._ids) == _MANY:
                self._ids = None
                return
            self._ids.add(id(value))
            waiting.extend(_parts(value))

    def has(self, obj: Any) -> bool:
        """Whether it was met."""
        return self._ids is None or id(obj) in self._ids


def _parts(value: Any) -> Iterable[Any]:
    parts: list[Any] = []
    if type(value) in (dict, OrderedDict, defaultdict):
        parts += [*value.keys(), *value.values()]
    elif type(value) in _CONTAINERS:
        parts += list(value)
    elif issubclass(type(value), (type, types.FunctionType)):
        return parts
    if type(value).__module__ not in sys.modules or type(value).__module__ == "__main__":
        parts += (_attributes(value) or {}).values()
    return parts
