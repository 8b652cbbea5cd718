"""Which functions of the notebook can be reached from a value, and whether the namespace itself can.

A notebook function is one whose globals are the namespace: only such code can read a name of it unseen, but for
what `keys` knows. Code objects tell what they load (see `codes`) whatever was done to the functions around them,
and a function object can come into a cell's hands in three ways only: it hangs on a value that the cell's
code (or a function it calls) loads by name; it is made in the cell, by code that is known; or a library
kept it from an earlier cell (callbacks, other threads: see `Tracker._elsewhere`, and `Spread` for what a cell put
on a module). `Reach.value` follows the first with `gc.get_referents`, which goes where the garbage collector goes,
through containers, instances, classes, closures, partials, bound methods and C objects alike, and through weak
references. It does not go into modules, library classes or library functions' globals: they are shared by all and
hold functions of the notebook only if an earlier cell put them there, which is case three. Where the collector does
not see (object arrays, C types without support for it) or the graph is larger than `LIMIT`, every function that
lives is taken as reached (see `known`).
"""

from __future__ import annotations

import asyncio
import builtins
import collections
import contextvars
import gc
import logging
import sys
import threading
import types
import weakref
from dataclasses import dataclass
from typing import Any

from . import keys, words

_HAVE_GC = 1 << 9 if sys.implementation.name == "pypy" else 1 << 14
LIMIT = 500_000
_ROOM = 2 * LIMIT  # numbers and texts among them

# Values that hold nothing, or nothing but such values.
_FLAT: frozenset[type] = frozenset(
    {
        int, float, complex, bool, str, bytes, bytearray, type(None), type(...), type(NotImplemented),
        range, slice, types.CodeType, types.FrameType, types.TracebackType,
        types.GetSetDescriptorType, types.MemberDescriptorType, types.WrapperDescriptorType,
        types.MethodDescriptorType, types.ClassMethodDescriptorType, memoryview,
    }
)  # fmt: skip
# Containers that the collector sees through, and whose size it does not hurt to ask for.
_SIZED: frozenset[type] = frozenset(
    {
        list, tuple, dict, set, frozenset, collections.deque, collections.OrderedDict,
        collections.defaultdict, collections.Counter,
    }
)  # fmt: skip
# The containers, and what the collector does not track.
_HELD = _SIZED | {kind for kind in _FLAT if not kind.__flags__ & _HAVE_GC}
# What only points elsewhere, in ways that the collector does not follow.
_HIDING: frozenset[type] = frozenset(
    {
        weakref.ProxyType,
        weakref.CallableProxyType,
        contextvars.ContextVar,
        contextvars.Context,
        threading.local,
    }
)
# C types that the garbage collector does not look into and that hold no Python objects.
_DATA_PACKAGES = words.word_set(
    """builtins datetime decimal _decimal fractions uuid re _sre array _struct hashlib _hashlib _blake2
    _random zoneinfo _io _socket numpy pandas pyarrow polars torch select zlib _thread _bz2 _lzma
    _ctypes scipy shapely _pickle _json _operator itertools ipaddress pathlib _csv lxml matplotlib PIL
    cv2 h5py sklearn pybind11_builtins nanobind"""
)
# The machinery around the kernel: it leads to the namespace and to everything else.
_MACHINERY = words.word_set("IPython ipykernel zmq tornado traitlets jupyter_client comm _bridge_kernel")


@dataclass(slots=True)
class Found:
    """What hangs on a value: code of notebook functions; `hidden`: there may be more, not seen."""

    codes: set[types.CodeType]
    objects: list[types.CodeType]  # the same, also those that are equal
    hidden: bool = False
    namespace: bool = False  # the namespace itself can be reached


_ONE_BY_ONE: frozenset[type] = frozenset(
    {
        types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.GeneratorType,
        types.CoroutineType, types.AsyncGeneratorType,
    }
)  # fmt: skip


def _size(objects: list[Any]) -> int:
    """How much containers hold in all."""
    return sum([len(each) for each in objects if type(each) in _SIZED])


def _holds_data(objects: list[Any]) -> bool:
    """Whether containers hold only what is flat: the fast answer for the many small ones of a large one.

    Beside containers there are only objects of types that the collector does not track. No step is a loop of Python's.
    """
    tracked = list(
        filter(gc.is_tracked, objects)
    )  # the other containers hold nothing, or nothing that is tracked
    return sum(map(len, tracked)) <= _ROOM and set(map(type, gc.get_referents(*tracked))) <= _FLAT


def _fresh(objects: list[Any], kinds: set[type]) -> dict[int, Any]:
    """What is to be looked at of some objects of these types, by id; often far fewer: each instance has its class."""
    if kinds.isdisjoint(_FLAT):
        return dict(zip(map(id, objects), objects, strict=True))
    if all(kind in _FLAT or kind.__flags__ & _HAVE_GC for kind in kinds):
        # Where the collector could track all that counts, what it does not track holds nothing that does.
        objects = list(filter(gc.is_tracked, objects))
    return {
        key: each
        for key, each in dict(zip(map(id, objects), objects, strict=True)).items()
        if type(each) not in _FLAT
    }


def holds_nothing(kind: type) -> bool:
    """Whether objects of a type that the collector does not look into hold no Python objects."""
    return not kind.__flags__ & _HAVE_GC and _package(kind) in _DATA_PACKAGES


class Reach:
    """Looks into values, for one namespace."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        self._namespace = namespace
        # Library classes looked through for functions of the notebook, by id with proof of identity.
        self._classes: dict[int, tuple[weakref.ref[type], int, tuple[types.CodeType, ...]]] = {}

    def value(self, value: Any) -> Found:
        """What can be reached from a value. Bounded by LIMIT objects, taken in layers at the interpreter's speed."""
        found = Found(set(), [])
        if type(value) in _FLAT:
            return found
        if type(value) is types.CoroutineType and value.cr_frame and _is_machinery(value.cr_frame):
            return found  # those of ipykernel itself are met around every cell
        doors = {id(self._namespace), id(sys.modules), id(vars(builtins))}
        seen: set[int] = {id(value)}
        kinds_seen: set[type] = set(_SIZED)
        layer: list[Any] = [value]
        if id(value) in doors:
            found.namespace = True
            return found
        while layer:
            inner: list[Any] = []
            bulk = self._apart(layer, kinds_seen, found, inner)
            if found.namespace:
                break
            if not _SIZED.isdisjoint(map(type, bulk)) and _size(bulk) > _ROOM:
                found.hidden = True
                break
            inner.extend(gc.get_referents(*bulk))
            kinds = set(map(type, inner))
            if kinds <= _FLAT or (kinds <= _HELD and _holds_data(inner)):
                break
            fresh = _fresh(inner, kinds)
            if not fresh.keys().isdisjoint(seen):
                for key in fresh.keys() & seen:
                    del fresh[key]
            if not fresh.keys().isdisjoint(doors):
                found.namespace = True
                break
            seen.update(fresh)
            if len(seen) > LIMIT:
                found.hidden = True
                break
            layer = list(fresh.values())
        return found

    def _apart(self, layer: list[Any], kinds_seen: set[type], found: Found, inner: list[Any]) -> list[Any]:
        """Looks at what must be looked at one by one; gives what the collector can be asked about all at once."""
        kinds = set(map(type, layer))
        if kinds <= _SIZED:
            return layer
        inner.extend(kinds - kinds_seen)
        kinds_seen |= kinds
        simple = {kind: self._is_simple(kind, found) for kind in kinds - _SIZED}
        if all(simple.values()):
            return layer
        bulk: list[Any] = []
        for each in layer:
            kind = type(each)
            how = simple.get(kind, True)
            if how or (how is None and self._enter(each, kind, found, inner)):
                bulk.append(each)
        return bulk

    def _is_simple(self, kind: type, found: Found) -> bool | None:
        """Whether objects of a type can be left to the collector; False: not to be entered, None: one by one."""
        if kind in _ONE_BY_ONE or issubclass(kind, (type, types.ModuleType, weakref.ref)):
            return None
        if kind in _HIDING:
            found.hidden = True
            return False
        found.namespace = found.namespace or keys.is_shell_type(kind)
        package = _package(kind)
        if package in _MACHINERY or issubclass(kind, (logging.Manager, asyncio.AbstractEventLoop)):
            return False
        numpy = sys.modules.get("numpy")
        if numpy is not None and issubclass(kind, numpy.ndarray):
            return None
        if not kind.__flags__ & _HAVE_GC:
            found.hidden = found.hidden or not holds_nothing(kind)
            return False
        return True

    def _enter(self, each: Any, kind: type, found: Found, inner: list[Any]) -> bool:
        """Notes one object; True: what it refers to is to be looked at too."""
        if kind is types.FunctionType:
            self._function(each, found, inner)
            return False
        if kind is types.BuiltinFunctionType:
            found.namespace = found.namespace or keys.opens(each, self._namespace)
            if not isinstance(each.__self__, types.ModuleType):
                inner.append(each.__self__)
            return False
        if kind is types.MethodType:
            found.namespace = found.namespace or keys.opens(each, self._namespace)
            return not keys.is_shell(each.__self__)
        if issubclass(kind, type):
            found.namespace = found.namespace or keys.opens(each, self._namespace)
            return self._class(each, found)
        if issubclass(kind, types.ModuleType):
            found.namespace = found.namespace or keys.opens(each, self._namespace)
            return False
        if issubclass(kind, weakref.ref):
            inner.append(weakref.ref.__call__(each))
            return kind is not weakref.ref
        if kind in (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType):
            self._generator(each, found, inner)
            return False
        numpy = sys.modules["numpy"]
        self._array(each, numpy.ndarray, found, inner)
        return kind is not numpy.ndarray

    def _function(self, function: Any, found: Found, inner: list[Any]) -> None:
        if function.__globals__ is self._namespace:
            found.codes.add(function.__code__)
            found.objects.append(function.__code__)
        else:
            found.namespace = found.namespace or keys.opens(function, self._namespace)
            if _package_of(function.__globals__) in _MACHINERY:
                return
        inner.extend(function.__closure__ or ())
        inner.append(function.__defaults__)
        inner.append(function.__kwdefaults__)
        inner.append(function.__dict__)

    def _generator(self, generator: Any, found: Found, inner: list[Any]) -> None:
        frame = (
            getattr(generator, "gi_frame", None)
            or getattr(generator, "cr_frame", None)
            or getattr(generator, "ag_frame", None)
        )
        if frame is None or _is_machinery(frame):
            return
        if frame.f_globals is self._namespace:
            found.codes.add(frame.f_code)
            found.objects.append(frame.f_code)
        if frame.f_locals is not self._namespace:
            inner.extend(frame.f_locals.values())

    @staticmethod
    def _array(array: Any, kind: Any, found: Found, inner: list[Any]) -> None:
        """Object arrays hide their items from the collector."""
        dtype = kind.dtype.__get__(array)
        if dtype.hasobject:
            if kind.size.__get__(array) > LIMIT or dtype.kind != "O":
                found.hidden = True
            else:
                inner.extend(kind.tolist(kind.ravel(array)))

    def _class(self, cls: type, found: Found) -> bool:
        """Classes of the notebook are looked into; of others only functions put on them from it count."""
        if not cls.__flags__ & (1 << 9):  # a static type cannot hold anything of the user's
            return False
        if cls.__dict__.get("__module__") == "__main__":
            return True
        known = self._classes.get(id(cls))
        attributes = cls.__dict__
        if known is None or known[0]() is not cls or known[1] != len(attributes):
            codes = tuple(
                value.__code__
                for value in map(_unwrapped, list(attributes.values()))
                if isinstance(value, types.FunctionType) and value.__globals__ is self._namespace
            )
            known = (weakref.ref(cls), len(attributes), codes)
            self._classes[id(cls)] = known
        found.codes.update(known[2])
        found.objects.extend(known[2])
        for base in cls.__bases__:
            self._class(base, found)
        return False


def _unwrapped(value: Any) -> Any:
    if isinstance(value, (staticmethod, classmethod)):
        return value.__func__
    if isinstance(value, property):
        return value.fget
    return value


# Read from `type` itself: a class can have attributes of these names, a metaclass its own way to look them up.
_module_of = type.__dict__["__module__"].__get__


def _is_machinery(frame: types.FrameType) -> bool:
    """Whether a generator's frame runs the kernel itself, and nothing of the notebook."""
    return _package_of(frame.f_globals) in _MACHINERY


def _package_of(module: dict[str, Any]) -> str:
    name = module.get("__name__")
    return name.partition(".")[0] if isinstance(name, str) else ""


def _package(kind: type) -> str:
    module = _module_of(kind)
    return module.partition(".")[0] if isinstance(module, str) else ""
