"""How the pickler takes what is special: one function for each kind of object.

`override` is a pickler's `reducer_override`: the C pickler calls it for every object that is not one of the plain
built-in types, so its common path is one dict lookup. What it leaves alone (NotImplemented) is pickled as always.
"""

from __future__ import annotations

import _thread
import builtins
import copyreg
import enum
import functools
import gc
import io
import operator
import sys
import types
import typing
import weakref
from collections.abc import Callable
from typing import Any, Protocol

from . import arrays, classes, rebuild

PREFIX = "_bridge_kernel"

EnumType = enum.EnumMeta
VARIABLES: tuple[type, ...] = tuple(
    kind
    for name in ("TypeVar", "ParamSpec", "TypeVarTuple", "NewType")
    if isinstance(kind := getattr(typing, name, None), type)
)

Reduced = Any  # a reduce tuple, a global's name, or NotImplemented
Reducer = Callable[["Saving", Any], Reduced]


class Unsaveable(Exception):
    """This object cannot be saved; the message says why."""


class Saving(Protocol):
    """What a reducer may ask of the saver at work."""

    scope: dict[str, Any]  # the namespace: globals of functions defined in cells

    @property
    def arrays(self) -> list[Any] | None:
        """Where large arrays of the unit that is being pickled go, in order; None: nothing goes out of band."""

    def keep_atoms(self, array: Any) -> int | None:
        """Where among `arrays` a large array of objects is that holds nothing but atoms; None when it does not."""

    def node_of(self, obj: Any) -> str | None:
        """The key of an object that is stored as a node of its own, or None."""

    def inside(self, key: str) -> bool:
        """Whether that node's body is part of what is being pickled now."""

    def uses_code(self, code: types.CodeType) -> None:
        """A code object is part of what is being pickled."""

    def note(self, problem: str) -> None:
        """Report something of what is being pickled that will not come back as it is."""


FINDERS: list[Callable[[type], Reducer | None]] = []
"""What other modules know of types: each gives the reducer for one, or None. They enter themselves here."""


def override(saving: Saving, obj: Any) -> Reduced:
    """The reduction of an object that is not a plain built-in one, or NotImplemented."""
    reducer = reducer_for(type(obj))
    return NotImplemented if reducer is None else reducer(saving, obj)


def reducer_for(kind: type) -> Reducer | None:
    """What reduces the instances of a type; None: they are left to pickle."""
    try:
        return _TABLE[kind]
    except KeyError:
        pass
    if kind not in _passing:
        reducer = _choose(kind)
        if by_reference(kind) or is_builtin(kind):
            _TABLE[kind] = reducer
            return reducer
        _passing[kind] = reducer
    return _passing[kind]


_passing: weakref.WeakKeyDictionary[type, Reducer | None] = weakref.WeakKeyDictionary()
"""The same as `_TABLE` of the notebook's classes, which come and go."""


def by_reference(obj: Any) -> bool:
    """Whether a class or function can be had again by importing its module."""
    module_name = getattr(obj, "__module__", None)
    if not isinstance(module_name, str) or module_name == "__main__":
        return False
    try:
        found: Any = sys.modules[module_name]
        if is_handmade(found):
            return False
        name: str = getattr(obj, "__qualname__", None) or obj.__name__
        for part in name.split("."):
            found = getattr(found, part)
    except (KeyError, AttributeError):
        return False
    return found is obj


def is_handmade(module: Any) -> bool:
    """Whether a module was made by the notebook: no import brings it, or the package that it claims to be in, back."""
    if not isinstance(module, types.ModuleType):
        return False
    package = sys.modules.get(module.__name__.partition(".")[0], module)
    parts = (module, package)
    return not any(
        getattr(part, name, None) for part in parts for name in ("__spec__", "__file__", "__path__")
    )


def is_builtin(obj: Any) -> bool:
    """Whether a type belongs to the interpreter though its module does not name it: that of generators, say."""
    return getattr(obj, "__module__", None) == "builtins" and not (getattr(obj, "__flags__", 0) & (1 << 9))


def _choose(kind: type) -> Reducer | None:
    """The reducer for instances of a type that is met for the first time."""
    if issubclass(kind, type):
        return _reduce_class
    if issubclass(kind, types.ModuleType):
        return _reduce_module
    if issubclass(kind, io.IOBase):
        return _reduce_file
    for base in kind.__mro__:
        if (base.__module__, base.__name__) in _SERVANTS:
            return functools.partial(_reduce_servant, _SERVANTS[base.__module__, base.__name__])
    for refused, reason in _REFUSED.items():
        if issubclass(kind, refused):
            return functools.partial(_refuse, reason)
    if kind.__module__ == "numpy" and kind.__name__ == "ndarray":
        return _reduce_array
    if classes.is_enumeration(kind):
        return None if by_reference(kind) else _reduce_member
    for reducer_for in FINDERS:
        special = reducer_for(kind)
        if special is not None:
            return special
    if _has_own_reduce(kind) and not by_reference(kind) and not is_builtin(kind):
        return _reduce_checked
    if singletons(kind):
        return _reduce_singleton
    return None


def enter(kind: type, reducer: Reducer) -> None:
    """Take instances of exactly this type with that reducer, which another module has."""
    _TABLE[kind] = reducer


def _has_own_reduce(kind: type) -> bool:
    own: Any = kind
    return own.__reduce__ is not object.__reduce__ or own.__reduce_ex__ is not object.__reduce_ex__


def singletons(kind: type) -> dict[int, str]:
    """Instances of a library's class that are attributes of its module: `dataclasses.MISSING` and the like.

    They are compared with `is`, so they must come back by reference. `builtins` holds results of cells (see `plain`).
    """
    module = sys.modules.get(kind.__module__) if isinstance(kind.__module__, str) else None
    if module is None or kind.__module__ in ("__main__", "builtins") or kind.__module__.startswith(PREFIX):
        return {}
    return {id(value): name for name, value in list(vars(module).items()) if type(value) is kind}


def _reduce_singleton(saving: Saving, obj: Any) -> Reduced:
    name = singletons(type(obj)).get(id(obj))
    return NotImplemented if name is None else (rebuild.attribute, (type(obj).__module__, name))


def _reduce_checked(saving: Saving, obj: Any) -> Reduced:
    """An instance whose class says itself how it is saved, unless it would come back as something else.

    Then it is taken apart as if its class had said nothing.
    """
    reduced = obj.__reduce_ex__(5)
    maker = reduced[0] if isinstance(reduced, tuple) else None
    if not isinstance(maker, type) or issubclass(maker, type(obj)):
        return reduced
    if not type(obj).__mro__[-2].__flags__ & (1 << 9):
        raise Unsaveable(f"its __reduce__ would bring back a {maker.__name__}, not a {type(obj).__name__}")
    return copyreg.__newobj__, (type(obj),), getattr(obj, "__dict__", None)  # type: ignore[attr-defined]


def _reduce_class(saving: Saving, obj: type) -> Reduced:
    key = saving.node_of(obj)
    if key is not None:
        return rebuild.node, (key,)
    if obj is type(None) or obj is type(NotImplemented) or obj is type(Ellipsis):
        return NotImplemented
    name = _TYPE_NAMES.get(obj)
    return NotImplemented if name is None else (rebuild.attribute, ("types", name))


_TYPE_NAMES = {
    value: name
    for name, value in vars(types).items()
    if isinstance(value, type) and (value.__module__ != "types") and name.endswith("Type")
}


def _reduce_function(saving: Saving, obj: types.FunctionType) -> Reduced:
    key = saving.node_of(obj)
    if key is not None:
        return rebuild.node, (key,)
    if by_reference(obj):
        return NotImplemented
    return function_parts(saving, obj)


def _reduce_builtin(saving: Saving, obj: types.BuiltinFunctionType) -> Reduced:
    """A built-in function; `input` by its name, since another one stands in its place while a cell runs."""
    owner = obj.__self__
    if not isinstance(owner, types.ModuleType):
        return NotImplemented
    if obj.__name__ == "input" and owner is builtins:
        return rebuild.attribute, ("builtins", "input")
    if vars(owner).get(obj.__name__) is not obj and rebuild.original(owner.__name__, obj.__name__) is obj:
        return rebuild.original, (owner.__name__, obj.__name__)  # the notebook has put another in its place
    return NotImplemented


def function_parts(saving: Saving, obj: types.FunctionType) -> tuple[Any, ...]:
    """A function by value: code, globals by reference, closure, and the rest as its state."""
    scope = globals_of(saving, obj)
    made: tuple[Any, ...]
    if obj.__closure__ is None:
        made = rebuild.bare_function, (obj.__code__, scope, interned(obj.__name__))
    else:
        made = rebuild.function, (obj.__code__, scope, interned(obj.__name__), obj.__closure__)
    return (*made, function_state(obj), None, None, rebuild.set_function)


def function_state(obj: types.FunctionType) -> dict[str, Any]:
    """What a function has beside its code and closure; only what differs from a new function's."""
    state: dict[str, Any] = {}
    if obj.__qualname__ != obj.__name__ or obj.__qualname__ != obj.__code__.co_name:
        state["__qualname__"] = interned(obj.__qualname__)
    for name in (
        "__defaults__",
        "__kwdefaults__",
        "__annotations__",
        "__doc__",
        "__dict__",
        "__type_params__",
    ):
        value = getattr(obj, name, None)
        if value:
            state[name] = value
    if "__annotations__" in state:
        state["__annotations__"] = {interned(name): kind for name, kind in state["__annotations__"].items()}
    state["__module__"] = interned(obj.__module__)
    return state


class Scope:
    """Stands for a dict of globals in a pickle, which is then taken by reference."""

    def __init__(self, maker: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self.reduced = maker, arguments


_NAMESPACE = Scope(rebuild.namespace, ())
_scopes: dict[str, Scope] = {}


def globals_of(saving: Saving, function: types.FunctionType) -> Any:
    """What stands for a function's globals: the namespace, a module's, or (made by `exec`) the dict itself."""
    return scope_of(saving, function.__globals__)


def scope_of(saving: Saving, scope: dict[str, Any]) -> Any:
    """`globals_of` for the dict itself."""
    if scope is saving.scope:
        return _NAMESPACE
    module_name = scope.get("__name__")
    module = sys.modules.get(module_name) if isinstance(module_name, str) else None
    if (module is None or vars(module) is not scope) and "__loader__" in scope:  # else no module has it
        module = next((each for each in gc.get_referrers(scope) if isinstance(each, types.ModuleType)), None)
    if module is None or vars(module) is not scope:
        return scope
    if is_handmade(module):
        return Scope(rebuild.globals_of, (module,))
    return _scopes.setdefault(module.__name__, Scope(rebuild.module_globals, (module.__name__,)))


def _reduce_scope(saving: Saving, obj: Scope) -> Reduced:
    return obj.reduced


def _code_fields(code: types.CodeType) -> tuple[str, ...]:
    names = (
        "co_argcount co_posonlyargcount co_kwonlyargcount co_nlocals co_stacksize co_flags co_code co_consts "
        "co_names co_varnames co_filename co_name co_qualname co_firstlineno co_linetable co_exceptiontable "
        "co_freevars co_cellvars"
    )
    return tuple(name for name in names.split() if hasattr(code, name))


_CODE_FIELDS = _code_fields(_reduce_scope.__code__)


def _reduce_code(saving: Saving, obj: types.CodeType) -> Reduced:
    saving.uses_code(obj)
    return rebuild.code, ({name: interned(getattr(obj, name)) for name in _CODE_FIELDS},)


def interned(value: Any) -> Any:
    """A name as the one string that stands for it, so that its pickle does not tell where it came from.

    The pickler knows a string again by identity: names that were compiled are interned, names that were loaded not.
    """
    return sys.intern(value) if type(value) is str else value


def _reduce_cell(saving: Saving, obj: types.CellType) -> Reduced:
    key = saving.node_of(obj)
    if key is not None:
        return rebuild.node, (key,)
    return rebuild.cell, (), cell_content(obj), None, None, rebuild.set_cell


def cell_content(cell: types.CellType) -> tuple[Any, ...]:
    """What a closure cell holds, as a tuple of one; an empty tuple when it is empty."""
    try:
        return (cell.cell_contents,)
    except ValueError:
        return ()


def _reduce_module(saving: Saving, obj: types.ModuleType) -> Reduced:
    key = saving.node_of(obj)
    return (rebuild.module, (obj.__name__,)) if key is None else (rebuild.node, (key,))


def _reduce_method(saving: Saving, obj: types.MethodType) -> Reduced:
    name = str(getattr(obj.__func__, "__name__", ""))
    owner = obj.__self__
    if type(owner).__module__.startswith("ipykernel.") and name in ("raw_input", "getpass"):
        return rebuild.kernel_method, (
            name,
        )  # what `input` is while a cell runs, as libraries' namespaces keep it
    searched = owner.__mro__ if isinstance(owner, type) else type(owner).__mro__
    for cls in searched:
        if name in cls.__dict__:
            found = cls.__dict__[name]
            if found is obj.__func__ or getattr(found, "__func__", None) is obj.__func__:
                return getattr, (owner, name)
            break
    return rebuild.method, (obj.__func__, owner)


def _reduce_member(saving: Saving, obj: Any) -> Reduced:
    """A member of the notebook's own enumeration."""
    cls = type(obj)
    key = saving.node_of(cls)
    if key is not None and saving.inside(key):
        return member_parts(obj)
    name = obj._name_
    if name in cls._member_map_ and cls._member_map_[name] is obj:
        return rebuild.member, (cls, name)
    return rebuild.composite, (cls, obj._value_)


def member_parts(obj: Any) -> tuple[Any, ...]:
    """A member as part of its enumeration, which need not be whole when the member is made."""
    reduced: Any = object.__reduce_ex__(obj, 5)
    _, (cls, *arguments), *rest = reduced
    state = rest[0] if rest else None
    made = rebuild.raw_member, (cls, cls._member_type_, tuple(arguments))
    return (*made, state, None, None, rebuild.set_dict)


def _reduce_property(saving: Saving, obj: property) -> Reduced:
    return property, (obj.fget, obj.fset, obj.fdel, obj.__doc__)


def _reduce_wrapped(saving: Saving, obj: Any) -> Reduced:
    inner = obj.__func__
    # It took over what the function had when it was wrapped; what differs since then is its own.
    own = {name: value for name, value in vars(obj).items() if getattr(inner, name, None) is not value}
    return (type(obj), (inner,)) if not own else (type(obj), (inner,), own, None, None, rebuild.set_dict)


def _reduce_proxy(saving: Saving, obj: types.MappingProxyType[Any, Any]) -> Reduced:
    [mapping] = gc.get_referents(obj)
    return types.MappingProxyType, (mapping,)


def _reduce_lock(saving: Saving, obj: Any) -> Reduced:
    return rebuild.lock, ("lock", obj.locked())


def _reduce_rlock(saving: Saving, obj: Any) -> Reduced:
    return rebuild.lock, ("rlock", "owner=0" not in repr(obj))


def _reduce_weak(saving: Saving, obj: weakref.ref[Any]) -> Reduced:
    target = obj()
    return (rebuild.dead_weak, ()) if target is None else (rebuild.weak, (target,))


def _reduce_weak_mapping(saving: Saving, obj: Any) -> Reduced:
    return rebuild.weak_mapping, (type(obj).__name__,), None, None, iter(list(obj.items()))


def _reduce_variable(saving: Saving, obj: Any) -> Reduced:
    """A type variable or new type: annotations and generic classes compare it with `is`."""
    key = saving.node_of(obj)
    return NotImplemented if key is None else (rebuild.node, (key,))


def variable_parts(obj: Any) -> tuple[Any, ...]:
    """What `rebuild.typevar` makes a type variable or new type of."""
    if type(obj).__name__ == "NewType":
        return "NewType", (obj.__name__, obj.__supertype__), {}, obj.__module__
    names = ("bound", "covariant", "contravariant", "infer_variance")
    keywords = {name: value for name in names if (value := getattr(obj, f"__{name}__", None))}
    if getattr(obj, "has_default", bool)():
        keywords["default"] = obj.__default__
    arguments = (obj.__name__, *getattr(obj, "__constraints__", ()))
    return type(obj).__name__, arguments, keywords, obj.__module__


def _reduce_stream(obj: Any) -> Reduced:
    for name in ("stdout", "stderr", "__stdout__", "__stderr__"):
        if rebuild.original("sys", name) is obj:
            return rebuild.original, ("sys", name)
        if getattr(sys, name, None) is obj:
            return rebuild.attribute, ("sys", name)
    raise Unsaveable("it is a kernel's output stream")


def _reduce_file(saving: Saving, obj: Any) -> Reduced:
    return reduce_file(obj)


def reduce_file(obj: Any) -> Reduced:
    """One of the process's streams by its name; others are files of the moment. Unsaveable."""
    if isinstance(obj, (io.StringIO, io.BytesIO)):
        return NotImplemented
    if type(obj).__module__ == "ipykernel.iostream":
        return _reduce_stream(obj)
    for name in ("stdin", "stdout", "stderr", "__stdin__", "__stdout__", "__stderr__"):
        if getattr(sys, name, None) is obj:
            return rebuild.attribute, ("sys", name)
    raise Unsaveable("it is an open file")


_SERVANTS = {
    ("IPython.core.interactiveshell", "InteractiveShell"): rebuild.shell,
    ("ipykernel.kernelbase", "Kernel"): rebuild.kernel,
}
"""The one shell and the one kernel of a process, and what gives those of another."""


def _reduce_servant(give: Callable[[], Any], saving: Saving, obj: Any) -> Reduced:
    return (give, ()) if give() is obj else NotImplemented


def _reduce_array(saving: Saving, obj: Any) -> Reduced:
    return arrays.reduce(obj, saving)


def _refuse(reason: str, saving: Saving, obj: Any) -> Reduced:
    raise Unsaveable(reason)


_REFUSED: dict[type, str] = {
    types.GeneratorType: "it is a generator",
    types.CoroutineType: "it is a coroutine",
    types.AsyncGeneratorType: "it is an asynchronous generator",
    types.FrameType: "it is a running frame",
}

_TABLE: dict[type, Reducer | None] = {
    type: _reduce_class,
    types.FunctionType: _reduce_function,
    types.BuiltinFunctionType: _reduce_builtin,
    types.CodeType: _reduce_code,
    types.CellType: _reduce_cell,
    types.ModuleType: _reduce_module,
    types.MethodType: _reduce_method,
    types.MappingProxyType: _reduce_proxy,
    property: _reduce_property,
    functools.cached_property: None,
    classmethod: _reduce_wrapped,
    staticmethod: _reduce_wrapped,
    _thread.LockType: _reduce_lock,
    _thread.RLock: _reduce_rlock,
    weakref.ref: _reduce_weak,
    weakref.WeakValueDictionary: _reduce_weak_mapping,
    weakref.WeakKeyDictionary: _reduce_weak_mapping,
    Scope: _reduce_scope,
    functools.partial: None,
    operator.itemgetter: None,
    object: None,
}
_TABLE.update(dict.fromkeys(VARIABLES, _reduce_variable))
