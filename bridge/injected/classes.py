"""Classes made in the notebook: taken apart into a skeleton and a body, and put together again.

A class is a *node*: it is stored once under a key, and whatever refers to it names the key. So a state has one
class object for its name and for all instances. A skeleton is what must exist before anything can refer to the
class (metaclass, name, bases, slots); the body is its attributes, which may refer to anything, the class itself
included. No metaclass code and no `__init_subclass__` runs when a class is put together: what these did to the
class is part of its body.
"""

from __future__ import annotations

import abc
import contextlib
import enum
import sys
import types
from collections.abc import Container, Iterator
from typing import Any

Body = dict[str, Any]

_METHOD_TYPES = (types.FunctionType, property, classmethod, staticmethod)

# What `type.__new__` makes by itself, or what belongs to one process only.
_MADE_BY_TYPE = frozenset({"__dict__", "__weakref__", "_abc_impl", "__abstractmethods__", "__slotnames__"})


_IMMUTABLE, _HEAP_TYPE = 1 << 8, 1 << 9  # Py_TPFLAGS_IMMUTABLETYPE, Py_TPFLAGS_HEAPTYPE


def native_maker(cls: type) -> type | None:
    """The metaclass written in C that alone can make this class (ctypes has such), or None where `type` does."""
    for meta in type.mro(type(cls)):
        is_native = not meta.__flags__ & _HEAP_TYPE or meta.__flags__ & _IMMUTABLE
        # From Python 3.13 on ctypes makes its classes in `__init__`.
        if is_native and not vars(meta).keys().isdisjoint(("__new__", "__init__")):
            return None if meta is type else meta
    return None


def skeleton(cls: type) -> tuple[Any, ...]:
    """What must exist of a class before anything can refer to it."""
    module = cls.__dict__.get("__module__", "__main__")
    own: dict[str, Any] = {"__module__": sys.intern(module) if type(module) is str else module}
    if "__slots__" in cls.__dict__:
        own["__slots__"] = _slots(cls)
    return (type(cls), sys.intern(cls.__name__), sys.intern(cls.__qualname__), cls.__bases__, own)


def _slots(cls: type) -> Any:
    slots = cls.__dict__["__slots__"]
    if isinstance(slots, str):
        return slots
    # A consumed iterator still left its member descriptors behind.
    listed = list(slots) if isinstance(slots, (list, tuple, set, frozenset, dict)) else None
    if listed is None:
        listed = [
            name for name, value in cls.__dict__.items() if isinstance(value, types.MemberDescriptorType)
        ]
    return tuple(listed)


def from_skeleton(parts: tuple[Any, ...]) -> type:
    """An empty class of that skeleton."""
    meta, name, qualname, bases, own = parts
    with _quiet_init_subclass(bases):
        made: type = type.__new__(meta, name, bases, dict(own))
    type.__setattr__(made, "__qualname__", qualname)
    if isinstance(made, abc.ABCMeta):
        _abc()._abc_init(made)
    return made


@contextlib.contextmanager
def _quiet_init_subclass(bases: tuple[type, ...]) -> Iterator[None]:
    """Keep the bases' `__init_subclass__` from running: it ran when the class was first made.

    `type.__new__` calls it, with no way to say no; so those defined in Python step aside for a moment.
    """
    aside: list[tuple[type, Any]] = []
    quiet = classmethod(lambda cls, **kwargs: None)
    try:
        for base in dict.fromkeys(cls for parent in bases for cls in parent.__mro__):
            own = base.__dict__.get("__init_subclass__")
            if own is not None and base.__flags__ & (1 << 9):  # Py_TPFLAGS_HEAPTYPE: a class made in Python
                aside.append((base, own))
                type.__setattr__(base, "__init_subclass__", quiet)
        yield
    finally:
        for base, own in aside:
            type.__setattr__(base, "__init_subclass__", own)


def body(cls: type) -> Body:
    """The attributes of a class that its skeleton does not make."""
    attributes = {}
    slots = _slot_names(cls)
    for name, value in cls.__dict__.items():
        if name in _MADE_BY_TYPE or name in ("__module__", "__qualname__"):
            continue
        if isinstance(value, (types.MemberDescriptorType, types.GetSetDescriptorType)) and (
            name in slots or name in ("__dict__", "__weakref__")
        ):
            continue
        attributes[name] = value
    if isinstance(cls, abc.ABCMeta):
        registered = [reference() for reference in _abc()._get_dump(cls)[0]]
        attributes["\0registered"] = [other for other in registered if other is not None]
    return attributes


def body_in_order(cls: type, left_out: Container[str] = ()) -> tuple[Body, Body]:
    """The body in two parts, for `fill` one after the other: instances in the second need the methods to be loaded."""
    methods: Body = {}
    others: Body = {"__doc__": cls.__dict__.get("__doc__")}
    attributes = body(cls)
    for name, value in attributes.items():
        if name not in left_out and name != "__doc__":
            (methods if issubclass(type(value), _METHOD_TYPES) else others)[name] = value
    names = [name for name in attributes if name in methods or name in others]
    if names != [name for name in (*methods, *others) if name != "__doc__"]:
        others["\0order"] = [name for name in names if not name.startswith(("__", "\0"))]
    return methods, others


def _slot_names(cls: type) -> set[str]:
    slots = cls.__dict__.get("__slots__", ())
    names = {slots} if isinstance(slots, str) else set(_slots(cls)) if "__slots__" in cls.__dict__ else set()
    return names | {f"_{cls.__name__.lstrip('_')}{name}" for name in names if name.startswith("__")}


def fill(cls: type, attributes: Body) -> None:
    """Give a skeleton its attributes, past metaclass and descriptors."""
    registered = attributes.pop("\0registered", ())
    order = attributes.pop("\0order", ())
    for name, value in attributes.items():
        type.__setattr__(cls, name, value)
    for name in order:
        value = cls.__dict__[name]
        type.__delattr__(cls, name)
        type.__setattr__(cls, name, value)
    if isinstance(cls, abc.ABCMeta):
        _set_abstract(cls)
        for other in registered:
            cls.register(other)


def _set_abstract(cls: type) -> None:
    """Compute the abstract methods as `ABCMeta.__new__` does."""
    names = {name for name, value in cls.__dict__.items() if getattr(value, "__isabstractmethod__", False)}
    for base in cls.__bases__:
        for name in getattr(base, "__abstractmethods__", ()):
            if getattr(getattr(cls, name, None), "__isabstractmethod__", False):
                names.add(name)
    cls.__abstractmethods__ = frozenset(names)  # type: ignore[attr-defined]


def _abc() -> Any:
    """The C module behind ABCMeta."""
    return sys.modules["_abc"]


def is_enumeration(cls: type) -> bool:
    """Whether this is a class of enumeration members."""
    return isinstance(cls, enum.EnumMeta)
