"""Whether a pickler sees all that can be reached from a value: then its pickle tells what hangs on it (see `reach`).

It does where it meets nothing but the plain built-in types, data without references and instances of the notebook's
classes that say nothing of how they are saved: of these the pickle holds every attribute and names the class.
"""

from __future__ import annotations

import copyreg
import types
from typing import Any

from . import reach, reducers

_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE
_OBJECT: Any = object
_STATE = getattr(object, "__getstate__", None)  # Python 3.10 has none


def is_plain(kind: type) -> bool:
    """Whether all that an instance of this type refers to is in its pickle, when no reducer of ours takes it."""
    return reach.holds_nothing(kind) or _says_nothing(kind)


def has_attributes_alone(kind: type) -> bool:
    """Whether all that an instance of this type, which is plain, has and is made with is its `__dict__`."""
    return bool(kind.__flags__ & _HEAP_TYPE and kind.__dictoffset__) and not any(
        vars(base).keys() & {"__slots__", "__getnewargs__", "__getnewargs_ex__"} for base in kind.__mro__
    )


def _says_nothing(kind: Any) -> bool:
    """Whether a class of the notebook leaves it to `object` how its instances are saved."""
    return (
        type(kind) is type
        and kind.__reduce_ex__ is _OBJECT.__reduce_ex__
        and kind.__reduce__ is _OBJECT.__reduce__
        and kind.__getattribute__ is _OBJECT.__getattribute__
        and getattr(kind, "__getstate__", None) is _STATE
        and not hasattr(kind, "__getattr__")
        and kind not in copyreg.dispatch_table
        and all(map(_is_simple, kind.__mro__[:-1]))
    )


def _is_simple(base: type) -> bool:
    """Whether a class is the notebook's and its instances keep what they have in attributes alone."""
    attributes = base.__dict__.get("__dict__")
    return (
        bool(base.__flags__ & _HEAP_TYPE)
        and not reducers.by_reference(base)
        and (attributes is None or type(attributes) is types.GetSetDescriptorType)
    )
