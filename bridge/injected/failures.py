"""Words about values: why one cannot be saved and where in it the reason lies, and what it is in one line."""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Iterator
from typing import Any

_DEPTH = 8  # levels down that the culprit is looked for
_WIDTH = 1000  # children of one container that are tried
_SHORT = 120  # characters of a scalar's repr that go into the manifest


def explain(error: BaseException) -> str:
    """One line about an error: its message, or its type where it has none."""
    text = re.sub(r" at 0x[0-9a-fA-F]+", "", str(error)).strip()
    name = type(error).__name__
    if name in ("Unsaveable", "MissingNode", "TypeError", "PicklingError") and text:
        return text.splitlines()[0][:300]
    return f"{name}: {text.splitlines()[0][:300]}" if text else name


def unwritten(error: OSError) -> str:
    """One line about a value for which there was no room in the home."""
    return f"it could not be written: {error.strerror or error}"


def locate(name: str, value: Any, failure_of: Callable[[Any], str | None]) -> tuple[str, str | None]:
    """The path to the innermost part of a value that cannot be saved, and why: `("job.lock", "cannot ...")`."""
    path, reason = name, failure_of(value)
    if reason is None and not isinstance(value, types.FunctionType):
        return path, reason  # its parts are not to blame
    for _ in range(_DEPTH):
        for step, child in _listed(value):
            failure = failure_of(child)
            if failure is not None:
                path, reason, value = path + step, failure, child
                break
        else:
            break
    return path, reason


def _listed(value: Any) -> list[tuple[str, Any]]:
    try:
        return list(_children(value))
    except Exception:  # an object that fails when it is asked for its attributes has none that can be shown
        return []


# Here and in the other rooms values are told by `type(value)`: `isinstance` would ask a lying one for its `__class__`.


def _children(value: Any) -> Iterator[tuple[str, Any]]:
    """The parts of a container or instance, each with its step in the path; bounded."""
    pairs: list[tuple[str, Any]] = []
    if issubclass(type(value), dict):
        pairs = [(f"[{key!r:.60}]", child) for key, child in list(value.items())[:_WIDTH]]
    elif issubclass(type(value), (list, tuple)):
        pairs = [(f"[{number}]", child) for number, child in enumerate(value[:_WIDTH])]
    elif issubclass(type(value), types.FunctionType):
        for variable, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
            try:
                pairs.append((f"'s {variable}", cell.cell_contents))
            except ValueError:
                continue  # an empty cell holds nothing that could fail
    elif not issubclass(type(value), type):
        attributes = getattr(value, "__dict__", None)
        if isinstance(attributes, dict):
            pairs = [(f".{key}", child) for key, child in list(attributes.items())[:_WIDTH]]
    yield from pairs


def summary(value: Any) -> list[str | None]:
    """A value's type name and, for a scalar, its repr (None otherwise: that is made on request)."""
    kind = type(value)
    name = kind.__name__
    if kind in (bool, type(None), float, complex) or (kind is int and value.bit_length() < 400):
        return [name, repr(value)]
    if kind in (str, bytes) and len(value) <= _SHORT:
        return [name, repr(value)]
    return [name, None]
