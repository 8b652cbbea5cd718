"""Puts stored units back into a namespace.

First every node's skeleton exists, then contents are filled: so classes, functions and cells may refer to each other
in circles, across units too. A unit that cannot be loaded costs its own names alone, and is reported.
"""

from __future__ import annotations

import io
import pickle
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

from . import arrays, atoms, blobs, classes, failures, rebuild
from .ledger import Ledger, Unit
from .picklers import called_among


class MissingNode(Exception):
    """A class or function that a unit refers to is not to be had."""


@dataclass(slots=True)
class Source:
    """A stored unit on its way in: its record and its pickle."""

    record: dict[str, Any]
    data: bytes | bytearray
    skeletons: dict[str, bytes] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """The unit's key."""
        return str(self.record["key"])


class Loader:
    """Loads units into `scope`; the nodes that are kept come from `ledger`, and new ones are recorded there."""

    def __init__(self, ledger: Ledger, scope: dict[str, Any], folder: blobs.Folder) -> None:
        self.ledger = ledger
        self.globals = scope
        self.folder = folder
        self.values: dict[str, Any] = {}  # root -> value, of everything loaded
        self.codes: list[types.CodeType] = []
        self.failed: list[dict[str, str]] = []
        self._owner: dict[str, Source] = {}
        self._sources: dict[str, Source] = {}
        self._made: dict[str, Any] = {}
        self._keys: dict[int, str] = {}  # id of a node that was made -> its key
        self._started: set[str] = set()
        self._current: list[Source] = []
        self._pieces: dict[str, list[atoms.Piece]] = {}  # by unit, what its arrays of atoms consist of
        self._late: list[Source] = []  # that could not be loaded at once
        self._bare = 0  # in a skeleton nothing is filled: its own node is not there yet to be referred to

    def load(self, sources: list[Source]) -> None:
        """Load these units; `values` and `failed` tell the outcome."""
        rebuild.loading.append(self)
        try:
            for source in sources:
                self._announce(source)
            for source in sources:
                self._load(source)
            self._load_late()
        finally:
            rebuild.loading.pop()
        for key, obj in self._made.items():
            self.ledger.add_node(key, obj)

    def _announce(self, source: Source) -> None:
        """Say which nodes this unit will bring."""
        self._sources[source.key] = source
        if source.record["nodes"]:
            try:
                source.skeletons, source.data = pickle.loads(source.data)
            except Exception as error:  # a damaged or foreign pickle raises anything
                self._fail(source, error)
                return
        for key in source.record["nodes"]:
            self._owner[key] = source

    def _load(self, source: Source) -> None:
        """Load one unit, unless that has begun already."""
        if source.key in self._started:
            return
        self._started.add(source.key)
        self._current.append(source)
        try:
            for key in source.record["nodes"]:
                self._skeleton(key)
            buffers = [self._buffer(stored) for stored in source.record["buffers"]]
            self._take(source, _unpickler(source, buffers)())
        except BaseException as error:  # whatever the unit's own classes raise while they are loaded
            if source.record["nodes"]:
                self._fail(source, error)
            else:
                self._late.append(source)
        finally:
            self._current.pop()
        self._record(source)

    def _record(self, source: Source) -> None:
        """Enter a unit in the ledger, whether it could be loaded or not."""
        unit = source.record
        self.ledger.add(
            Unit(
                source.key,
                tuple(unit["roots"]),
                tuple(key for key in unit["nodes"] if key in self._made),
                frozenset(unit["refs"]),
                unit["digest"],
                pieces=self._pieces.get(source.key, ()),
                told=told(unit, self.values),
            )
        )

    def _take(self, source: Source, loaded: Any) -> None:
        """Note the values of a unit, which may have been taken into its state for some of its names alone."""
        _, roots = loaded
        self.values.update((root, roots[root]) for root in source.record["roots"] if root in roots)

    def _load_late(self) -> None:
        """Try again what failed, where the names of the state are to be seen."""
        names = {**self.globals, **self.values} if self._late else {}
        for source in self._late:
            self._current.append(source)
            self._pieces.pop(source.key, None)
            try:
                buffers = [self._buffer(stored) for stored in source.record["buffers"]]
                self._take(source, called_among(names, _unpickler(source, buffers)))
            except BaseException as error:  # as above
                self._fail(source, error)
            finally:
                self._current.pop()
            self._record(source)

    def _fail(self, source: Source, error: BaseException) -> None:
        self._started.add(source.key)
        reason = failures.explain(error)
        for root in source.record["roots"] or source.record["nodes"]:
            self.failed.append({"name": root, "reason": reason})

    def _buffer(self, stored: dict[str, Any]) -> Any:
        data = self.folder.read_chunks(stored["chunks"], stored["size"])
        return bytes(data) if stored["readonly"] else data

    # What the pickles ask (see `rebuild.Loading`).

    def node(self, key: str) -> Any:
        """The node of that key, filled unless that can wait or is under way."""
        source = self._owner.get(key)
        if source is None:
            return self._kept(key)
        made = self._skeleton(key)
        if self._bare:
            return made
        if source.key not in self._started and not _can_wait(made, source):
            self._load(source)
        if isinstance(made, type):
            self._load_bases(made)
        return made

    def _load_bases(self, cls: type) -> None:
        """Fill the classes that a class inherits from, and its metaclass: its instances use their methods."""
        meta: type = type(cls)
        for base in (*cls.__mro__[1:], *meta.__mro__):
            source = self._owner.get(self._keys.get(id(base), ""))
            if source is not None and source.key not in self._started:
                self._load(source)

    def _skeleton(self, key: str) -> Any:
        """The node of that key, as far as it is."""
        if key in self._made:
            return self._made[key]
        source = self._owner.get(key)
        if source is None:
            return self._kept(key)
        self._bare += 1
        try:
            kind, parts = pickle.loads(source.skeletons[key])
        finally:
            self._bare -= 1
        if kind == "class":
            made: Any = classes.from_skeleton(parts)
        elif kind == "cell":
            made = rebuild.cell()
        elif kind == "variable":
            made = rebuild.typevar(*parts)
        elif kind == "module":
            made = rebuild.dynamic_module(*parts)
        else:
            made = rebuild.function(*parts)
        self._made[key] = made
        self._keys[id(made)] = key
        return made

    def _kept(self, key: str) -> Any:
        """A node that was here before."""
        try:
            return self.ledger.nodes[key]
        except KeyError:
            raise MissingNode(f"it refers to {key.partition('#')[0]}, which could not be saved") from None

    def fill(self, key: str, content: Any) -> None:
        """Give a node its content."""
        target = self._skeleton(key)
        if isinstance(target, type):
            classes.fill(target, content)
        elif isinstance(target, types.ModuleType):
            rebuild.set_dict(target, content)
        elif type(content) is tuple:
            rebuild.set_cell(target, content)
        else:
            rebuild.set_function(target, content)

    def array(self, index: int) -> arrays.Stored:
        """The out-of-band array of that number in the unit being loaded."""
        stored = self._current[-1].record["arrays"][index]
        return arrays.Stored(self.folder, stored["chunks"], stored["size"])

    def atoms(self, index: int, shape: tuple[int, ...], order: str) -> Any:
        """The array of atoms of that number in the unit being loaded."""
        source = self._current[-1]
        addresses = source.record["arrays"][index]["chunks"]
        array, pieces = atoms.load_array(addresses, shape, order, self.ledger.pieces, self.folder)
        self._pieces.setdefault(source.key, []).extend(pieces)
        return array

    def items(self, index: int) -> list[Any]:
        """The elements of the collection of that number in the unit being loaded."""
        source = self._current[-1]
        addresses = source.record["arrays"][index]["chunks"]
        items, pieces = atoms.load_items(addresses, self.ledger.pieces, self.folder)
        self._pieces.setdefault(source.key, []).extend(pieces)
        return items


def told(record: dict[str, Any], values: Mapping[str, Any]) -> int | None:
    """`Unit.told` of a unit with this record, some of these values being its roots'."""
    roots = record["roots"]
    single = len(roots) == 1 and not record["nodes"] and roots[0] in values
    return id(values[roots[0]]) if single and record.get("transparent") else None


def _unpickler(source: Source, buffers: list[Any]) -> Callable[[], Any]:
    """What loads the pickle of a unit when it is called."""
    if source.record["engine"] == "dill":
        import dill

        unpickler = dill.Unpickler(io.BytesIO(source.data), buffers=buffers)
        return cast(Callable[[], Any], unpickler.load)
    return partial(pickle.loads, source.data, buffers=buffers)


def _can_wait(node: Any, source: Source) -> bool:
    """Whether a node is as good before it is filled.

    A function is called only when all is loaded. What is bound beside it may need what is being loaded at the moment:
    `bound = job.run` the class of `job`, whose body refers to the function.
    """
    return isinstance(node, types.FunctionType) and bool(source.record["roots"])
