"""Whether a value can have changed: cheap signs that a function or class is as it was."""

from __future__ import annotations

import types
from collections.abc import Iterable
from typing import Any

from . import classes, reducers
from .sharing import ATOMS


def plain_value(value: Any) -> bool:
    """Whether a value cannot change as long as its name is bound to it."""
    return type(value) in ATOMS or issubclass(type(value), types.ModuleType)


def stamp_of(objects: Iterable[Any]) -> Any:
    """A value that is equal as long as these nodes cannot have changed; None where only pickling tells.

    A plain function has no other insides than these, and a plain class none but plain functions and atoms.
    """
    stamps = [
        _class_stamp(obj) if isinstance(obj, type) else _function_stamp(obj)
        for obj in objects
        if not isinstance(obj, reducers.VARIABLES)
    ]
    return tuple(stamps) if stamps and None not in stamps else None


def _function_stamp(obj: Any) -> Any:
    if type(obj) is not types.FunctionType or obj.__closure__ or obj.__dict__ or obj.__kwdefaults__:
        return None
    if obj.__annotations__ or any(type(value) not in ATOMS for value in obj.__defaults__ or ()):
        return None
    return obj.__code__, obj.__defaults__, obj.__qualname__, obj.__doc__


def _class_stamp(obj: type) -> Any:
    stamps = []
    for name, value in classes.body(obj).items():
        stamp = (type(value), value) if type(value) in ATOMS else _function_stamp(value)
        if stamp is None:
            return None
        stamps.append((name, stamp))
    return tuple(stamps)
