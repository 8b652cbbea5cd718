"""The real kernel of one notebook, led along its line of states. What may take its time: for the worker's thread."""

from __future__ import annotations

import functools
import hashlib
import logging
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from bridge.engine import held, records
from bridge.engine.hot import HotStates
from bridge.errors import BridgeError, KernelDied, KernelStartFailed, KernelTimeout, RestoreFailed
from bridge.jupyter.cell import Cell
from bridge.jupyter.inner import Inner
from bridge.jupyter.line import Line
from bridge.pool import KernelProcess, Pool
from bridge.store.manifest import State

log = logging.getLogger(__name__)

TRIES = 3
"""Kernels that may die in turn while one state is loaded, before the one before it is taken."""


@dataclass(slots=True)
class Attached:
    """A kernel that is ready for the front end; `inner` None: the one it had. `notes` are for the user."""

    inner: Inner | None
    notes: list[str] = field(default_factory=list)


class Driver:
    """Leases the kernel, keeps the states that cells leave in it, and moves it to others.

    `died` is called with a kernel and how it ended, in another thread. `count` is the number of the next cell as the
    front end counts, `inputs` the code of the cells before.
    """

    def __init__(
        self, pool: Pool, line: Line, hot: HotStates, died: Callable[[KernelProcess, str], None]
    ) -> None:
        self.line = line
        self._hot = hot
        self.kernel: KernelProcess | None = None
        self.count = 1
        self._inputs: dict[int, str] = {}
        self._pool = pool
        self._died = died
        self._missed: set[str] = set()  # what the user knows to be gone
        self._look_at_all = False  # the last snapshot failed

    def began(self, cell: Cell) -> None:
        """The kernel has counted a cell."""
        if cell.count is not None and cell.kept and not cell.code.isspace():
            self._inputs[cell.count] = cell.code
            self.count = max(self.count, cell.count + 1)

    def inputs(self) -> list[str]:
        """The code of the cells before the next one, the first one first."""
        return [self._inputs.get(number, "") for number in range(1, self.count)]

    def resume(self, state: State) -> None:
        """Go on from this state, with its count and its inputs: for a process that begins."""
        self.line.stand(state)
        self.count = int(state.info.get("execution_count", 1))
        self._inputs = self.line.cells_before(state)

    def orders(self, cell: Cell) -> dict[str, Any]:
        """What the helper is to do after a cell."""
        here, name = self.line.here, self.line.next_name()
        nonce = hashlib.sha256(f"{here.id}\0{here.created}\0{cell.code}\0{name}".encode("utf-8", "replace"))
        return {
            "nonce": nonce.hexdigest()[:10],
            "state": name,
            "keep_on_error": True,
            "all": self._look_at_all,
        }

    def attach(self) -> Attached:
        """A kernel that holds the state where the notebook stands. KernelStartFailed, ShuttingDown."""
        self._let_go()
        attached = self._fork()
        if attached is not None:
            return attached
        notes: list[str] = []
        deaths = 0
        while True:
            kernel = self._pool.lease()
            try:
                lost: list[dict[str, Any]] = []
                if self.count == 1 and self.line.here.id == self.line.initial.id:
                    kernel.held.adopt(self.line.initial, [])
                else:
                    lost, given_up = self.line.recover(kernel, self.inputs(), self.count)
                    notes += [f"state {name} could not be brought back" for name in given_up]
                inner = _greeted(kernel)
            except KernelDied as error:
                log.warning("kernel %s ended before it could be used: %s", kernel.id, error)
                self._pool.release(kernel)
                deaths += 1
                if deaths % TRIES == 0:
                    if self.line.here.id == self.line.initial.id:
                        raise
                    notes.append(f"state {self.line.name_of(self.line.here)} could not be brought back")
                    self.line.step_back()
                continue
            except BaseException:
                kernel.retire = True
                self._pool.release(kernel)
                raise
            self._have(kernel)
            return Attached(inner, notes + self._told(lost))

    def _fork(self) -> Attached | None:
        """A kernel forked from the process of the state where the notebook stands; None when that cannot be."""
        state = self.line.here
        hot = self._hot.find(state)
        if hot is None:
            return None
        try:
            kernel = self._pool.lease(template=hot.template, template_rank=-math.inf)
        except KernelStartFailed as error:
            log.warning("state %d could not be forked: %s", state.id, error)
            self._hot.drop(state.id)
            return None
        try:
            kernel.held = hot.holding(kernel.id)
            kernel.held.state = None  # it has all of the state, but the count and `In` are the front end's
            lost = self.line.go(kernel, state, self.inputs(), self.count)
            inner = _greeted(kernel)
        except (KernelDied, KernelTimeout, RestoreFailed) as error:
            log.warning("a fork of state %d could not be used: %s", state.id, error)
            self._hot.drop(state.id)
            kernel.retire = True
            self._pool.release(kernel)
            return None
        except BaseException:
            kernel.retire = True
            self._pool.release(kernel)
            raise
        self._have(kernel)
        return Attached(inner, self._told(lost))

    def _have(self, kernel: KernelProcess) -> None:
        """This is the notebook's kernel now."""
        self.kernel = kernel
        kernel.on_exit(functools.partial(self._died, kernel))

    def keep(self, cell: Cell, hurry: bool) -> str | None:
        """Keep the state that a cell left; a sentence for the user when that cannot be.

        It is kept as a process, too, for `%undo`; with `hurry` only if it has what the store cannot hold.
        """
        kernel, report = self.kernel, cell.report
        if kernel is None:
            return None
        self._look_at_all = "fault" in report
        if "fault" in report:
            log.error("no snapshot after a cell:\n%s", report["fault"])
            self.line.leave(kernel, {"dirty": None})
            return f"this cell left no state: {str(report['fault']).strip().splitlines()[-1]}"
        if "units" not in report:
            self.line.leave(kernel, report)
            return None
        if cell.code.strip() or report["units"] or report["removed"]:
            try:
                self.line.keep(kernel, cell.code, report, cell.about())
            except BridgeError as error:
                log.error("a state could not be kept: %s", error)
                return f"the state of this cell could not be kept: {error}"
            if not hurry or self._hot.is_wanted(kernel, self.line.here):
                self._hot.copy(kernel, self.line.here, first=True)
        return None

    def move(self, cell: Cell) -> Attached:
        """Go to the state that a cell's magics chose.

        A process that carries what no switch takes back is ended, and another one goes on. KernelDied, RestoreFailed.
        """
        kernel, target = self.kernel, cell.target
        assert kernel is not None  # the loop moves no kernel that it does not have
        assert target is not None
        if cell.report:
            self.line.leave(kernel, cell.report)
        return self.go(target)

    def go(self, target: State) -> Attached:
        """Make the kernel hold a state; see `move`."""
        kernel = self.kernel
        assert kernel is not None
        mine: held.Held = kernel.held
        if not mine.holds(target) and self._hot.find(target) is not None:
            self.line.stand(target)
            return self.attach()
        if not (mine.bound and not mine.holds(target)):
            try:
                lost = self.line.go(kernel, target, self.inputs(), self.count)
            except RestoreFailed:
                mine.bound = ["a state that was loaded in part"]
                raise
            return Attached(None, self._told(lost))
        reasons = ", ".join(mine.bound)
        self.line.stand(target)
        attached = self.attach()
        attached.notes.insert(
            0, f"a new kernel goes on, for the old one had what no switch takes back: {reasons}"
        )
        return attached

    def diff(self, one: State, other: State) -> dict[str, list[str]]:
        """The names added, removed and changed from one state to another."""
        before = {name for unit in one.manifest.units.values() for name in unit.names}
        after = {name for unit in other.manifest.units.values() for name in unit.names}
        return {
            "added": sorted(filter(records.is_user_name, after - before)),
            "removed": sorted(filter(records.is_user_name, before - after)),
            "changed": records.changed_names(one.manifest, other.manifest),
        }

    def _told(self, lost: list[dict[str, Any]]) -> list[str]:
        """A sentence for each value that is not there any more, once."""
        new = [item for item in lost if item["name"] not in self._missed]
        self._missed.update(item["name"] for item in new)
        return [f"{item['name']} could not be brought back: {item['reason']}" for item in new]

    def _let_go(self) -> None:
        kernel, self.kernel = self.kernel, None
        if kernel is not None:
            kernel.retire = True
            self._pool.release(kernel)


def _greeted(kernel: KernelProcess) -> Inner:
    """The sockets to a kernel that is heard on all of them. KernelDied, KernelTimeout."""
    inner = Inner(kernel)
    try:
        inner.greet()
    except BaseException:
        inner.close()
        raise
    return inner
