"""Which functions of the notebook can be reached from a value, and which names those read.

A notebook function is one whose globals are the namespace: only such code can read a name of it unseen.
Code objects tell what they load (LOAD_GLOBAL, LOAD_NAME) whatever was done to the functions around them,
and a function object can come into a cell's hands in three ways only: it hangs on a value that the cell's
code (or a function it calls) loads by name; it is made in the cell, by code that is known; or a library
kept it from an earlier cell (callbacks, other threads: see `Ambient` in `symbols`). `Reach.values`
follows the first with `gc.get_referents`, which goes where the garbage collector goes, through
containers, instances, classes, closures, partials, bound methods and C objects alike. It does not go into
modules, library classes or library functions' globals: they are shared by all and hold functions of the
notebook only if an earlier cell put them there, which is case three. Where the collector does not see
(object arrays, C types without support for it) or the graph is larger than `LIMIT`, every function that
was ever made in this kernel is taken as reached.
"""

from __future__ import annotations

import dis
import functools
import gc
import sys
import types
import weakref
from dataclasses import dataclass
from typing import Any

from . import words

LIMIT = 10_000
_LOADS = words.word_set(
    "LOAD_GLOBAL LOAD_NAME LOAD_CLASSDEREF LOAD_FROM_DICT_OR_GLOBALS LOAD_FROM_DICT_OR_DEREF"
)
_STORES = words.word_set("STORE_GLOBAL")
_CALLS = words.word_set("LOAD_METHOD LOAD_ATTR LOAD_GLOBAL LOAD_NAME IMPORT_NAME")


@dataclass(frozen=True, slots=True)
class Code:
    """What a function's code, with the code nested in it, can do to the namespace."""

    reads: frozenset[str]
    binds: frozenset[str]
    uncertain: bool  # names something that can reach every name
    texts: frozenset[
        str
    ]  # words of strings handed to callables in `words.READERS`, or expanded by a shell escape
    readers: frozenset[str]  # … whose texts are not known, by callee
    pickles: bool


def _texts_after(instructions: list[Any], i: int) -> set[str] | None:
    """Words of the constant string that is the first argument of the call begun at i; None: not constant."""
    for ins in instructions[i + 1 : i + 4]:
        if ins.opname == "LOAD_CONST" and isinstance(ins.argval, str):
            return words.identifiers(ins.argval)
        if ins.opname not in ("PUSH_NULL", "PRECALL", "CACHE"):
            return None
    return None


@functools.lru_cache(maxsize=4096)
def code_of(code: types.CodeType) -> Code:
    """The summary of a code object (equal code gives equal answers, so the cache cannot be wrong)."""
    reads: set[str] = set()
    binds: set[str] = set()
    texts: set[str] = set()
    readers: set[str] = set()
    names = set(code.co_names)
    uncertain = bool(names & words.UNSAFE_ATTRIBUTES)
    pickles = bool(names & words.PICKLERS)
    instructions = list(dis.get_instructions(code))
    for i, ins in enumerate(instructions):
        if ins.opname in _LOADS:
            reads.add(ins.argval)
        elif ins.opname in _STORES:
            binds.add(ins.argval)
        elif ins.opname == "IMPORT_NAME" and ins.argval == "__main__":
            uncertain = True
        if ins.opname in _CALLS and ins.argval in words.READERS:
            found = _texts_after(instructions, i)
            if found is None:
                readers.add(ins.argval)
            texts |= found or set()
    if reads & (words.UNSAFE_NAMES - words.LOCAL_NAMES):
        uncertain = True
    for constant in code.co_consts:
        if isinstance(constant, str):
            uncertain = uncertain or (words.names_main(constant) and "__name__" not in names)
            if names & {"system", "getoutput"}:
                texts |= words.expanded(constant)
        elif isinstance(constant, types.CodeType):
            inner = code_of(constant)
            reads |= inner.reads
            binds |= inner.binds
            texts |= inner.texts
            readers |= inner.readers
            uncertain = uncertain or inner.uncertain
            pickles = pickles or inner.pickles
    return Code(
        frozenset(reads), frozenset(binds), uncertain, frozenset(texts), frozenset(readers), pickles
    )  # fmt: skip


# Values that hold nothing, or nothing but such values.
_FLAT: frozenset[type] = frozenset(
    {
        int, float, complex, bool, str, bytes, bytearray, type(None), type(...), type(NotImplemented),
        range, slice,
        types.BuiltinFunctionType, types.ModuleType, types.CodeType, types.FrameType, types.TracebackType,
        types.GetSetDescriptorType, types.MemberDescriptorType, types.WrapperDescriptorType,
        types.MethodDescriptorType, types.ClassMethodDescriptorType, weakref.ref, memoryview,
    }
)  # fmt: skip
# Builtins that see every name of the frame they are called from, whoever hands them over.
_SEEING = frozenset({eval, exec, globals, locals, vars, dir, __import__})
# C types that the garbage collector does not look into and that hold no Python objects.
_DATA_PACKAGES = words.word_set(
    """builtins datetime decimal _decimal fractions uuid re _sre array _struct hashlib _hashlib _blake2
    _random zoneinfo _io _socket numpy pandas pyarrow polars torch select zlib _thread _bz2 _lzma
    _ctypes scipy shapely _pickle _json _operator itertools ipaddress pathlib _csv lxml matplotlib PIL
    cv2 h5py sklearn"""
)
# The machinery around the kernel: it leads to the namespace and to everything else.
_MACHINERY = words.word_set(
    "IPython ipykernel zmq tornado asyncio traitlets logging jupyter_client comm _bridge_kernel"
)
_HAVE_GC = 1 << 9 if sys.implementation.name == "pypy" else 1 << 14


@dataclass(slots=True)
class Found:
    """What hangs on a value: code of notebook functions; `hidden`: there may be more, not seen."""

    codes: set[types.CodeType]
    objects: list[types.CodeType]  # the same, also those that are equal
    hidden: bool = False
    namespace: bool = False  # the namespace itself can be reached


class Reach:
    """Looks into values, for one namespace."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        self._namespace = namespace
        # Library classes looked through for functions of the notebook, by id with proof of identity.
        self._classes: dict[int, tuple[weakref.ref[type], int, tuple[types.CodeType, ...]]] = {}

    def value(self, value: Any) -> Found:
        """What can be reached from a value. Bounded by LIMIT objects."""
        found = Found(set(), [])
        if type(value) in _FLAT:
            return found
        seen: set[int] = {id(value)}
        layer: list[Any] = [value]
        while layer:
            inner: list[Any] = []
            kinds: set[type] = set()
            for each in layer:
                kind = type(each)
                if kind not in kinds:
                    kinds.add(kind)
                    inner.append(kind)
                if self._enter(each, kind, found, inner):
                    inner.extend(gc.get_referents(each))
                    if len(inner) > LIMIT:
                        found.hidden = True
                        return found
            fresh: list[Any] = []
            for each in inner:
                if type(each) is types.BuiltinFunctionType:
                    found.namespace = found.namespace or each in _SEEING
                elif type(each) not in _FLAT and id(each) not in seen:
                    seen.add(id(each))
                    fresh.append(each)
            if len(seen) > LIMIT:
                found.hidden = True
                break
            layer = fresh
        return found

    def _enter(self, each: Any, kind: type, found: Found, inner: list[Any]) -> bool:
        """Notes one object; True: what it refers to is to be looked at too."""
        if kind is types.FunctionType:
            if each.__globals__ is self._namespace:
                found.codes.add(each.__code__)
                found.objects.append(each.__code__)
            inner.extend(each.__closure__ or ())
            inner.append(each.__defaults__)
            inner.append(each.__kwdefaults__)
            inner.append(each.__dict__)
            return False
        if kind is dict:
            if each is self._namespace:
                found.namespace = True
                return False
            return each is not sys.modules
        if issubclass(kind, type):
            return self._class(each, found)
        if issubclass(kind, types.ModuleType):
            found.namespace = found.namespace or vars(each) is self._namespace
            return False
        if kind in (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType):
            frame = (
                getattr(each, "gi_frame", None)
                or getattr(each, "cr_frame", None)
                or getattr(each, "ag_frame", None)
            )
            if frame is not None and _package_of(frame.f_globals) in _MACHINERY:
                return False
            if frame is not None and frame.f_globals is self._namespace:
                found.codes.add(frame.f_code)
                found.objects.append(frame.f_code)
            if frame is not None and frame.f_locals is not self._namespace:
                inner.extend(frame.f_locals.values())
            return False
        package = _package(kind)
        if package in _MACHINERY:
            return False
        numpy = sys.modules.get("numpy")
        if numpy is not None and issubclass(kind, numpy.ndarray):
            self._array(each, numpy.ndarray, found, inner)
            return kind is not numpy.ndarray
        if not kind.__flags__ & _HAVE_GC:
            found.hidden = found.hidden or package not in _DATA_PACKAGES
            return False
        return True

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


def _package_of(module: dict[str, Any]) -> str:
    name = module.get("__name__")
    return name.partition(".")[0] if isinstance(name, str) else ""


def _package(kind: type) -> str:
    module = _module_of(kind)
    return module.partition(".")[0] if isinstance(module, str) else ""
