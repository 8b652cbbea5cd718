"""A session's state file: each value pickled by itself within a cap, definitions as source, and the way back.

The file is a pickle of plain dicts, lists, strings and bytes:

    cwd          the working directory
    names        name -> pickle of its value, in the namespace's order
    definitions  name -> source, in recorded order (absent in the oldest files, as all that follows)
    needs        name -> the definitions, classes and type variables that its pickle refers to
    copies       names that a definition needs and whose own class it is: pickled with a class of their own
    count        the execution counter

A pickle refers to recorded functions and classes by name, so that what comes back is an instance of the class that
the replay defines. A class or type variable that no definition tells (`Point = namedtuple(…)`) is a value, which the
others refer to by its name. Everything else of the notebook goes by value, which only dill can.
"""

from __future__ import annotations

import _codecs
import array
import io
import pickle
import sys
import types
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from . import classes, failures, oddities, rebuild, reducers

VALUE_CAP = 8 << 20
TOTAL_CAP = 64 << 20
DEFINITION_CAP = 32 << 10
DEFINITIONS_CAP = 256 << 10
LARGE = 64 << 10
LARGEST = 5

_NOTEBOOK = ("__main__", None)  # `__module__` of what cells define
_PLAIN = (type(None), bool, float, complex, dict, list, tuple, set, frozenset)

Lost = dict[str, str]


class TooLarge(Exception):
    """A value whose pickle would pass its cap."""


class NotAStateFile(Exception):
    """The bytes are no state file."""


def engine_name() -> str:
    """Which serialiser values are given to."""
    return "pickle" if _dill() is None else "dill"


def _dill() -> Any:
    try:
        import dill
    except ImportError:
        return None
    return dill


# Saving.


class Sink:
    """A file that holds up to `cap` bytes and ends whoever writes beyond."""

    def __init__(self, cap: int) -> None:
        self._cap = cap
        self._left = cap
        self._parts: list[bytes] = []

    def write(self, data: Any) -> int:
        size = memoryview(data).nbytes
        self.refuse(size)
        self._left -= size
        self._parts.append(bytes(data))
        return size

    def refuse(self, size: int) -> None:
        """TooLarge when so many more bytes do not fit."""
        if size > self._left:
            raise TooLarge

    def value(self) -> bytes:
        return b"".join(self._parts)


class _Rules:
    """What both picklers do alike: refuse what is too large before it is copied, and refer to definitions by name."""

    _sink: Sink
    _by_name: Mapping[int, str]
    _needs: set[str]

    def prepare(self, sink: Sink, by_name: Mapping[int, str]) -> None:
        """`by_name`: id of each object that is referred to by its name -> that name."""
        self._sink, self._by_name, self._needs = sink, by_name, set()

    @property
    def needs(self) -> set[str]:
        """The names that were referred to."""
        return self._needs

    def persistent_id(self, obj: Any) -> None:
        """Called for every object before it is pickled, which for a large one would build all its bytes at once."""
        if type(obj) not in _PLAIN:
            self._sink.refuse(size_of(obj))

    def reducer_override(self, obj: Any) -> Any:
        name = self._by_name.get(id(obj))
        if name is None:
            return self._by_value(obj)
        self._needs.add(name)
        return name  # a text is a name in the object's module

    def _by_value(self, obj: Any) -> Any:
        """What loads wrongly else: dill would empty files open for writing, and take modules back in time."""
        kind = type(obj)
        if issubclass(kind, io.IOBase):
            return reducers.reduce_file(obj)
        if issubclass(kind, types.ModuleType):
            if obj.__name__ == "__main__" or not reducers.is_handmade(obj):
                return rebuild.module, (obj.__name__,)
            content = {name: value for name, value in vars(obj).items() if name != "__builtins__"}
            return rebuild.dynamic_module, (obj.__name__,), content, None, None, rebuild.set_dict
        if issubclass(kind, reducers.VARIABLES) and _is_of_notebook(obj):
            return rebuild.typevar, reducers.variable_parts(obj)
        if issubclass(kind, BaseException) and oddities.is_failing_exception(kind):
            return oddities.exception_parts(obj)
        return NotImplemented


class _Pickler(_Rules, pickle.Pickler):
    def _by_value(self, obj: Any) -> Any:
        if _is_class_of_notebook(obj) or (issubclass(type(obj), types.FunctionType) and _is_of_notebook(obj)):
            raise pickle.PicklingError(f"{obj.__qualname__} is of the notebook and recorded by no definition")
        return super()._by_value(obj)


def _is_of_notebook(obj: Any) -> bool:
    return getattr(obj, "__module__", None) in _NOTEBOOK


def _is_class_of_notebook(obj: Any) -> bool:
    return issubclass(type(obj), type) and _is_of_notebook(obj)


def _is_shared(value: Any) -> bool:
    """Whether a value is compared with `is`, so that others refer to it by its name: a class or a type variable."""
    kind = type(value)
    return issubclass(kind, (type, *reducers.VARIABLES)) and getattr(value, "__module__", None) == "__main__"


def _dill_pickler(dill: Any) -> Any:
    class Pickler(_Rules, dill.Pickler):  # type: ignore[misc]  # dill has no types
        def _by_value(self, obj: Any) -> Any:
            """A class and what it holds may refer to each other in circles, which dill itself does not see."""
            kind = type(obj)
            if _is_class_of_notebook(obj) and classes.native_maker(obj) is None:
                methods, others = classes.body_in_order(obj)
                state = _Methods(obj, methods), others
                return rebuild.bare_class, (classes.skeleton(obj),), state, None, None, rebuild.set_class
            if classes.is_enumeration(kind) and _is_class_of_notebook(kind) and id(kind) not in self._by_name:
                return reducers.member_parts(obj)
            return super()._by_value(obj)

    return Pickler


class _Methods:
    """Stands in a pickle for a class's methods, which the class is given the moment they are loaded."""

    def __init__(self, cls: type, methods: classes.Body) -> None:
        self._reduced = rebuild.class_methods, (cls, methods)

    def __reduce__(self) -> tuple[Any, ...]:
        return self._reduced


def size_of(obj: Any) -> int:
    """The least number of bytes that an object's pickle has; told without a look at its content."""
    kind = type(obj)
    if issubclass(kind, (str, bytes, bytearray)):
        return int(kind.__len__(obj))
    if kind is int:
        return int(obj.bit_length() // 8)
    if issubclass(kind, array.array):
        return int(len(obj) * obj.itemsize)
    if issubclass(kind, _array_types()):
        return int(obj.nbytes)
    return 0


def _array_types() -> tuple[type, ...]:
    """The arrays and tensors whose pickle holds all that they show; lazy ones of other libraries do not."""
    found = []
    for module_name, name in (("numpy", "ndarray"), ("torch", "Tensor")):
        kind = getattr(sys.modules.get(module_name), name, None)
        if isinstance(kind, type):
            found.append(kind)
    return tuple(found)


def dump(value: Any, cap: int, by_name: Mapping[int, str]) -> tuple[bytes, set[str]]:
    """The pickle of one value and the names that it needs. TooLarge; anything its own methods raise."""
    sink = Sink(cap)

    def out_of_band(buffer: pickle.PickleBuffer) -> bool:
        sink.refuse(buffer.raw().nbytes)
        return True  # into the pickle

    pickler: Any = _Pickler(sink, protocol=5, buffer_callback=out_of_band)
    pickler.prepare(sink, by_name)
    try:
        pickler.dump(value)
        return sink.value(), pickler.needs
    except TooLarge:
        raise
    except Exception:
        dill = _dill()
        if dill is None:
            raise
    sink = Sink(cap)
    pickler = _dill_pickler(dill)(sink, protocol=5, buffer_callback=out_of_band)
    pickler.prepare(sink, by_name)
    pickler.dump(value)
    return sink.value(), pickler.needs


@dataclass(slots=True)
class Saved:
    """A state file's bytes and what is to be said of it."""

    data: bytes
    names: list[str]
    definitions: list[str]
    skipped: list[Lost]
    largest: list[dict[str, Any]]


def save(
    values: Mapping[str, Any], definitions: Mapping[str, str], *, cwd: str | None, count: int, used: Any
) -> Saved:
    """The state file of a namespace.

    `values` are its names in order, `definitions` the recorded sources; `used` gives the names that a source looks
    up while it runs.
    """
    kept, skipped = _within_caps(definitions)
    taken = _Values(kept, {name: values[name] for name in kept if name in values}, used)
    waiting = {name: value for name, value in values.items() if name not in definitions}  # source wins
    for name in sorted(waiting, key=lambda name: not _is_shared(waiting[name])):
        taken.add(name, waiting[name])
    content = {
        "cwd": cwd,
        "names": {name: taken.pickles[name] for name in values if name in taken.pickles},
        "definitions": kept,
        "needs": taken.needs,
        "copies": taken.copies,
        "count": count,
    }
    sizes = sorted(((len(data), name) for name, data in taken.pickles.items()), key=lambda pair: -pair[0])
    largest = [{"name": name, "bytes": size} for size, name in sizes[:LARGEST] if size >= LARGE]
    names = [name for name in values if name in taken.pickles or name in kept]
    return Saved(pickle.dumps(content, protocol=4), names, list(kept), [*skipped, *taken.skipped], largest)


class _Values:
    """The values that were taken so far; definitions, and classes among these, are referred to by later ones."""

    def __init__(self, definitions: Mapping[str, str], defined: Mapping[str, Any], used: Any) -> None:
        self.pickles: dict[str, bytes] = {}
        self.needs: dict[str, list[str]] = {}
        self.copies: list[str] = []
        self.skipped: list[Lost] = []
        self._definitions = definitions
        self._used = used
        self._left = TOTAL_CAP
        self._by_name = {
            id(value): name
            for name, value in defined.items()
            if getattr(value, "__module__", None) == "__main__"
        }

    def add(self, name: str, value: Any) -> None:
        """Take one value more, or note why it is skipped."""
        cap = min(VALUE_CAP, self._left)
        try:
            data, needed = dump(value, cap, self._by_name)
            if self._in_circle(name, needed):
                data, needed = dump(value, cap, {})
                self.copies.append(name)
        except TooLarge:
            full = cap < VALUE_CAP
            reason = (
                f"the state file's {TOTAL_CAP >> 20} MiB are full" if full else _over(VALUE_CAP, "a variable")
            )
            self.skipped.append({"name": name, "reason": reason})
            return
        except BaseException as error:  # whatever the value's own methods raise while it is saved
            self.skipped.append({"name": name, "reason": failures.explain(error)})
            return
        self.pickles[name] = data
        self._left -= len(data)
        if needed:
            self.needs[name] = sorted(needed)
        if _is_shared(value):
            self._by_name.setdefault(id(value), name)

    def _in_circle(self, name: str, needed: Iterable[str]) -> bool:
        """Whether what a value needs looks that value up while it comes back."""
        met: set[str] = set()
        waiting = [*needed]
        while waiting:
            each = waiting.pop()
            if each == name:
                return True
            if each not in met:
                met.add(each)
                source = self._definitions.get(each)
                waiting.extend(self.needs.get(each, ()) if source is None else self._used(source))
        return False


def _within_caps(definitions: Mapping[str, str]) -> tuple[dict[str, str], list[Lost]]:
    kept: dict[str, str] = {}
    skipped: list[Lost] = []
    left = DEFINITIONS_CAP
    for name, source in definitions.items():
        size = len(source.encode("utf-8", "surrogatepass"))
        if size > DEFINITION_CAP:
            skipped.append({"name": name, "reason": _over(DEFINITION_CAP, "a definition")})
        elif size > left:
            reason = f"the definitions' {DEFINITIONS_CAP >> 10} KiB are full"
            skipped.append({"name": name, "reason": reason})
        else:
            kept[name] = source
            left -= size
    return kept, skipped


def _over(cap: int, what: str) -> str:
    size = f"{cap >> 20} MiB" if cap >= 1 << 20 else f"{cap >> 10} KiB"
    return f"it is larger than the {size} that {what} may have"


# Loading.


@dataclass(slots=True)
class Content:
    """A state file that was read."""

    cwd: str | None
    names: dict[str, bytes]
    definitions: dict[str, str] = field(default_factory=dict)
    needs: dict[str, list[str]] = field(default_factory=dict)
    copies: list[str] = field(default_factory=list)
    count: int = 1

    def needs_definition(self, name: str) -> bool:
        """Whether a value refers to a definition, or to a class that does."""
        met: set[str] = set()
        waiting = [name]
        while waiting:
            needed = set(self.needs.get(waiting.pop(), ())) - met
            if not needed.isdisjoint(self.definitions):
                return True
            met |= needed
            waiting.extend(needed)
        return False


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("_codecs", "encode"):
            return _codecs.encode  # how bytes are written by the protocols before 3
        raise NotAStateFile(f"it holds a {module}.{name}")


def read(data: Any) -> Content:
    """What a state file holds, its values still pickled. NotAStateFile says what is wrong with it."""
    try:
        found = _PlainUnpickler(io.BytesIO(data)).load()
    except NotAStateFile:
        raise
    except Exception as error:  # damaged bytes raise anything
        raise NotAStateFile(failures.explain(error)) from error
    if not isinstance(found, dict) or not isinstance(found.get("names"), dict):
        raise NotAStateFile("it holds no `names`")
    content = Content(found.get("cwd"), found["names"])
    content.definitions = found.get("definitions") or {}
    content.needs = found.get("needs") or {}
    content.copies = found.get("copies") or []
    content.count = found.get("count") or 1
    texts = isinstance(content.cwd, (str, type(None))) and isinstance(content.definitions, dict)
    if not texts or not all(map(_is_value, content.names.items())) or not isinstance(content.count, int):
        raise NotAStateFile("its fields are of the wrong types")
    return content


def _is_value(item: tuple[Any, Any]) -> bool:
    return isinstance(item[0], str) and isinstance(item[1], (bytes, bytearray))


def load(data: bytes) -> Any:
    """The value of one pickle."""
    dill = _dill()
    if dill is None:
        return pickle.loads(data)
    return dill.loads(
        data, ignore=True
    )  # else an instance would be given whatever class has its class's name
