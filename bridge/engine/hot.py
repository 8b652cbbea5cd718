"""Hot states: frozen copies of kernels that stand for states, and hold what no serialiser can.

A tier above the store, never instead of it: every state is stored, and one whose copy is gone comes from there.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from bridge.engine import held, records
from bridge.engine.held import Held
from bridge.errors import CannotFork, KernelError
from bridge.pool import KernelProcess, Template
from bridge.store.manifest import State, Unit

log = logging.getLogger(__name__)

SLOW = 1 << 20
"""Bytes of pickle whose loading takes some 50 ms; what a fork costs, whatever the state."""
REMEMBERED = 256
"""States of which it is known how often they were executed from, or why they are not hot."""
MOST_LEFT_OUT = 63
"""Copies of a kernel that are left out, at most, when the last ones were refused, or nobody used them."""
BEFORE_SWITCH, BEFORE_LOAD = -0.5, 0.5
"""Ranks of a fork: before any switch, where a switch would lose something, else before one that loads much."""


@dataclass(slots=True)
class Hot:
    """One hot state: the process to be forked, what it holds, and how much a fork of it is to be preferred."""

    state_id: int
    template: Template
    held: Held
    rank: float

    def is_near(self, state: State) -> bool:
        """Whether a fork of it is made to hold the state by a switch that loads little."""
        units, mine = state.manifest.units, self.held.units
        if self.held.bound or any(map(records.is_live, units.values())):
            return False
        others = [unit for key, unit in units.items() if key not in mine or mine[key].digest != unit.digest]
        return _pickled(others) <= SLOW and _pickled(held.plan(self.held, state.manifest).load) <= SLOW

    def holding(self, kernel_id: str) -> Held:
        """What a kernel just forked from it holds."""
        return self.held.copy(kernel_id)


@dataclass(slots=True)
class _Thrift:
    """How many copies of a kernel in a row were refused, or used by nobody, and how many are left out for it."""

    times: int = 0
    left_out: int = 0
    refusal: str | None = None  # of the last one

    def note(self, refusal: str | None) -> None:
        """One more; of those that nobody used the first two cost nothing."""
        self.times, self.refusal = self.times + 1, refusal
        self.left_out = min(2 ** (self.times - (refusal is None)) - 1, MOST_LEFT_OUT)


class HotStates:
    """The hot states of one engine. Thread-safe.

    At most `limit` are kept, and their own memory together under `memory` bytes; the least recently used go first.
    `exists` tells whether the state of an id still does.
    """

    def __init__(
        self, limit: int, memory: int, release: Callable[[KernelProcess], None], exists: Callable[[int], bool]
    ) -> None:
        self._limit, self._memory = limit, memory
        self._release = release
        self._exists = exists
        self._lock = threading.Lock()
        self._hot: OrderedDict[int, Hot] = OrderedDict()
        self._copying: dict[int, str] = {}  # state -> the kernel that is being copied
        self._threads: set[threading.Thread] = set()
        self._why: OrderedDict[int, str] = OrderedDict()
        self._uses: OrderedDict[int, int] = OrderedDict()
        self._thrift: OrderedDict[str, _Thrift] = OrderedDict()  # by the kernel

    # -- executing from one

    def find(self, state: State) -> Hot | None:
        """The state's copy, if it has one that lives."""
        with self._lock:
            hot = self._hot.get(state.id)
            if hot is not None and not hot.template.alive:
                del self._hot[state.id]
                hot = None
            if hot is not None:
                self._hot.move_to_end(state.id)
            return hot

    def nearest(self, state: State) -> Hot | None:
        """The state's copy, else the copy of another state that differs from it by little, if there is one.

        A line of cells beside something large needs one copy of that, not one a cell.
        """
        exact = self.find(state)
        with self._lock:
            known = list(self._hot.values())
        if exact is not None or not known or not _is_slow(state):
            return exact
        for hot in reversed(known):
            if hot.template.alive and hot.is_near(state):
                with self._lock:
                    if hot.state_id in self._hot:
                        self._hot.move_to_end(hot.state_id)
                return replace(hot, rank=BEFORE_LOAD)
        return None

    def holder(self, state: State) -> str | None:
        """The kernel that holds the state and is just being copied, and will be free in a moment."""
        with self._lock:
            return self._copying.get(state.id)

    def describe(self, state: State) -> dict[str, Any]:
        """`{"hot", "why"}`: whether the state is hot, and what kept it from being, if anything did."""
        hot = self.find(state) is not None
        with self._lock:
            return {"hot": hot, "why": None if hot else self._why.get(state.id)}

    def forked(self, hot: Hot) -> None:
        """A kernel was forked of it: copies of the kernel that it was made of are worth their price."""
        with self._lock:
            self._thrift.pop(hot.held.kernel_id, None)

    # -- becoming one

    def is_due(self, kernel: KernelProcess, state: State) -> bool:
        """Whether a state about to be executed from is to be hot: not for the first time, and slow to load."""
        if not self._limit:
            return False
        with self._lock:
            count = self._uses[state.id] = self._uses.pop(state.id, 0) + 1
            _shorten(self._uses)
        return count > 1 and self._is_missed(state) and not self._is_left_out(kernel, state, due=True)

    def is_wanted(self, kernel: KernelProcess, state: State) -> bool:
        """Whether a state just made in a kernel is to be hot: it has what the store cannot hold, or is slow to load.

        One that differs by little from a state that is hot is not slow to load.
        """
        if not self._limit:
            return False
        return _has_live(kernel, state) or (
            self._is_missed(state) and not self._is_left_out(kernel, state, due=False)
        )

    def _is_missed(self, state: State) -> bool:
        return _is_slow(state) and self.nearest(state) is None

    def _is_left_out(self, kernel: KernelProcess, state: State, due: bool) -> bool:
        """Whether a copy that would only save time is left out: its making, too, takes some of the next cell's.

        `due`: the state is executed from again, so the copy would be used.
        """
        with self._lock:
            thrift = self._thrift.get(kernel.id)
            if thrift is None or thrift.left_out == 0 or (due and thrift.refusal is None):
                return False
            thrift.left_out -= 1
            self._note(state, thrift.refusal or "nobody used the last copies of its kernel")
            return True

    def _note(self, state: State, why: str) -> None:
        self._why[state.id] = why
        _shorten(self._why)

    def copy(self, kernel: KernelProcess, state: State, *, first: bool = False) -> None:
        """Make a copy of a leased kernel that holds the state; a failure is noted, and is none of the caller's.

        `first`: it is to be preferred to every switch.
        """
        if self._make(kernel, state, first):
            self._work(self._keep_memory)

    def _make(self, kernel: KernelProcess, state: State, first: bool) -> bool:
        """Make a copy; whether it could be."""
        try:
            if not self._limit:
                raise CannotFork("hot states are switched off")
            template = kernel.copy()
        except KernelError as error:
            log.debug("state %d is not hot: %s", state.id, error)
            with self._lock:
                self._note(state, str(error))
                self._thrift.setdefault(kernel.id, _Thrift()).note(str(error))
                _shorten(self._thrift)
            return False
        first = first or _has_live(kernel, state)
        hot = Hot(state.id, template, kernel.held.copy(kernel.id), BEFORE_SWITCH if first else BEFORE_LOAD)
        with self._lock:
            old = self._hot.pop(state.id, None)
            self._hot[state.id] = hot
            self._why.pop(state.id, None)
            if not first:
                self._thrift.setdefault(kernel.id, _Thrift()).note(None)
                _shorten(self._thrift)
            too_many = list(self._hot)[: -self._limit]
        if old is not None:
            old.template.close()
        for state_id in too_many:
            self._evict(state_id)
        return True

    def copy_and_release(self, kernel: KernelProcess, state: State) -> None:
        """As `copy`, behind the caller's back; the kernel is released as soon as the copy is made."""

        def work() -> None:
            made = False
            try:
                made = self._make(kernel, state, first=False)
            finally:
                with self._lock:
                    del self._copying[state.id]
                self._release(kernel)
            if made:
                self._keep_memory()

        with self._lock:
            self._copying[state.id] = kernel.id
        self._work(work)

    def _work(self, call: Callable[[], None]) -> None:
        """Make a call behind the caller's back."""

        def work() -> None:
            try:
                call()
            finally:
                with self._lock:
                    self._threads.discard(threading.current_thread())

        thread = threading.Thread(target=work, name="hot-state", daemon=True)
        with self._lock:
            self._threads.add(thread)
        thread.start()

    # -- ending

    def drop(self, state_id: int) -> None:
        """End the copy of a state."""
        with self._lock:
            hot = self._hot.pop(state_id, None)
        if hot is not None:
            hot.template.close()

    def sweep(self) -> None:
        """End the copies of states that are no more."""
        with self._lock:
            known = list(self._hot)
        for state_id in known:
            if not self._exists(state_id):
                self.drop(state_id)

    def clear(self) -> None:
        """End all copies."""
        with self._lock:
            known = list(self._hot)
        for state_id in known:
            self.drop(state_id)

    def close(self, seconds: float) -> None:
        """Wait for those who make copies; the kernels of which they are made have ended."""
        with self._lock:
            threads = list(self._threads)
        for thread in threads:
            thread.join(seconds)
        self.clear()

    def _keep_memory(self) -> None:
        """Keep within the memory. How much each takes is told slowly where it is much: no cell waits for that."""
        self.sweep()
        with self._lock:
            known = dict(self._hot)
        sizes = {state_id: hot.template.memory(shared=True) for state_id, hot in known.items()}
        if sum(sizes.values()) > self._memory:
            sizes = {state_id: hot.template.memory() for state_id, hot in known.items()}
        while sum(sizes.values()) > self._memory:
            oldest = next(iter(sizes))
            del sizes[oldest]
            self._evict(oldest)

    def _evict(self, state_id: int) -> None:
        self.drop(state_id)
        with self._lock:
            self._why[state_id] = "it was ended for others' sake"
            _shorten(self._why)


def _has_live(kernel: KernelProcess, state: State) -> bool:
    """Whether a kernel that holds the state has live values of it."""
    return any(
        records.is_live(unit) and key in kernel.held.units for key, unit in state.manifest.units.items()
    )


def _is_slow(state: State) -> bool:
    """Whether it is slow to load into a kernel that has nothing of it."""
    return _pickled(state.manifest.units.values()) > SLOW


def _pickled(units: Iterable[Unit]) -> int:
    """The bytes of units' pickles, without the buffers beside them, which are mapped or copied at once."""
    return sum(
        unit.size
        - sum(stored["size"] for kind in ("arrays", "buffers") for stored in unit.record.get(kind, ()))
        for unit in units
    )


def _shorten(known: OrderedDict[Any, Any]) -> None:
    while len(known) > REMEMBERED:
        known.popitem(last=False)
