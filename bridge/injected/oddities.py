"""Reducers for what pickle takes wrongly or not at all: views and iterators of dicts, exceptions, evasive objects."""

from __future__ import annotations

import functools
import gc
import pickle
import struct
import sys
import types
import weakref
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from . import arrays, rebuild, reducers

if TYPE_CHECKING:
    from .reducers import Saving


def _reduce_view(owner: type, name: str, saving: Saving, obj: Any) -> Any:
    """A view of a dict; it shows what happens to the dict later."""
    mapping = next(held for held in gc.get_referents(obj) if isinstance(held, owner))
    return rebuild.dict_view, (mapping, owner, name)


def _reduce_dict_iterator(name: str, backwards: bool, saving: Saving, obj: Any) -> Any:
    """An iterator over a dict or a set, as one over what is still to come (pickle makes a list's iterator of it)."""
    rest = obj.__reduce__()[1][0]
    return rebuild.dict_iterator, (name, backwards, list(rest))


def _reduce_finalizer(saving: Saving, obj: Any) -> Any:
    """A `weakref.finalize`: one that has acted, or was called off, does nothing any more."""
    held = obj.peek()
    return rebuild.finalizer, (*(held or (object(), int, (), {})), obj.atexit and held is not None)


def _table() -> dict[type, reducers.Reducer]:
    table: dict[type, reducers.Reducer] = {}
    for name in ("keys", "values", "items"):
        for owner in (dict, OrderedDict):
            table[type(getattr(owner(), name)())] = functools.partial(_reduce_view, owner, name)
        plain = getattr({}, name)()
        table[type(iter(plain))] = functools.partial(_reduce_dict_iterator, name, False)
        table[type(reversed(plain))] = functools.partial(_reduce_dict_iterator, name, True)
    table[weakref.finalize] = _reduce_finalizer
    table[struct.Struct] = lambda saving, obj: (struct.Struct, (obj.format,))
    table[type(iter(set()))] = functools.partial(_reduce_dict_iterator, "set", False)
    return table


_TABLE = _table()


def is_failing_exception(kind: type) -> bool:
    """Whether an exception of this class may not come back: `args` need not be what its own `__init__` takes."""
    own: Any = kind
    if isinstance(own.__reduce__, types.FunctionType):
        return False
    made_by = own.__init__, own.__new__
    return any(isinstance(maker, types.FunctionType) for maker in made_by)


def exception_parts(obj: BaseException) -> Any:
    """An exception whose class has an `__init__` of its own, which does not run again."""
    native = next(base for base in type(obj).__mro__ if not base.__flags__ & (1 << 9))
    return (
        rebuild.exception,
        (type(obj), native, obj.__reduce__()[1]),
        obj.__dict__ or None,
        None,
        None,
        rebuild.set_dict,
    )


def _reduce_raised(failing: bool, saving: Saving, obj: BaseException) -> Any:
    """An exception with its cause, context and traceback, which pickle drops."""
    reduced: Any = exception_parts(obj) if failing else obj.__reduce_ex__(5)
    chain = (obj.__cause__, obj.__context__, obj.__suppress_context__, obj.__traceback__)
    if chain == (None, None, False, None) or not isinstance(reduced, tuple):
        return reduced
    state = reduced[2] if len(reduced) > 2 else None
    return reduced[0], reduced[1], (state, *chain), None, None, rebuild.set_thrown


def _is_evasive(kind: type) -> bool:
    """Whether an instance answers for attributes that it lacks: pickle's question for `__setstate__` may go astray."""
    own: Any = kind
    if own.__reduce__ is not object.__reduce__ or own.__reduce_ex__ is not object.__reduce_ex__:
        return False
    if hasattr(kind, "__setstate__"):
        return False
    return any(
        isinstance(vars(base).get(name), types.FunctionType)
        for base in kind.__mro__
        for name in ("__getattr__", "__getattribute__")
    )


def _reduce_evasive(saving: Saving, obj: Any) -> Any:
    """An instance whose state is put in place past its class's own code."""
    reduced: Any = object.__reduce_ex__(obj, 5)
    maker, arguments, state, *rest = reduced
    if state is None:
        return reduced
    return (maker, arguments, state, *rest, rebuild.set_state)


def reducer_for(kind: type) -> reducers.Reducer | None:
    """The reducer for a class that is taken care of here."""
    if kind in _TABLE:
        return _TABLE[kind]
    if issubclass(kind, BaseException):
        return functools.partial(_reduce_raised, is_failing_exception(kind))
    for base in kind.__mro__:
        if base.__module__ == "argparse":
            return _reduce_argparse
        if base.__module__ == "pandas.core.generic" and base.__name__ == "NDFrame":
            return _reduce_frame
        if base.__module__ == "sympy.core.symbol" and base.__name__ == "Symbol":
            return _reduce_symbol
        if base.__module__ == "numpy" and base.__name__ == "dtype":
            return _reduce_dtype
        if base.__module__ == "numpy" and base.__name__ == "ndarray" and kind is not base:
            return _of_array_subclass(kind, base)
        if str(base.__module__).startswith("polars.") and base.__name__ in ("DataFrame", "Series"):
            return _reduce_polars
    own: Any = kind
    if is_frozen(kind) and own.__reduce_ex__ is object.__reduce_ex__ and "__getstate__" not in vars(kind):
        return _reduce_frozen
    return _reduce_evasive if _is_evasive(kind) and not reducers.singletons(kind) else None


def is_frozen(kind: type) -> bool:
    """Whether this is a library's frozen dataclass."""
    parameters = getattr(kind, "__dataclass_params__", None)
    return getattr(parameters, "frozen", False) is True and reducers.by_reference(kind)


def _reduce_frozen(saving: Saving, obj: Any) -> Any:
    """With a copy of its attributes' dict, since the dict that pickle would note belongs to the object alone."""
    maker, arguments, state, *rest = obj.__reduce_ex__(5)
    return (maker, arguments, dict(state) if type(state) is dict else state, *rest)


def _of_array_subclass(kind: Any, array: Any) -> reducers.Reducer | None:
    own = [array.__reduce__, array.__reduce_ex__]
    masked = getattr(sys.modules.get("numpy.ma"), "MaskedArray", None)
    if kind.__name__ == "memmap" and kind.__module__.startswith("numpy"):
        return _reduce_memmap
    if kind.__reduce__ is not own[0] and kind.__reduce__ is not getattr(masked, "__reduce__", None):
        return None
    if kind.__reduce_ex__ is not own[1]:
        return None
    return lambda saving, obj: arrays.reduce_subclass(obj)


def _reduce_memmap(saving: Saving, obj: Any) -> Any:
    """A mapped file of NumPy's: its content as it is now."""
    saving.note("it is a copy of what was in the file, and no longer writes to it, in another kernel")
    return obj.__reduce__()


def _reduce_polars(saving: Saving, obj: Any) -> Any:
    """A frame or series of polars': its bytes go out of band when they are many."""
    reduced = obj.__reduce_ex__(5)
    if saving.arrays is None or len(reduced) < 3 or type(reduced[2]) is not bytes:
        return reduced
    return (*reduced[:2], pickle.PickleBuffer(reduced[2]), *reduced[3:])


def _reduce_symbol(saving: Saving, obj: Any) -> Any:
    """A symbol of SymPy's, which hands out its own dict of assumptions."""
    maker, arguments, *rest = obj.__reduce_ex__(5)
    return (maker, tuple(dict(part) if isinstance(part, dict) else part for part in arguments), *rest)


def _reduce_dtype(saving: Saving, obj: Any) -> Any:
    """A data type of NumPy's, which hands out its own dict of fields."""
    maker, arguments, *rest = obj.__reduce__()
    return (
        maker,
        arguments,
        *(tuple(dict(part) if type(part) is dict else part for part in state) for state in rest),
    )


def _reduce_frame(saving: Saving, obj: Any) -> Any:
    """A DataFrame or Series: the class's own list `_metadata` is no part of each one's state."""
    maker, arguments, state, *rest = obj.__reduce_ex__(5)
    kind = type(obj)
    if isinstance(state, dict) and state.get("_metadata") is getattr(kind, "_metadata", None):
        state = {name: value for name, value in state.items() if name != "_metadata"}
    return (maker, arguments, state, *rest)


class Name:
    """Stands in a pickle for an object that a module has under that name."""

    def __init__(self, module: str, path: str) -> None:
        self.reduced = rebuild.attribute, (module, path)

    def __reduce__(self) -> tuple[Any, ...]:
        return self.reduced


def _reduce_argparse(saving: Saving, obj: Any) -> Any:
    """A parser or one of its actions: argparse tells its mark SUPPRESS, a text, by identity."""
    reduced = obj.__reduce_ex__(5)
    state = reduced[2] if isinstance(reduced, tuple) and len(reduced) > 2 else None
    mark = sys.modules["argparse"].SUPPRESS
    if not isinstance(state, dict) or not any(value is mark for value in state.values()):
        return reduced
    named = {name: Name("argparse", "SUPPRESS") if value is mark else value for name, value in state.items()}
    return (*reduced[:2], named, *reduced[3:])


reducers.FINDERS.append(reducer_for)
