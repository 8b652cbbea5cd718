"""Who gets which kernel, and which kernels to start or end: decisions alone, no threads and no processes."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

WORST = 1e308
"""What an infinite rank counts for on a never-used kernel: it may always be used, else a wait had no end."""


class Seat(Protocol):
    """What a decision needs to know of a kernel."""

    id: str
    used: bool

    @property
    def alive(self) -> bool:
        """Whether it can be handed out."""
        ...


K = TypeVar("K", bound=Seat)


@dataclass(eq=False, slots=True)
class Waiter(Generic[K]):
    """One request for a kernel; `settled` is set when `kernel` or `error` is.

    `make` makes a kernel that is yet to be started, in place of an idle one whose rank is above `make_rank`.
    """

    rank: Callable[[K], float] | None = None
    fresh: bool = False
    only: str | None = None
    make: Callable[[], K] | None = None
    make_rank: float = math.inf
    kernel: K | None = None
    was_used: bool = False
    error: BaseException | None = None
    settled: threading.Event = field(default_factory=threading.Event)

    def fail(self, error: BaseException) -> None:
        """Ends the wait with an error."""
        self.error = error
        self.settled.set()


class Leases(Generic[K]):
    """The kernels of a pool and those who wait for one, in the order they came.

    At most `size` kernels are leased at once and at most `size` are kept that were ever used; one that never
    was is kept beside them. `idle` is in the order of the last release, `starting` counts those on their way.
    The caller holds a lock around every method.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.idle: list[K] = []
        self.leased: dict[str, K] = {}
        self.waiting: list[Waiter[K]] = []
        self.starting = 0
        self._passing: set[str] = set()  # leased to one who wanted a new one: it will not stay

    def match(self) -> None:
        """Gives kernels to those who wait, first come first served; an only-waiter holds up nobody."""
        for waiter in self.starved():
            try:
                kernel = self._choose(waiter)
            except Exception as error:  # a rank of the caller's: the fault is its own, not the next one's
                self.waiting.remove(waiter)
                waiter.fail(error)
                return self.match()  # its place is free for another
            if kernel is not None:
                self.waiting.remove(waiter)
                if kernel in self.idle:
                    self.idle.remove(kernel)
                self.leased[kernel.id] = kernel
                if waiter.fresh:
                    self._passing.add(kernel.id)
                waiter.kernel, waiter.was_used = kernel, kernel.used
                kernel.used = True
                waiter.settled.set()

    def starved(self) -> list[Waiter[K]]:
        """Those for whom a place is free; after `match` no idle kernel serves them: new ones have to start.

        Whoever waits for a new kernel keeps their place, so that later ones do not starve them; whoever waits
        for a kernel that is leased takes none, for theirs comes free with it.
        """
        free = self.size - len(self.leased)
        return [waiter for waiter in self.waiting if not self._tied(waiter)][: max(0, free)]

    def wanted(self) -> int:
        """How many kernels to start now: one for each who is starved, else one at a time up to `size` + 1."""
        starved = len(self.starved())
        if starved > self.starting:
            return starved - self.starting
        total = len(self.idle) + self._staying() + self.starting
        return 1 if self.starting == 0 and total <= self.size else 0

    def surplus(self) -> list[K]:
        """The idle kernels to end, least recently used first; they are no longer idle then."""
        used = [kernel for kernel in self.idle if kernel.used]
        too_many_used = len(used) + self._staying() - self.size
        too_many = len(self.idle) + self._staying() + self.starting - (self.size + 1)
        ending = used[: max(0, too_many_used, too_many)]
        for kernel in ending:
            self.idle.remove(kernel)
        return ending

    def unused(self) -> list[K]:
        """The idle kernels that were never used; they are no longer idle then."""
        found = [kernel for kernel in self.idle if not kernel.used]
        for kernel in found:
            self.idle.remove(kernel)
        return found

    def _staying(self) -> int:
        """How many leased kernels will be idle again: one used once must not push out those that hold states."""
        self._passing &= self.leased.keys()
        return len(self.leased) - len(self._passing)

    def hopeless(self) -> list[Waiter[K]]:
        """Those who wait in vain when no kernel can be started: no leased one will come back for them."""
        starved = self.starved()
        lost = [waiter for waiter in self.waiting if waiter.fresh or not self.leased]
        return [waiter for waiter in lost if waiter in starved or not (self.idle or self.leased)]

    def give_back(self, kernel: K) -> bool:
        """Takes a leased kernel back; whether it is idle now (False: it is dead, or was not leased)."""
        if self.leased.pop(kernel.id, None) is None or not kernel.alive:
            return False
        self.idle.append(kernel)
        return True

    def drop(self, kernel: K) -> None:
        """Forgets a kernel that died while idle; a leased one stays until it is given back."""
        if kernel in self.idle:
            self.idle.remove(kernel)

    def _tied(self, waiter: Waiter[K]) -> bool:
        """Whether this waiter waits for a kernel that is leased to somebody else."""
        kernel = self.leased.get(waiter.only) if waiter.only is not None else None
        return kernel is not None and kernel.alive

    def _choose(self, waiter: Waiter[K]) -> K | None:
        """The kernel for this waiter: theirs, else the lowest rank, and of equals the least recently used one.

        So two lines that take turns come to have a kernel each. A new one is the least recently used of all, as long
        as there is room for one more that was used.
        """
        usable = [kernel for kernel in self.idle if kernel.alive and not (waiter.fresh and kernel.used)]
        full = sum(kernel.used for kernel in self.idle) + self._staying() >= self.size
        best: K | None = None
        best_key = (math.inf, False)
        for kernel in usable:
            if kernel.id == waiter.only:
                return kernel
            rank = waiter.rank(kernel) if waiter.rank is not None and not waiter.fresh else 0.0
            if not kernel.used:
                rank = min(rank, WORST)
            key = (rank, kernel.used != full)
            if rank < math.inf and (best is None or key < best_key):
                best, best_key = kernel, key
        if waiter.make is not None and best_key[0] > waiter.make_rank:
            return waiter.make()
        return best
