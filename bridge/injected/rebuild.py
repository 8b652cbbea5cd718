"""What stored pickles call when they are loaded.

The names and signatures in this module are part of the stored format: an old home's pickles name them, so a
function here may be added, never renamed. Each finds the loader at work through `loading`.
"""

from __future__ import annotations

import builtins
import functools
import gc
import importlib
import sys
import types
from collections.abc import Callable
from typing import Any, Protocol

from . import arrays, classes


class Loading(Protocol):
    """What a loader offers to the pickles that it loads."""

    globals: dict[str, Any]
    codes: list[types.CodeType]  # every code object that was made

    def node(self, key: str) -> Any:
        """The class, function or cell stored under that key."""

    def fill(self, key: str, content: Any) -> None:
        """Give a node its content."""

    def array(self, index: int) -> arrays.Stored:
        """The large array number `index` of the unit that is being loaded."""

    def atoms(self, index: int, shape: tuple[int, ...], order: str) -> Any:
        """The same for an array of objects that was stored in pieces."""

    def items(self, index: int) -> list[Any]:
        """The same for the elements of another collection."""


loading: list[Loading] = []  # the loader at work is the last


def node(key: str) -> Any:
    """The one class, function or cell of that key: every unit that refers to it gets the same object."""
    return loading[-1].node(key)


def fill(key: str, content: Any) -> None:
    """Give the node of that key its content, as soon as that is loaded."""
    loading[-1].fill(key, content)


def module(name: str) -> types.ModuleType:
    """A module, imported when it is not there yet."""
    found = sys.modules.get(name)
    return found if found is not None else importlib.import_module(name)


def attribute(module_name: str, path: str) -> Any:
    """An object that belongs to a module: `attribute("dataclasses", "MISSING")`."""
    value: Any = module(module_name)
    for part in path.split("."):
        value = getattr(value, part)
    return value


_originals: dict[tuple[str, str], Any] = {
    **{("builtins", name): value for name, value in vars(builtins).items()},
    **{("sys", name): getattr(sys, name) for name in ("stdout", "stderr", "__stdout__", "__stderr__")},
}


def keep_original(module_name: str, name: str, value: Any) -> None:
    """Note what a module's attribute was before the notebook set it."""
    _originals.setdefault((module_name, name), value)


def original(module_name: str, name: str) -> Any:
    """What a module had under that name before the notebook put something else in its place."""
    try:
        return _originals[module_name, name]
    except KeyError:
        return getattr(module(module_name), name, None)


def namespace() -> dict[str, Any]:
    """The namespace being loaded into: the globals of functions defined in cells."""
    return loading[-1].globals


def module_globals(name: str) -> dict[str, Any]:
    """The globals of a library's module."""
    return vars(module(name))


def globals_of(module: types.ModuleType) -> dict[str, Any]:
    """The globals of a module that the notebook made."""
    return vars(module)


_BLANK = (lambda: None).__code__


def code(fields: dict[str, Any]) -> types.CodeType:
    """A code object from its `co_` fields."""
    made = _BLANK.replace(**fields)
    if loading:
        loading[-1].codes.append(made)
    return made


def cell() -> types.CellType:
    """An empty closure cell; its content is set as its state, so that cycles hold."""
    return types.CellType()


def set_cell(target: types.CellType, content: tuple[Any, ...]) -> None:
    """Fill a closure cell; an empty tuple leaves it empty."""
    if content:
        target.cell_contents = content[0]


def function(
    code_object: types.CodeType,
    scope: dict[str, Any],
    name: str,
    closure: tuple[types.CellType, ...] | None,
) -> types.FunctionType:
    """A function without its defaults and attributes, which `set_function` brings."""
    return types.FunctionType(code_object, scope, name, None, closure)


def set_function(target: types.FunctionType, state: dict[str, Any]) -> None:
    """Give a function its defaults, annotations, names and attributes."""
    for key, value in state.items():
        if key == "__dict__":
            target.__dict__.update(value)
        else:
            setattr(target, key, value)


def bare_function(code_object: types.CodeType, scope: dict[str, Any], name: str) -> types.FunctionType:
    """`function` for one that closes over nothing."""
    return types.FunctionType(code_object, scope, name)


def dynamic_module(name: str) -> types.ModuleType:
    """A module that lives in no file; its content follows as its state."""
    return types.ModuleType(name)


def set_dict(target: Any, state: dict[str, Any]) -> None:
    """Update an object's `__dict__`, past any `__setattr__` of its class."""
    target.__dict__.update(state)


def bare_class(parts: tuple[Any, ...]) -> type:
    """A class without its attributes, which `set_class` brings."""
    return classes.from_skeleton(parts)


def class_methods(target: type, methods: classes.Body) -> None:
    """Give a class its methods at once, before anything that needs them is loaded."""
    classes.fill(target, methods)


def set_class(target: type, state: tuple[None, classes.Body]) -> None:
    """Give a class the rest of its attributes, which may refer to it; the first of the state was its methods."""
    classes.fill(target, state[1])


def member(enumeration: Any, name: str) -> Any:
    """The member of an enumeration, by name."""
    return enumeration._member_map_[name]


def composite(enumeration: Any, value: Any) -> Any:
    """A flag made of several members, by value."""
    return enumeration(value)


def raw_member(enumeration: Any, plain: type, arguments: tuple[Any, ...]) -> Any:
    """A member while its enumeration is put together; its attributes follow as its state."""
    return plain.__new__(enumeration, *arguments)


def array(index: int, dtype: Any, shape: tuple[int, ...], order: str, writeable: bool) -> Any:
    """A large NumPy array kept out of band; it owns its memory, as it did."""
    return arrays.load(loading[-1].array(index), dtype, shape, order, writeable)


def atoms(index: int, shape: tuple[int, ...], order: str, writeable: bool) -> Any:
    """A large NumPy array of texts and other atoms, stored in pieces."""
    made = loading[-1].atoms(index, shape, order)
    made.flags.writeable = writeable
    return made


def collection(index: int, kind: str) -> Any:
    """A large list, tuple, dict or set of atoms, stored in pieces."""
    items = loading[-1].items(index)
    if kind == "dict":
        turns = iter(items)
        return dict(zip(turns, turns, strict=True))
    return items if kind == "list" else getattr(builtins, kind)(items)


def small_array(value: Any) -> Any:
    """A small array that is read-only."""
    value.flags.writeable = False
    return value


def view(
    base: Any, offset: int, dtype: Any, shape: tuple[int, ...], strides: tuple[int, ...], writeable: bool
) -> Any:
    """A view on another array's memory, `offset` bytes from its start."""
    return arrays.view_of(base, offset, dtype, shape, strides, writeable)


def lock(kind: str, locked: bool) -> Any:
    """A new lock, held when the stored one was held."""
    import threading

    made = threading.RLock() if kind == "rlock" else threading.Lock()
    if locked:
        made.acquire()
    return made


def weak(target: Any) -> Any:
    """A weak reference; it is dead when nothing else of its unit holds the target."""
    import weakref

    return weakref.ref(target)


def dead_weak() -> Any:
    """A weak reference whose target is gone."""
    import weakref

    class Gone:
        pass

    return weakref.ref(Gone())


def weak_mapping(kind: str) -> Any:
    """An empty `WeakValueDictionary` or `WeakKeyDictionary`; its items follow."""
    import weakref

    return getattr(weakref, kind)()


def exception(cls: type, native: Any, arguments: tuple[Any, ...]) -> Any:
    """An exception made past its class's own `__init__`; `native` is the built-in class that it derives from."""
    made = native.__new__(cls, *arguments)
    native.__init__(made, *arguments)
    return made


def cached(
    function: Callable[..., Any], maxsize: int | None, typed: bool, entries: list[tuple[Any, Any]] | None
) -> Any:
    """A function under `lru_cache`, with what it had cached when that is known.

    An unbounded cache is one dict from key to result, which a new wrapper exposes to the garbage collector;
    a bounded one is filled by calls, the function's code being one that hands out the results.
    """
    wrapper = functools.lru_cache(maxsize, typed)(function)
    if not entries:
        return wrapper
    if maxsize is None:
        for referent in gc.get_referents(wrapper):
            if type(referent) is dict and not referent and referent is not wrapper.__dict__:
                referent.update(entries)
                break
        return wrapper
    results = [result for _, result in entries]
    results.reverse()
    original = function.__code__
    primer = (lambda *args, **kwargs: "\0results".pop()).__code__  # type: ignore[attr-defined]
    constants = tuple(results if constant == "\0results" else constant for constant in primer.co_consts)
    function.__code__ = primer.replace(co_consts=constants)
    try:
        for key, _ in entries:
            wrapper(*key) if type(key) is tuple else wrapper(key)
    finally:
        function.__code__ = original
    return wrapper


def counted(
    function: Callable[..., Any],
    maxsize: int | None,
    typed: bool,
    entries: list[tuple[Any, Any]] | None,
    counts: tuple[int, int],
) -> Any:
    """`cached`, with the counts of hits and misses that its `cache_info` told."""
    from . import caches

    wrapper = cached(function, maxsize, typed, entries)
    caches.set_counts(wrapper, *counts)
    return wrapper


def memory_users() -> Any:
    """An empty list of pandas' of those that share some memory."""
    return attribute("pandas._libs.internals", "BlockValuesRefs")()


def memory_user(maker: Callable[..., Any], arguments: tuple[Any, ...], users: Any, name: str) -> Any:
    """A block or index of pandas, made by its own maker and entered with those that share its memory."""
    made = maker(*arguments)
    setattr(made, name, users)
    (users.add_reference if name == "refs" else users.add_index_reference)(made)
    return made


def finalizer(
    target: Any, function: Callable[..., Any], arguments: tuple[Any, ...], named: Any, at_exit: bool
) -> Any:
    """A `weakref.finalize` that is still to act."""
    import weakref

    made = weakref.finalize(target, function, *arguments, **named)
    made.atexit = at_exit
    return made


def typevar(kind: str, arguments: tuple[Any, ...], keywords: dict[str, Any], module_name: Any) -> Any:
    """A type variable made in the notebook."""
    import typing

    made = getattr(typing, kind)(*arguments, **keywords)
    made.__module__ = module_name
    return made


def method(function: Callable[..., Any], owner: Any) -> types.MethodType:
    """A bound method."""
    return types.MethodType(function, owner)


def set_raised(target: BaseException, state: tuple[Any, Any, Any, bool]) -> None:
    """Give an exception its attributes, cause and context."""
    attributes, cause, context, suppress = state
    if attributes is not None:
        target.__setstate__(attributes)
    target.__cause__, target.__context__, target.__suppress_context__ = cause, context, suppress


def container(kind: type, native: Any, argument: Any) -> Any:
    """An empty object of the notebook's own kind of container, made past its class's own code; its content follows."""
    made = native.__new__(kind)
    if native.__name__ == "deque":
        native.__init__(made, (), argument)
    elif native.__name__ == "defaultdict":
        native.__init__(made, argument)
    else:
        native.__init__(made)
    return made


def set_container(target: Any, state: tuple[Any, dict[str, Any], list[Any]]) -> None:
    """Give such a container its attributes, slots and content, past any code of its class."""
    attributes, slots, held = state
    set_state(target, (attributes, slots))
    native: Any = next(base for base in type(target).__mro__ if not base.__flags__ & (1 << 9))
    if issubclass(native, dict):
        for key, value in held:
            native.__setitem__(target, key, value)
    elif native is set:
        native.update(target, held)
    else:
        native.extend(target, held)


def traceback(
    version: bytes, codes: list[bytes], scopes: list[Any], entries: list[tuple[int, int, int, int]]
) -> types.TracebackType | None:
    """A traceback with frames in which nothing has run; None in a Python whose code is another (`version`)."""
    import importlib.util

    from . import tracebacks

    return tracebacks.load(codes, scopes, entries) if version == importlib.util.MAGIC_NUMBER else None


def set_thrown(target: BaseException, state: tuple[Any, Any, Any, bool, Any]) -> None:
    """Give an exception its attributes, cause, context and traceback."""
    *raised, came_through = state
    set_raised(target, (raised[0], raised[1], raised[2], raised[3]))
    target.__traceback__ = came_through


def set_state(target: Any, state: Any) -> None:
    """Give an instance its attributes and slots, past any code of its class."""
    attributes, slots = state if type(state) is tuple else (state, None)
    if attributes:
        target.__dict__.update(attributes)
    for name, value in (slots or {}).items():
        object.__setattr__(target, name, value)


def dict_view(mapping: dict[Any, Any], owner: Any, name: str) -> Any:
    """A view of a dict: `dict_view(d, dict, "keys")`."""
    return getattr(owner, name)(mapping)


def dict_iterator(name: str, backwards: bool, rest: list[Any]) -> Any:
    """An iterator over a dict's keys, values or items, or over a set, that will give what is in `rest`."""
    if name == "set":
        return iter(set(rest))
    ordered = rest[::-1] if backwards else rest
    made: dict[Any, Any] = dict(ordered) if name == "items" else dict.fromkeys(ordered)
    if name == "values":
        made = dict(enumerate(ordered))
    view = getattr(made, name)()
    return reversed(view) if backwards else iter(view)


def swapped(value: Any, dtype: Any) -> Any:
    """An array of a byte order that is not the machine's."""
    return value.astype(dtype)


def storage(data: Any) -> Any:
    """A storage of PyTorch's with these bytes."""
    import ctypes

    made = module("torch").UntypedStorage(len(data))
    if len(data):
        ctypes.memmove(made.data_ptr(), (ctypes.c_ubyte * len(data)).from_buffer(data), len(data))
    return made


def typed_storage(untyped: Any, dtype: Any) -> Any:
    """PyTorch's view of a storage as numbers of one type, as its own pickles want it."""
    return module("torch").storage.TypedStorage(wrap_storage=untyped, dtype=dtype, _internal=True)


def set_gradient(target: Any, gradient: Any) -> None:
    """Give a tensor its gradient."""
    target.grad = gradient


def tensor_array(
    storage: Any, offset: int, dtype: Any, shape: tuple[int, ...], strides: tuple[int, ...], writeable: bool
) -> Any:
    """A NumPy array over a storage of PyTorch's, `offset` bytes from its start."""
    torch = module("torch")
    flat = torch.empty(0, dtype=torch.uint8).set_(storage).numpy()
    return arrays.view_of(flat, offset, dtype, shape, strides, writeable)


def array_of_class(plain: Any, kind: type) -> Any:
    """An instance of a subclass of `ndarray` over that array's memory; its attributes follow."""
    return module("numpy").ndarray.view(plain, kind)


def shell() -> Any:
    """The shell of this process: `get_ipython()`."""
    return module("IPython").get_ipython()


def kernel() -> Any:
    """The kernel of this process."""
    return getattr(shell(), "kernel", None)


def kernel_method(name: str) -> Any:
    """A method of this kernel's: `raw_input` is what cells know as `input`."""
    return getattr(kernel(), name)
