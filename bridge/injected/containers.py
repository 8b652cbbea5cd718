"""Reducers for the notebook's own kinds of list, dict, set and deque that have a hand in how they are read or filled.

Pickle asks such an object for its content through its class's own `__iter__` or `items`, and fills it through its
`append` or `__setitem__`: one that translates would come back translated twice, one that refuses not at all, and one
that never ends would be read for ever. Here the content is taken and put back past any code of the class.
"""

from __future__ import annotations

import copyreg
import functools
from collections import OrderedDict, defaultdict, deque
from typing import TYPE_CHECKING, Any

from . import rebuild, reducers

if TYPE_CHECKING:
    from .reducers import Saving

_NATIVE = (list, dict, set, deque, OrderedDict, defaultdict)
_IN_BETWEEN = frozenset(
    {
        "__iter__", "__len__", "__getitem__", "__setitem__", "__new__", "__init__", "__getattribute__",
        "add", "append", "extend", "items", "keys", "update",
    }
)  # fmt: skip
_SAID = ("__reduce__", "__reduce_ex__", "__getstate__", "__setstate__", "__getnewargs__", "__getnewargs_ex__")
_HEAP_TYPE = 1 << 9


def reducer_for(kind: type) -> reducers.Reducer | None:
    """The reducer for a class of this sort, unless it says itself how it is saved."""
    native = next(base for base in kind.__mro__ if not base.__flags__ & _HEAP_TYPE)
    own = kind.__mro__[: kind.__mro__.index(native)]
    if native not in _NATIVE or not own or any(reducers.by_reference(base) for base in own):
        return None
    names = {name for base in own for name in vars(base)}
    if names.isdisjoint(_IN_BETWEEN) or not names.isdisjoint(_SAID):
        return None
    return functools.partial(_reduce, native)


def _reduce(native: Any, saving: Saving, obj: Any) -> Any:
    kind = type(obj)
    own = {deque: "maxlen", defaultdict: "default_factory"}.get(native)
    argument = vars(native)[own].__get__(obj) if own is not None else None
    held = list(native.items(obj) if issubclass(native, dict) else native.__iter__(obj))
    attributes = object.__getattribute__(obj, "__dict__") if kind.__dictoffset__ else None
    return (
        rebuild.container,
        (kind, native, argument),
        (attributes, _slots(obj), held),
        None,
        None,
        rebuild.set_container,
    )


def _slots(obj: Any) -> dict[str, Any]:
    found = {}
    for name in copyreg._slotnames(type(obj)):  # type: ignore[attr-defined]
        try:
            found[name] = object.__getattribute__(obj, name)
        except AttributeError:  # a slot that nothing was put in
            continue
    return found


reducers.FINDERS.insert(0, reducer_for)  # before those that take an evasive object as pickle would
