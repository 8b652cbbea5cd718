"""Hashes that depend on content alone, and groups of names that share a mutable object.

Two values have one hash exactly when they are equal in type and content, recursively: 1, 1.0 and True differ, the
order of a dict counts, that of a set does not, and neither does sharing, interning or the layout of memory.
A fingerprint takes a group's members together and sees what they share.

Both walk the same *tokens*: a value is taken apart into a tag and its parts. Plain data without sets or circles is
hashed at C speed, by the pickler without its memo.
"""

from __future__ import annotations

import copyreg
import enum
import gc
import hashlib
import io
import pickle
import struct
import sys
import types
import weakref
from collections.abc import Iterable
from typing import Any

from . import arrays, blobs, classes, reducers

_ATOMS = frozenset({type(None), bool, int, float, complex, str, bytes})
_CODE = (
    "co_code", "co_exceptiontable", "co_consts", "co_names", "co_varnames", "co_freevars", "co_cellvars", "co_flags",
    "co_argcount", "co_posonlyargcount", "co_kwonlyargcount",
)  # fmt: skip
_FUNCTION = ("__name__", "__doc__", "__annotations__", "__defaults__", "__kwdefaults__", "__dict__")
# What pandas notes in its arrays and types while it works with them; no part of their content.
_NOTES = frozenset({"_cache", "_readonly"})
_MANY = 100  # atoms in a list that are taken together
_PLAIN = frozenset({list, dict, tuple})


class Undefined(Exception):
    """The content of this value cannot be told."""


class _Content:
    """Takes values apart; class and function contents are remembered for the time of one request."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, bytes]] = {}  # id of a class or function -> (it, its digest)

    def parts(self, obj: Any) -> tuple[str, list[Any]]:
        """The tag and the parts of a value that is no atom, list, tuple, dict or set."""
        kind = type(obj)
        if isinstance(obj, (type, types.FunctionType)):
            return "by content", [self._definition(obj)]
        if isinstance(obj, types.ModuleType):
            content = _stable(vars(obj)) if reducers.is_handmade(obj) else None
            return "module", [obj.__name__, content]
        if isinstance(obj, (types.BuiltinFunctionType, types.MethodDescriptorType)):
            return "builtin", [getattr(obj, "__module__", None), obj.__qualname__]
        if isinstance(obj, types.CodeType):
            return "code", [tuple(getattr(obj, name, None) for name in _CODE)]
        if isinstance(obj, types.CellType):
            return "cell", [reducers.cell_content(obj)]
        if isinstance(obj, types.MethodType):
            return "method", [obj.__func__, obj.__self__]
        if isinstance(obj, enum.Enum):
            return "member", [kind, obj._name_, obj._value_]
        numpy, pandas = sys.modules.get("numpy"), sys.modules.get("pandas")
        if numpy is not None and kind is numpy.ndarray:
            return "array", self._array(numpy, obj)
        if pandas is not None and kind is getattr(pandas, "DataFrame", None):
            columns = [obj.iloc[:, number].array for number in range(obj.shape[1])]
            return "frame", [obj.columns, obj.index, columns, obj.attrs]
        if pandas is not None and kind is getattr(pandas, "Series", None):
            return "series", [obj.name, obj.index, obj.array, obj.attrs]
        if pandas is not None and kind is getattr(pandas, "MultiIndex", None):
            # What a selection has left unused in its levels is no part of it.
            levels = [obj.get_level_values(number).array for number in range(obj.nlevels)]
            return "levels", [list(obj.names), levels]
        return self._reduced(obj)

    def _array(self, numpy: Any, array: Any) -> list[Any]:
        """dtype, shape and content, in C order whatever the memory's order is."""
        if array.dtype.hasobject:
            return [repr(array.dtype), array.shape, array.ravel(order="C").tolist()]
        content = numpy.ascontiguousarray(array)
        return [repr(array.dtype), array.shape, blobs.address_of(arrays.raw(content))]

    def _definition(self, obj: Any) -> bytes:
        """The digest of a class's or function's content; of one from a library its name counts."""
        known = self._known.get(id(obj))
        if known is not None:
            return known[1]
        if reducers.by_reference(obj) or getattr(obj, "__module__", None) == "builtins":
            digest = f"{obj.__module__}.{obj.__qualname__}".encode()
            self._known[id(obj)] = (obj, digest)
            return digest
        self._known[id(obj)] = (obj, f"recursive {obj.__qualname__}".encode())
        hasher = hashlib.sha256()
        if isinstance(obj, type):
            content: Any = [obj.__qualname__, list(obj.__bases__), _stable(classes.body(obj))]
        else:
            closure = list(obj.__closure__ or ())
            content = [obj.__qualname__, obj.__code__, closure, [getattr(obj, name) for name in _FUNCTION]]
        _Walk(self, hasher.update, shared=False).walk(content)
        self._known[id(obj)] = (obj, hasher.digest())
        return hasher.digest()

    def _reduced(self, obj: Any) -> tuple[str, list[Any]]:
        """Any other object, as pickle would take it apart."""
        try:
            reducer = copyreg.dispatch_table.get(type(obj))
            reduced = reducer(obj) if reducer is not None else reducers.override(_Detached(), obj)
            if reduced is NotImplemented:
                reduced = obj.__reduce_ex__(4)
        except Exception as error:  # whatever user code raises while it is taken apart
            raise Undefined(str(error)) from error
        if isinstance(reduced, str):
            return "global", [type(obj).__module__, reduced]
        maker, arguments, state, *rest = (*reduced, None, None, None, None)[:5]
        items = [list(part) if part is not None else None for part in rest[:2]]
        if type(obj).__module__.partition(".")[0] == "pandas":
            state = _without_notes(state)
        return "object", [type(obj), maker, arguments, state, items]


def _stable(body: dict[str, Any]) -> dict[str, Any]:
    """A class body without what says where it was written; a text it has not got is the same as None."""
    left_out = {"__firstlineno__"} | ({"__doc__"} if body.get("__doc__") is None else set())
    return {name: value for name, value in body.items() if name not in left_out}


def _without_notes(state: Any) -> Any:
    """The state of an object of pandas without what it only notes; None when nothing else is in it."""
    if type(state) is tuple:
        parts = [_without_notes(part) if type(part) is dict else part for part in state]
        return tuple(part for part in parts if part is not None)
    if type(state) is dict:
        return {name: state[name] for name in sorted(state.keys() - _NOTES)} or None
    return state


def _owner(array: Any) -> Any:
    """The object whose memory an array looks at; the array itself when it has its own."""
    while getattr(array, "base", None) is not None:
        array = array.base
    return array


class _Detached:
    """Serves reducers where nothing is saved."""

    def __init__(self) -> None:
        self.scope: dict[str, Any] = {}

    @property
    def arrays(self) -> list[Any] | None:
        return None

    def keep_atoms(self, array: Any) -> int | None:
        return None

    def node_of(self, obj: Any) -> str | None:
        return None

    def inside(self, key: str) -> bool:
        return False

    def uses_code(self, code: types.CodeType) -> None:
        return None

    def note(self, problem: str) -> None:
        return None


class _Walk:
    """Feeds the tokens of a value to a hash. `shared`: a mutable object that comes again is named by its number."""

    def __init__(self, content: _Content, update: Any, *, shared: bool) -> None:
        self._content = content
        self._update = update
        self._shared = shared
        self._numbers: dict[int, tuple[int, Any]] = {}  # what was met (or, unshared, what we are inside of)
        self._defined: dict[int, Any] = {}  # functions that we are inside of, classes that were met
        self._memory: dict[int, tuple[int, int, Any]] = {}  # by owner: its number, where it was met first, it

    def _tag(self, tag: str, count: int = 0) -> None:
        self._update(f"{tag} {count};".encode())

    def walk(self, obj: Any) -> None:
        """Feed one value."""
        kind = type(obj)
        if kind in _ATOMS:
            self._atom(kind, obj)
            return
        met = self._numbers.get(id(obj))
        if met is not None:
            self._tag("again", met[0] if self._shared else len(self._numbers) - met[0])
            return
        if not self._shared or not is_immutable(obj):
            self._numbers[id(obj)] = (len(self._numbers), obj)
        self._inside(kind, obj)
        if not self._shared:
            del self._numbers[id(obj)]

    def _atom(self, kind: type, obj: Any) -> None:
        if kind is float:
            data = struct.pack("<d", obj)
        elif kind is bytes:
            data = obj
        else:
            data = (obj if kind is str else repr(obj)).encode("utf-8", "surrogatepass")
        self._tag(kind.__name__, len(data))
        self._update(data)

    def _inside(self, kind: type, obj: Any) -> None:
        if kind is list or kind is tuple:
            self._tag(kind.__name__, len(obj))
            if len(obj) > _MANY and _ATOMS.issuperset(map(type, obj)):
                self._update(_digest(self._content, obj))
                return
            for part in obj:
                self.walk(part)
        elif kind is dict:
            self._tag("dict", len(obj))
            for key, value in obj.items():
                self.walk(key)
                self.walk(value)
        elif kind is set or kind is frozenset:
            self._tag(kind.__name__, len(obj))
            self._set(obj)
        else:
            tag, parts = self._content.parts(obj)
            self._tag(tag, len(parts))
            for part in parts:
                self.walk(part)
            if self._shared:
                self._sharing(kind, obj)

    def _set(self, members: Iterable[Any]) -> None:
        """The members in the order of their digests; of such as have the same one, none is told from the others."""
        by_digest: dict[bytes, list[Any]] = {}
        for part in members:
            by_digest.setdefault(_digest(self._content, part), []).append(part)
        for digest in sorted(by_digest):
            same = by_digest[digest]
            self._update(digest * len(same))
            if self._shared and len(same) == 1 and type(same[0]) not in _ATOMS:
                self.walk(same[0])

    def _sharing(self, kind: type, obj: Any) -> None:
        """What a value that was taken apart can share besides its parts: memory, closures, attributes of classes."""
        numpy = sys.modules.get("numpy")
        if numpy is not None and kind is numpy.ndarray:
            place = obj.__array_interface__["data"][0]
            owner = _owner(obj)
            met = self._memory.get(id(owner))
            if met is None:
                self._memory[id(owner)] = (len(self._memory), place, owner)
            else:
                self._update(repr((met[0], place - met[1], obj.strides)).encode())
        elif id(obj) in self._defined or not isinstance(obj, (type, types.FunctionType)):
            return
        elif not reducers.by_reference(obj) and obj.__module__ != "builtins":
            self._defined[id(obj)] = obj
            if isinstance(obj, type):
                parts: list[Any] = list(_stable(classes.body(obj)).values())
            else:
                parts = [*(obj.__closure__ or ()), *(getattr(obj, name) for name in _FUNCTION[3:])]
                parts = [part for part in parts if part]
            for part in parts:
                self.walk(part)
            if not isinstance(obj, type):
                del self._defined[id(obj)]


class _PlainPickler(pickle.Pickler):
    """Serialises without a memo: sharing and interning leave no mark."""

    def __init__(self, content: _Content, file: io.BytesIO) -> None:
        # The last protocol that makes sets by a call of their class: see below.
        super().__init__(file, protocol=3)
        self.fast = True
        self._content = content

    def reducer_override(self, obj: Any) -> Any:
        if obj is _made_of:
            return NotImplemented
        if obj is set or obj is frozenset:
            raise pickle.PicklingError("a set is taken in the order of its members' digests")
        tag, parts = self._content.parts(obj)
        return _made_of, (tag, *parts)


class _Basic(pickle.Pickler):
    """Serialises what runs no code of anybody's, and nothing else."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, protocol=3)
        self.fast = True

    def reducer_override(self, obj: Any) -> Any:
        raise pickle.PicklingError("not plain")


def _made_of(*parts: Any) -> Any:
    """Marks, in a stream that is only hashed, a value taken apart."""
    raise pickle.UnpicklingError("this stream is for hashing")


def _digest(content: _Content, obj: Any) -> bytes:
    """The digest of one value's content; Undefined when it cannot be told."""
    file = io.BytesIO()
    try:
        _PlainPickler(content, file).dump(obj)
        return hashlib.sha256(file.getbuffer()).digest()
    except (ValueError, OverflowError, RecursionError, pickle.PicklingError, TypeError, AttributeError):
        pass  # circles, or something only the walk can take; the walk below has the last word
    hasher = hashlib.sha256()
    try:
        _Walk(content, hasher.update, shared=False).walk(obj)
    except RecursionError as error:
        raise Undefined("it is nested too deeply") from error
    return hasher.digest()


def content_hash(obj: Any) -> str:
    """64 hex digits that depend on a value's type and content alone; Undefined when that cannot be told."""
    return _digest(_Content(), obj).hex()


def fingerprint(values: dict[str, Any]) -> str:
    """64 hex digits for a group of names: their values together, and what these share."""
    if _is_plain_tree(values):
        return hashlib.sha256(b"a tree" + _digest(_Content(), dict(sorted(values.items())))).hexdigest()
    hasher = hashlib.sha256()
    walk = _Walk(_Content(), hasher.update, shared=True)
    try:
        for name in sorted(values):
            walk.walk(name)
            walk.walk(values[name])
    except RecursionError as error:
        raise Undefined("it is nested too deeply") from error
    return hasher.hexdigest()


def is_plain(value: Any) -> bool:
    """Whether a value is made of lists, dicts, tuples and atoms alone, or an array of numbers that owns its memory."""
    numpy = sys.modules.get("numpy")
    if numpy is not None and type(value) is numpy.ndarray:
        return value.base is None and not value.dtype.hasobject
    try:
        _Basic(io.BytesIO()).dump(value)
    except (ValueError, OverflowError, RecursionError, pickle.PicklingError):
        return False
    return True


def _is_plain_tree(values: dict[str, Any]) -> bool:
    """Whether these are lists, dicts and tuples of atoms in which nothing is held twice; at C speed, level by level."""
    level: list[Any] = [value for value in values.values() if type(value) not in _ATOMS]
    met: set[int] = set()
    while level:
        before = len(met)
        met.update(map(id, level))
        if len(met) - before != len(level) or not _PLAIN.issuperset(map(type, level)):
            return False
        parts = gc.get_referents(*level)
        if _ATOMS.issuperset(map(type, parts)):
            break
        level = [part for part in parts if type(part) not in _ATOMS]
    return True


def is_immutable(obj: Any) -> bool:
    """Whether sharing this object between two names cannot be felt: it has no insides of its own that change."""
    kind = type(obj)
    if kind in _ATOMS or kind in (tuple, frozenset, range, slice, types.CodeType):
        return True
    if isinstance(obj, (type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType, enum.Enum)):
        return True
    if kind.__name__ in ("dtype", "Pattern") or kind.__module__ in (
        "datetime",
        "decimal",
        "fractions",
        "typing",
    ):
        return True
    return obj is ... or obj is NotImplemented or id(obj) in reducers.singletons(kind)


def alias_groups(values: dict[str, Any]) -> list[list[str]]:
    """The names grouped by the mutable objects that they share, directly or nested; in the order of the names."""
    if len(values) < 2:
        return [[name] for name in values]
    leader = {name: name for name in values}

    def find(name: str) -> str:
        while leader[name] != name:
            name = leader[name]
        return name

    seen: dict[int, str] = {}
    for name, value in values.items():
        for number in _mutable_insides(value):
            other = seen.setdefault(number, name)
            if other != name and find(other) != find(name):
                leader[find(name)] = find(other)
    groups: dict[str, list[str]] = {}
    for name in values:
        groups.setdefault(find(name), []).append(name)
    return list(groups.values())


def _mutable_insides(root: Any) -> Iterable[int]:
    """The ids of the mutable objects that a value reaches, not through classes, modules or globals."""
    numpy, pandas = sys.modules.get("numpy"), sys.modules.get("pandas")
    fixed = (types.ModuleType, getattr(pandas, "Index", ()))
    met: dict[int, Any] = {}
    level = [root]
    while level:
        plain = {id(obj): obj for obj in level if type(obj) in _PLAIN and id(obj) not in met}
        met.update(plain)
        following = [part for part in gc.get_referents(*plain.values()) if type(part) not in _ATOMS]
        for obj in level:
            if type(obj) in _ATOMS or id(obj) in met or isinstance(obj, fixed):
                continue  # an index of pandas never changes, and copies of a frame share it
            if type(obj).__name__ == "BlockPlacement":
                continue  # nor does the place of a column in a frame
            met[id(obj)] = obj
            if isinstance(obj, type):
                if not reducers.by_reference(obj) and obj.__module__ != "builtins":
                    following.extend(classes.body(obj).values())
            elif numpy is not None and isinstance(obj, numpy.ndarray):
                if obj.base is not None:
                    following.append(obj.base)
                if obj.dtype.hasobject:
                    following.extend(obj.ravel().tolist())
                if type(obj) is not numpy.ndarray:
                    following.extend(getattr(obj, "__dict__", {}).values())
            elif isinstance(obj, types.FunctionType):
                following.extend((obj.__closure__, obj.__defaults__))
                following.extend((obj.__kwdefaults__ or {}).values())
                following.extend(obj.__dict__.values())
            elif isinstance(obj, weakref.ref):
                following.append(obj())
            else:
                following.extend(gc.get_referents(obj))
        level = following
    return [number for number, obj in met.items() if not is_immutable(obj)]
