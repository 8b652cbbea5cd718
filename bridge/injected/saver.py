"""Turns the values of a namespace into units: groups of names that share objects, each serialised by itself.

A *root* is a name of the namespace, or a private name of our own (`environment.ROOT` and the like). A *unit* is what
is pickled together: the roots that reach one common object. Classes, functions bound to a name and the closure cells
of these are *nodes*: stored once, in the unit that owns them, and referred to by key from everywhere else.

Who shares what is read from the pickler's memo, which lists at C speed every object that a pickle met. Only what a
cell can have touched is looked at: an object that two names share can be reached by a cell through a name that it
reads, and a unit none of whose names was reached is as it was.
"""

from __future__ import annotations

import base64
import pickle
import sys
import types
from collections.abc import Iterable, Iterator
from typing import Any

# Some are here to enter their reducers.
from . import (  # noqa: F401
    arrays,
    atoms,
    blobs,
    caches,
    classes,
    containers,
    failures,
    frames,
    mapping,
    memos,
    picklers,
    rebuild,
    reducers,
    tensors,
    tracebacks,
    trial,
)
from .ledger import Ledger
from .parts import Body, Part
from .sharing import ATOMS, Sharing, is_canonical, is_common

_FEW = 10_000  # objects that are asked for one by one
INLINE = 32 * 1024  # bytes; a longer pickle goes to the blob folder


class Saver:
    """Serialises what one cell may have changed. One saver serves one snapshot.

    `scope` is the namespace, `nonce` tells the nodes of this snapshot from those of any other; `spare` goes from one
    saver to the next.
    """

    def __init__(
        self,
        ledger: Ledger,
        scope: dict[str, Any],
        folder: blobs.Folder,
        nonce: str,
        spare: picklers.Spare,
    ) -> None:
        self.ledger = ledger
        self.spare = spare
        self.scope = scope
        self.folder = folder
        self.nonce = nonce
        self.part = Part({})
        self._made: list[Any] = []  # every pickler that was made
        self._whole: dict[frozenset[str], picklers.CPickler] = {}  # by a part's roots: the last made for it
        self._new_nodes: list[Part] = []
        self._taken: dict[str, Part] = {}  # node key -> the part that will own it
        self._count = 0
        self._chunks: dict[int, tuple[Any, list[str]]] = {}  # id of an array -> it, and its chunks
        self._maps = mapping.Maps(folder.root)
        self._atoms: dict[int, tuple[Any, list[atoms.Piece] | None]] = {}  # the same for arrays of objects
        self._left_out: dict[str, dict[str, str]] = {}  # node key -> attributes that cannot be saved, and why

    # What reducers ask (see `reducers.Saving`).

    @property
    def arrays(self) -> list[Any]:
        """Large arrays of the part that is being pickled."""
        return self.part.arrays

    def keep_atoms(self, collection: Any) -> int | None:
        """See `reducers.Saving`. Its pieces are written at once."""
        if id(collection) not in self._atoms:
            try:
                pieces = atoms.store(collection, self.ledger.pieces, self.folder)
                self._atoms[id(collection)] = collection, pieces
            except OSError as error:
                raise reducers.Unsaveable(failures.unwritten(error)) from error
        pieces = self._atoms[id(collection)][1]
        if pieces is None:
            return None
        self.part.arrays.append(pieces)
        return len(self.part.arrays) - 1

    def node_of(self, obj: Any) -> str | None:
        """The key of an object that is stored as a node of its own; a new class becomes one here."""
        key = self.ledger.node_key(obj)
        if key is None:
            kinds = (type, *reducers.VARIABLES)
            own = isinstance(obj, kinds) and not (reducers.by_reference(obj) or reducers.is_builtin(obj))
            if not own and not reducers.is_handmade(obj):
                return None
            key = self.new_node(obj)
            self._new_nodes.append(self._taken[key])
        self.part.refs.add(key)
        return key

    def inside(self, key: str) -> bool:
        """Whether that node's body is part of what is being pickled now."""
        return key in self.part.nodes

    def uses_code(self, code: types.CodeType) -> None:
        """Note the source file of a function in this part, and the names that it may look up."""
        self.part.files.add(code.co_filename)
        self.part.globals.update(code.co_names)

    def note(self, problem: str) -> None:
        """Report something of this part that will not come back as it is."""
        self.part.problems.add(problem)

    def new_node(self, obj: Any, part: Part | None = None) -> str:
        """Make a node of an object: its key, in that part or in one of its own."""
        self._count += 1
        name = getattr(obj, "__qualname__", None) or getattr(obj, "__name__", None) or "cell"
        key = f"{name}#{self.nonce}.{self._count}"
        self.ledger.add_node(key, obj)
        target = part if part is not None else Part({})
        target.nodes[key] = obj
        self._taken[key] = target
        return key

    # The work.

    def release(self) -> None:
        """Let go of all values.

        Picklers and saver refer to each other, and a value that a cell drops next must go at once: its `__del__`, a
        weak reference or NumPy's `resize` can tell.
        """
        for pickler in self._made:
            pickler.release()
        self._made.clear()
        for roots, pickler in self._whole.items():
            self.spare.offer(roots, pickler)
        self._whole.clear()
        self._chunks.clear()
        self._atoms.clear()
        self._taken.clear()
        self._new_nodes.clear()
        self.part = Part({})

    def save(self, parts: list[Part]) -> list[Part]:
        """Pickle these parts and the nodes that they bring up; join those that share objects."""
        for part in parts:
            for key in part.nodes:
                self._taken[key] = part
        done: list[Part] = []
        waiting = parts
        while waiting:
            for part in waiting:
                done.extend(self._pickle_or_split(part))
            waiting, self._new_nodes = self._new_nodes, []
        finished = self._join(done)
        _fail_with_what_they_need(finished)
        return finished

    def _pickle_or_split(self, part: Part) -> list[Part]:
        """Pickle a part; when that fails its members are taken one by one, so that a bad one costs only itself."""
        self._pickle(part)
        if part.failure is None:
            return [part]
        if len(part.roots) + len(part.nodes) == 1:
            self._pickle_without_the_bad(part)
            return [part]
        pieces = [Part({root: value}) for root, value in part.roots.items()]
        for key, obj in part.nodes.items():
            self._taken[key] = Part({}, {key: obj})
            pieces.append(self._taken[key])
        return [piece for single in pieces for piece in self._pickle_or_split(single)]

    def _pickle(self, part: Part) -> None:
        """Pickle one part: with the C pickler, else with dill; a failure is noted in the part."""
        outer, self.part = self.part, part
        try:
            if not part.nodes and len(part.roots) == 1:
                ((_, value),) = part.roots.items()
                if type(value) in ATOMS:
                    part.data = pickle.dumps(((), part.roots), protocol=5)
                    return
            failure = None
            for make in (self._c_pickler, self._dill_pickler):
                part.clear()
                try:
                    if self._dump(part, make):
                        return
                except (
                    BaseException
                ) as error:  # user code may raise anything, SystemExit too: into the report
                    failure = failure or failures.explain(error)
            part.failure = failure
        finally:
            self.part = outer

    def _pickle_without_the_bad(self, part: Part) -> None:
        """Try a class's attributes one by one and leave out, with a report, those that cannot be saved."""
        for key, obj in part.nodes.items():
            if not isinstance(obj, type):
                continue
            for name, value in classes.body(obj).items():
                failure = self.failure_of(value, part)
                if failure is not None:
                    self._left_out.setdefault(key, {})[name] = failure
        self._pickle(part)

    def failure_of(self, value: Any, part: Part) -> str | None:
        """Why a value cannot be saved, or None when it can; `part` tells which nodes count as its own."""
        trial = Part({"trial": value}, dict(part.nodes))
        outer, self.part = self.part, trial
        try:
            pickler = picklers.CPickler(self, picklers.Sink())
            self._made.append(pickler)
            pickler.dump(value)
            return None
        except BaseException as error:  # as in `_pickle`
            return failures.explain(error)
        finally:
            self.part = outer

    def _dump(self, part: Part, make: Any) -> bool:
        """One attempt with one pickler; False when that pickler is not to be had."""
        self._maps = mapping.Maps(self.folder.root)  # code of the user's that runs here may map and free
        pickler = make(part)
        if pickler is None:
            return False
        self._made.append(pickler)
        is_c = isinstance(pickler, picklers.CPickler)
        part.engine = "pickle" if is_c else "dill"
        bodies = [body for key, obj in part.nodes.items() for body in self._bodies(key, obj)]
        roots = dict(sorted(part.roots.items()))  # the same content gives the same bytes
        apart = self._apart(part) if is_c else None
        if apart is None:
            pickler.dump((bodies, roots))
        else:
            pickler.dump((bodies, dict.fromkeys(roots, apart)))
            pickler.know(next(iter(roots.values())))
        data, part.buffers = pickler.sink.getvalue(), pickler.sink.buffers
        if part.nodes:
            skeletons = {key: self._skeleton(key, obj) for key, obj in part.nodes.items()}
            data = pickle.dumps((skeletons, data), protocol=5)
        part.data, part.pickler, part.failure = data, pickler, None
        part.transparent = is_c and not pickler.opaque
        if part.roots and not (part.nodes or part.buffers or part.arrays):
            trial.check(part.roots, data, part.engine, self.ledger, self.scope)
        return True

    def _c_pickler(self, part: Part) -> picklers.CPickler:
        roots = frozenset(part.roots)
        self._whole[roots] = self.spare.pickler(roots, self)
        return self._whole[roots]

    def _dill_pickler(self, part: Part) -> Any:
        return picklers.dill_pickler(self, picklers.Sink())

    def _apart(self, part: Part) -> atoms.Apart | None:
        """What stands in the pickle for a part's one value, if that is a large collection of atoms."""
        value = next(iter(part.roots.values()), None)
        if part.nodes or any(each is not value for each in part.roots.values()):
            return None
        index = self.keep_atoms(value) if atoms.may_be_cut(value) else None
        return atoms.Apart(index, value) if index is not None else None

    def _skeleton(self, key: str, obj: Any) -> bytes:
        """The pickle of what must exist of a node before anything can refer to it."""
        pickler = picklers.CPickler(self, picklers.Sink(large=sys.maxsize))
        self._made.append(pickler)
        if isinstance(obj, type):
            maker = classes.native_maker(obj)
            if maker is not None:
                raise reducers.Unsaveable(
                    f"the class {obj.__name__} is made by {maker.__name__}, not by type"
                )
            pickler.dump(("class", classes.skeleton(obj)))
        elif isinstance(obj, types.CellType):
            pickler.dump(("cell", ()))
        elif isinstance(obj, reducers.VARIABLES):
            pickler.dump(("variable", reducers.variable_parts(obj)))
        elif isinstance(obj, types.ModuleType):
            pickler.dump(("module", (obj.__name__,)))
        else:
            for cell in obj.__closure__ or ():
                if self.ledger.node_key(cell) is None:
                    self._new_nodes.append(self._taken[self.new_node(cell)])
            scope = reducers.globals_of(self, obj)
            name = reducers.interned(obj.__name__)
            pickler.dump(("function", (obj.__code__, scope, name, obj.__closure__)))
        return pickler.sink.getvalue()

    def _bodies(self, key: str, obj: Any) -> list[Body]:
        """The content of a node; a class's methods come first, for objects that need them while they load."""
        if isinstance(obj, types.CellType):
            return [Body(key, reducers.cell_content(obj))]
        if isinstance(obj, reducers.VARIABLES):
            return []
        if isinstance(obj, types.ModuleType):
            return [Body(key, {name: value for name, value in vars(obj).items() if name != "__builtins__"})]
        if not isinstance(obj, type):
            return [Body(key, reducers.function_state(obj))]
        return [Body(key, part) for part in classes.body_in_order(obj, self._left_out.get(key, ()))]

    def _join(self, parts: list[Part]) -> list[Part]:
        """Join the parts that share an object with identity, and pickle the joined ones again."""
        candidates = [part for part in parts if part.pickler is not None]
        if len(candidates) < 2:
            return parts
        leader = {id(part): part for part in parts}

        def find(part: Part) -> Part:
            while leader[id(part)] is not part:
                part = leader[id(part)]
            return part

        sharing = Sharing(self._has_identity)
        named = {id(value) for part in candidates for value in part.roots.values()}  # these settle it at once
        for part, shared in self._shared(candidates):
            for obj, holder in sorted(shared, key=lambda each: id(each[0]) not in named):
                other = find(holder)
                if other is not find(part) and sharing.joins(obj, (holder, part)):
                    leader[id(other)] = find(part)
        groups: dict[int, list[Part]] = {}
        for part in parts:
            groups.setdefault(id(find(part)), []).append(part)
        result = []
        for group in groups.values():
            if len(group) == 1:
                result.append(group[0])
                continue
            joined = Part({}, {})
            for part in group:
                joined.roots.update(part.roots)
                joined.nodes.update(part.nodes)
                if part.roots and part.failure is None:
                    joined.joined.append((sorted(part.roots), self._digest(part)))
            pieces = self._pickle_or_split(joined)
            result.extend(pieces)
            while self._new_nodes:
                result.extend(self._pickle_or_split(self._new_nodes.pop()))
        return result

    def _shared(self, candidates: list[Part]) -> Iterator[tuple[Part, list[tuple[Any, Part]]]]:
        """Each part with the objects that it shares with a part before it, and that part.

        What the largest met is not listed when the others are few: it is asked for each of theirs.
        """
        *others, largest = sorted(candidates, key=lambda part: len(part.data))
        met: dict[int, tuple[Any, Part]] = {}
        for part in others:
            objects = memos.objects(part.pickler)
            yield part, [(objects[key], met[key][1]) for key in objects.keys() & met.keys()]
            met.update((key, (obj, part)) for key, obj in objects.items())
        if len(met) > _FEW:
            objects = memos.objects(largest.pickler)
            yield largest, [met[key] for key in objects.keys() & met.keys()]
            return
        probe = memos.Probe(largest.pickler)
        yield largest, [each for each in met.values() if self._has_identity(each[0]) and probe.has(each[0])]

    def _has_identity(self, obj: Any) -> bool:
        """Whether two units that both hold this object must be one."""
        kind = type(obj)
        if kind is Body or is_common(kind):
            return False
        if isinstance(obj, (type, types.FunctionType)):
            return (
                self.ledger.node_key(obj) is None
                and not reducers.by_reference(obj)
                and not reducers.is_builtin(obj)
            )
        if isinstance(obj, types.CellType):
            return self.ledger.node_key(obj) is None
        if kind.__module__ in ("typing", "enum") or isinstance(kind, reducers.EnumType):
            return False
        if isinstance(obj, reducers.Scope) or id(obj) in reducers.singletons(kind):
            return False
        return not is_canonical(obj)

    def record(self, part: Part) -> dict[str, Any]:
        """Write a part's bytes where they belong and give its record (JSON), without its digest for live parts."""
        roots = sorted(part.roots)
        key = f"u:{roots[0]}" if roots else f"n:{min(part.nodes)}"
        found: dict[str, Any] = {
            "key": key,
            "roots": roots,
            "nodes": sorted(part.nodes),
            "refs": sorted(part.refs - part.nodes.keys()),
            "files": sorted(part.files),
            "globals": sorted(part.globals),
            "engine": part.engine,
            "transparent": part.transparent,
            "problems": [
                {"name": f"{obj.__qualname__}.{name}", "reason": reason}
                for key, obj in part.nodes.items()
                for name, reason in self._left_out.get(key, {}).items()
            ]
            + [{"name": roots[0] if roots else key, "reason": reason} for reason in sorted(part.problems)],
            "meta": {root: failures.summary(value) for root, value in part.roots.items()},
        }
        stored_arrays, stored_buffers = self._out_of_band(part)
        inline = len(part.data) <= INLINE
        chunks = [] if inline else self.folder.put_chunks(memoryview(part.data))
        found.update(
            joined=part.joined,
            data=base64.b64encode(part.data).decode() if inline else None,
            chunks=chunks,
            arrays=stored_arrays,
            buffers=stored_buffers,
            length=len(part.data),
            size=len(part.data) + sum(stored["size"] for stored in (*stored_arrays, *stored_buffers)),
        )
        found["digest"] = self._digest(part, chunks)
        return found

    def _out_of_band(self, part: Part) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """What is stored of a part beside its pickle: its arrays and its buffers."""
        stored_arrays = []
        for array in part.arrays:
            if type(array) is list:
                size = sum(piece.size for piece in array)
                stored_arrays.append({"size": size, "chunks": [piece.address for piece in array]})
                continue
            if id(array) not in self._chunks:
                self._chunks[id(array)] = array, arrays.store(array, self.folder, self._maps)
            stored_arrays.append({"size": array.nbytes, "chunks": self._chunks[id(array)][1]})
        stored_buffers = []
        for buffer in part.buffers:
            raw = buffer.raw()
            chunks = self.folder.put_chunks(raw)
            stored_buffers.append({"size": raw.nbytes, "chunks": chunks, "readonly": raw.readonly})
        return stored_arrays, stored_buffers

    def _digest(self, part: Part, chunks: Iterable[str] = ()) -> str:
        """What decides whether two parts are equal; `chunks` are those of its pickle, if these are known."""
        content = list(chunks)
        if not content:
            inline = len(part.data) <= INLINE
            content = [blobs.address_of(part.data)] if inline else blobs.addresses_of(memoryview(part.data))
        addresses = [
            address for stored in self._out_of_band(part) for each in stored for address in each["chunks"]
        ]
        identity = "\0".join(
            (part.engine, *sorted(part.roots), "", *sorted(part.nodes), "", *content, *addresses)
        )
        return blobs.address_of(identity.encode("utf-8", "surrogatepass"))


def _fail_with_what_they_need(parts: list[Part]) -> None:
    """A unit that refers to a node which could not be saved cannot be had again either: it fails with it."""
    while True:
        failed = {key: part.failure for part in parts if part.failure is not None for key in part.nodes}
        broken = [part for part in parts if part.failure is None and not failed.keys().isdisjoint(part.refs)]
        if not broken:
            return
        for part in broken:
            key = min(failed.keys() & part.refs)
            name = key.partition("#")[0]
            part.failure = failed[key] if name in part.roots else f"it needs {name}: {failed[key]}"
