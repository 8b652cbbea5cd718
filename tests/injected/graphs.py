"""Whether two object graphs are alike: equal content, and the same sharing.

Written without any part of the helper, so that a fault there cannot hide in the comparison. What has identity in one
graph must correspond to exactly one object of the other.
"""

from __future__ import annotations

import collections
import enum
import functools
import types
from typing import Any

import numpy as np

_ATOMS = (type(None), bool, int, float, complex, str, bytes, types.EllipsisType)
_MADE_BY_TYPE = {
    "__dict__",
    "__weakref__",
    "__module__",
    "__qualname__",
    "__slotnames__",
    "__slots__",
    "_abc_impl",
}


class Difference(Exception):
    """Where two graphs differ, and in what."""


def difference(one: dict[str, Any], other: dict[str, Any]) -> str | None:
    """The first difference between two namespaces, or None when they are alike."""
    walk = _Walk(one, other)
    try:
        for name in sorted(one.keys() | other.keys()):
            if name not in one or name not in other:
                return f"{name} is only in {'one' if name in one else 'the other'}"
            walk.compare(name, one[name], other[name])
    except Difference as found:
        return str(found)
    return None


class _Walk:
    """One comparison. `scopes` are the namespaces themselves: the globals of their functions."""

    def __init__(self, *scopes: dict[str, Any]) -> None:
        self.scopes = scopes
        self.there: dict[int, Any] = {}
        self.back: dict[int, Any] = {}
        self.alive: list[Any] = []  # so that no id is used twice

    def compare(self, path: str, one: Any, other: Any) -> None:
        """Difference, unless the two are alike. No recursion: graphs may be deep."""
        waiting = [(path, one, other)]
        while waiting:
            path, one, other = waiting.pop()
            waiting.extend(reversed(self._parts(path, one, other)))

    def _parts(self, path: str, one: Any, other: Any) -> list[tuple[str, Any, Any]]:
        if type(one) in _ATOMS or type(other) in _ATOMS:
            _same(path, type(one), type(other))
            _same(path, repr(one), repr(other))
            return []
        if one is other and not isinstance(one, (list, dict, set)):
            return []  # a library's class, function or module
        if id(one) in self.there or id(other) in self.back:
            if self.there.get(id(one)) is not other or self.back.get(id(other)) is not one:
                raise Difference(f"{path}: what was one object is two, or two are one ({one!r:.100})")
            return []
        self.there[id(one)], self.back[id(other)] = other, one
        self.alive += (one, other)
        kind = [(f"type({path})", type(one), type(other))] if not isinstance(one, type) else []
        pairs = self._content(one, other)
        for label, left, right in pairs:
            if label == "=":
                _same(path, left, right)
        return kind + [(path + label, left, right) for label, left, right in pairs if label != "="]

    def _content(self, one: Any, other: Any) -> list[tuple[str, Any, Any]]:
        """Pairs of parts; those labelled `=` are compared by value."""
        if not isinstance(one, type) and type(one).__name__ != type(other).__name__:
            return [("=", type(one), type(other))]
        if isinstance(one, type):
            return self._class(one, other)
        if isinstance(one, enum.Enum):
            return [("=", one._name_, other._name_), (".value", one._value_, other._value_)]
        if isinstance(one, types.FunctionType):
            return self._function(one, other)
        if isinstance(one, types.MethodType):
            return [(".__func__", one.__func__, other.__func__), (".__self__", one.__self__, other.__self__)]
        if isinstance(one, types.BuiltinMethodType):
            return [("=", one.__name__, other.__name__), (".__self__", one.__self__, other.__self__)]
        if isinstance(one, types.CellType):
            filled = [_filled(cell) for cell in (one, other)]
            return [("=", *map(len, filled)), *_pairs("'s content", *filled)]
        if isinstance(one, np.ndarray):
            return self._array(one, other)
        if isinstance(one, functools.partial):
            return [(".func", one.func, other.func), (".args", one.args, other.args)]
        if isinstance(one, (set, frozenset)):
            return [("=", len(one), len(other)), *_pairs("{}", _in_order(one), _in_order(other))]
        if isinstance(one, (staticmethod, classmethod)):
            return [(".__func__", one.__func__, other.__func__)]
        if isinstance(one, property):
            return [(".fget", one.fget, other.fget)]
        return self._instance(one, other)

    def _class(self, one: type, other: type) -> list[tuple[str, Any, Any]]:
        bodies = [
            {
                name: value
                for name, value in vars(cls).items()
                if name not in _MADE_BY_TYPE
                and not isinstance(value, (types.MemberDescriptorType, types.GetSetDescriptorType))
            }
            for cls in (one, other)
        ]
        found = [("=", (one.__name__, one.__qualname__), (other.__name__, other.__qualname__))]
        found += [("=", sorted(bodies[0]), sorted(bodies[1])), (".__bases__", one.__bases__, other.__bases__)]
        return found + [(f".{name}", bodies[0][name], bodies[1].get(name)) for name in bodies[0]]

    def _function(self, one: Any, other: Any) -> list[tuple[str, Any, Any]]:
        mine = [
            function.__globals__ is scope for function, scope in zip((one, other), self.scopes, strict=True)
        ]
        found = [
            ("=", one.__code__, other.__code__),
            ("=", *mine),
            ("=", one.__qualname__, other.__qualname__),
        ]
        found += [
            (f".{name}", getattr(one, name), getattr(other, name)) for name in ("__defaults__", "__dict__")
        ]
        return found + _pairs(".__closure__", one.__closure__ or (), other.__closure__ or ())

    def _array(self, one: Any, other: Any) -> list[tuple[str, Any, Any]]:
        owners = [_owner(array) for array in (one, other)]
        found: list[tuple[str, Any, Any]] = []
        for look in (_shape, lambda array: array.tobytes() if not array.dtype.hasobject else None):
            found.append(("=", look(one), look(other)))
        offsets = [_address(array) - _address(own) for array, own in zip((one, other), owners, strict=True)]
        found.append(("=", *offsets))
        if owners[0] is not one or owners[1] is not other:
            return [*found, ("'s memory", *owners)]
        if one.dtype.hasobject:
            found += _pairs("[]", one.ravel(order="K").tolist(), other.ravel(order="K").tolist())
        return found

    def _instance(self, one: Any, other: Any) -> list[tuple[str, Any, Any]]:
        found: list[tuple[str, Any, Any]] = []
        if isinstance(one, (list, tuple, collections.deque)):
            found += [("=", len(one), len(other)), *_pairs("[]", list(one), list(other))]
        elif isinstance(one, dict):
            found += [("=", len(one), len(other)), *_pairs(" key ", list(one), list(other))]
            found += _pairs("[key] ", list(one.values()), list(other.values()))
        elif isinstance(one, bytearray):
            found.append(("=", bytes(one), bytes(other)))
        states = [vars(obj) if hasattr(obj, "__dict__") else {} for obj in (one, other)]
        found.append(("=", list(states[0]), list(states[1])))
        found += [(f".{name}", states[0][name], states[1].get(name)) for name in states[0]]
        for cls in type(one).__mro__:
            for name, value in vars(cls).items():
                if isinstance(value, types.MemberDescriptorType) and cls.__module__ == "__main__":
                    found.append((f".{name}", getattr(one, name, None), getattr(other, name, None)))
        return found


def _same(path: str, one: Any, other: Any) -> None:
    if one != other:
        raise Difference(f"{path}: {one!r:.200} and {other!r:.200}")


def _pairs(label: str, one: Any, other: Any) -> list[tuple[str, Any, Any]]:
    return [(f"{label}{number}", *pair) for number, pair in enumerate(zip(one, other, strict=False))]


def _filled(cell: types.CellType) -> list[Any]:
    try:
        return [cell.cell_contents]
    except ValueError:
        return []


def _in_order(values: Any) -> list[Any]:
    """Members of a set in an order that two equal sets have in common, as far as their reprs tell."""
    return sorted(
        values, key=lambda value: (type(value).__name__, repr(value) if type(value) in _ATOMS else "")
    )


def _shape(array: Any) -> tuple[Any, ...]:
    flags = array.flags
    strides = array.strides if array.size else None  # those of nothing mean nothing
    return array.dtype, array.shape, strides, flags.writeable, flags.owndata, flags.f_contiguous


def _owner(array: Any) -> Any:
    # NumPy puts a DummyArray between an object array and a view that `as_strided` made.
    while isinstance(array.base, np.ndarray) or type(array.base).__name__ == "DummyArray":
        array = array.base
    return array


def _address(array: Any) -> int:
    return int(array.__array_interface__["data"][0])
