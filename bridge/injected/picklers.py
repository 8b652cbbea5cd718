"""The picklers with our reducers, C's and dill's, what they write to, and the one that is used again."""

from __future__ import annotations

import copyreg
import importlib.util
import io
import pickle
import sys
import types
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from . import arrays, rebuild, reducers, seen

if TYPE_CHECKING:
    from .reducers import Saving


def called_among(names: dict[str, Any], function: Callable[[], Any]) -> Any:
    """What the function gives when it is called from a frame whose globals are these.

    Some libraries look for names in the frame that loads their objects: statsmodels evaluates its formulas again.
    """
    return types.FunctionType(_call.__code__, names)(function)


def _call(function: Callable[[], Any]) -> Any:
    return function()


class Sink(io.BytesIO):
    """Where a pickle goes, and the large buffers beside it; Unsaveable when it is longer than the memory that is left.

    A value whose own code never ends, or one of which there is no room for a second, must not end the kernel instead.
    """

    _LOOK = 64 * 1024 * 1024  # bytes up to which nobody asks how much memory there is

    def __init__(self, room: Callable[[], int] | None = None, large: int = arrays.OUT_OF_BAND) -> None:
        """`room` tells the bytes that are left, the machine's own when None; `large` is in bytes."""
        super().__init__()
        self._room = room or memory_left
        self._large = large
        self.clear()

    def clear(self) -> None:
        """Begin anew; what was given out stays as it is."""
        self.seek(0)
        self.truncate()
        self.buffers: list[pickle.PickleBuffer] = []
        self._written, self._bound = 0, self._LOOK

    def take(self, buffer: pickle.PickleBuffer) -> bool:
        """Whether this buffer goes into the pickle; a large one is kept beside it."""
        if buffer.raw().nbytes < self._large:
            return True
        self.buffers.append(buffer)
        return False

    def write(self, data: Any) -> int:
        """Append these bytes."""
        self._written += len(data)
        if self._written > self._bound:
            if self._written > self._room():
                raise reducers.Unsaveable(
                    f"its pickle takes more than {self._written >> 20} MiB, and memory is short"
                )
            self._bound = self._written + self._LOOK
        return super().write(data)


def memory_left() -> int:
    """The bytes of memory that new data may take before the machine is short of it; 1 EiB where that cannot be told."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        return 1 << 60


_NEW: Any = copyreg.__newobj__  # type: ignore[attr-defined]  # the name that pickle knows


class CPickler(pickle.Pickler):
    """The C pickler with our reducers.

    After a dump `opaque` is true when something of the value can be reached that the pickler has not met.
    """

    def __init__(self, saving: Saving, sink: Sink) -> None:
        super().__init__(sink, protocol=5, buffer_callback=sink.take)
        self.sink = sink
        self._plain: dict[type, tuple[type] | None] = {}  # met before: the pickler sees all of them
        self._reducers: dict[type, reducers.Reducer | None] = {}
        self.begin(saving)

    def begin(self, saving: Saving) -> None:
        """Get ready for a dump; once more after `release`."""
        self._saving: Saving | None = saving
        self.opaque = False

    def reducer_override(self, obj: Any) -> Any:
        """See `reducers.override`; the commonest answer is given here, since every call counts among 100,000."""
        kind = type(obj)
        if kind in self._plain:
            made = self._plain[kind]
            # What `object.__reduce_ex__` gives, but for the time that it takes to look for it.
            return NotImplemented if made is None else (_NEW, made, obj.__dict__ or None)
        try:
            reducer = self._reducers[kind]
        except KeyError:
            reducer = self._reducers[kind] = reducers.reducer_for(kind)
            if reducer is None and seen.is_plain(kind):
                self._plain[kind] = (kind,) if seen.has_attributes_alone(kind) else None
                return self.reducer_override(obj)
        reduced = NotImplemented if reducer is None else reducer(self._saving, obj)  # type: ignore[arg-type]  # never after `release`
        maker = reduced[0] if type(reduced) is tuple else obj
        if maker is not rebuild.node and maker is not rebuild.collection:
            self.opaque = True
        return reduced

    def know(self, obj: Any) -> None:
        """Count an object that something else stands for in the pickle among those met (see `memos`)."""
        memo = self.memo.copy()
        self.memo = {**memo, id(obj): (len(memo), obj)}

    def release(self) -> None:
        """Let go of the saver, and of all values and classes."""
        self.clear_memo()
        self._saving = None
        self._plain.clear()
        self._reducers.clear()


class Spare:
    """The pickler of the last large value, for the next time that it is pickled.

    Its memo, a table in C, has the size by then. To let a table grow to 300,000 entries once more, into memory that
    the process gets page by page, takes a third of the whole pickling.
    """

    _LEAST, _MOST = 1 << 20, 1 << 27  # bytes of its memo; a smaller one grows in no time
    _SPARSE = 16  # bytes of memo for each of the pickle, from which on it is far too large for its value

    def __init__(self) -> None:
        self._roots: frozenset[str] = frozenset()
        self._pickler: CPickler | None = None

    def pickler(self, roots: Collection[str], saving: Saving) -> CPickler:
        """A pickler for these roots: the one kept, if it was theirs, else a new one."""
        if self._pickler is None or self._roots != roots:
            return CPickler(saving, Sink())
        found, self._pickler = self._pickler, None
        found.begin(saving)
        return found

    def offer(self, roots: Collection[str], pickler: CPickler) -> None:
        """Keep a pickler that was released, if that is worth it, in place of the one before."""
        if self._LEAST <= sys.getsizeof(pickler) <= min(self._MOST, self._SPARSE * pickler.sink.tell()):
            pickler.sink.clear()
            self._roots, self._pickler = frozenset(roots), pickler

    def keep_for(self, roots: Collection[str]) -> None:
        """Let go of what was kept for a name that is none of these any more."""
        if not self._roots.issubset(roots):
            self._pickler = None


def dill_pickler(saver: Saving, sink: Sink) -> Any:
    """dill's pickler with our reducers, or None where dill is not installed."""
    try:
        import dill
    except ImportError:
        return None

    class DillPickler(dill.Pickler):  # type: ignore[misc]  # a class of the user's environment
        saving: Saving | None = saver

        def reducer_override(self, obj: Any) -> Any:
            return reducers.override(self.saving, obj)  # type: ignore[arg-type]

        def release(self) -> None:
            self.clear_memo()
            type(self).saving = None

    pickler = DillPickler(sink, protocol=5, buffer_callback=sink.take, recurse=False, byref=True)
    pickler.sink = sink
    return pickler


def engine_name() -> str:
    """What this kernel serialises with: "dill" where it is installed beside pickle, else "pickle"."""
    if "dill" not in _found and importlib.util.find_spec("dill") is not None:
        _found.add("dill")  # to look again after every cell costs as much as all that a small one left
    return "dill" if _found else "pickle"


_found: set[str] = set()
