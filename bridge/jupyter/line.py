"""The states of one notebook: where it stands in them, how it goes on, and the way back."""

from __future__ import annotations

import contextlib
import difflib
import random
import re
from collections.abc import Mapping, Sequence
from typing import Any

from bridge.engine import records
from bridge.engine.keeper import Keeper
from bridge.errors import BridgeError, RestoreFailed, StateNotFound
from bridge.pool import KernelProcess
from bridge.store.manifest import Manifest, State
from bridge.store.store import Store

INITIAL = "initial"
LAST = "last"
NUMBERED = re.compile(r"s[1-9]\d*")
CHANGES_KEPT = 50
"""Names of changed variables that are noted with a state."""


class Line:
    """Where a notebook stands in its workspace's states.

    States are called s1, s2, … in the order in which they were made; none of these names is ever used twice. A
    *label* is one more name of a state; a *branch* is a label that goes on to each new state while it is `branch`.
    """

    def __init__(self, store: Store, workspace: str) -> None:
        self.store = store
        self.workspace = workspace
        self.branch: str | None = None
        self.rerun = False
        self._keeper = Keeper(store, workspace)
        self._undone: list[State] = []
        self._held: Manifest | None = None  # what the kernel holds, when it is more than the state at hand
        self._before_cell: dict[str, int] = {}  # cell id -> id of the state that it ran from last
        self.initial = self._find(INITIAL) or store.put(
            workspace,
            INITIAL,
            parent=None,
            code="",
            inputs=None,
            info={"execution_count": 1, "seed": random.SystemRandom().getrandbits(64)},
            manifest=Manifest({}, ()),
        )
        self.left = self._newest()
        """The state in which an earlier kernel left the notebook; None when there was none."""
        self._pin = contextlib.ExitStack()
        self.here = self.initial

    # -- going on

    def keep(
        self, kernel: KernelProcess, code: str, report: Mapping[str, Any], about: Mapping[str, Any]
    ) -> None:
        """Store what a cell left; the notebook stands there then. `about` is kept with the state. StoreError."""
        name = f"s{self.store.next_number(self.workspace)}"
        before = self.here
        manifest = records.successor(self._held or before.manifest, report)
        info = {**about, "changed": _changes(before.manifest, manifest)[:CHANGES_KEPT]}
        self._held = manifest  # until it is stored
        state = self._keeper.keep(kernel, before, name, code, report, info, manifest)
        self._held = None
        if about.get("cell_id"):
            self._before_cell[about["cell_id"]] = before.id
        self.stand(state)
        self._undone.clear()
        if self.branch is not None:
            self.store.label(self.workspace, self.branch, state)

    def leave(self, kernel: KernelProcess, report: Mapping[str, Any]) -> None:
        """Note what a cell that makes no state may have changed in the kernel."""
        self._keeper.leave_dirty(kernel, report)

    def next_name(self) -> str:
        """What the next state will be called."""
        return f"s{self.store.last_number(self.workspace) + 1}"

    # -- going elsewhere

    def go(
        self, kernel: KernelProcess, state: State, inputs: Sequence[str], count: int
    ) -> list[dict[str, Any]]:
        """Make the kernel hold a state, and stand there; gives what could not be brought back.

        `inputs` and `count` are what the front end has seen of both. KernelDied, RestoreFailed.
        """
        if self._held is not None:
            kernel.held.spoil(list(kernel.held.units))
            self._held = None
        lost = self._keeper.give(kernel, state, inputs=inputs, count=count)
        self.stand(state)
        return lost

    def recover(
        self, kernel: KernelProcess, inputs: Sequence[str], count: int
    ) -> tuple[list[dict[str, Any]], list[str]]:
        """Make a kernel just started hold the state where the notebook stands, or else the nearest one before it.

        Gives what could not be brought back, and the names of the states that could not. KernelDied when the kernel
        did not outlive the try.
        """
        given_up: list[str] = []
        while self.here.id != self.initial.id:
            try:
                return self.go(kernel, self.here, inputs, count), given_up
            except RestoreFailed:
                given_up.append(self.name_of(self.here))
                self.step_back()
        return self.go(kernel, self.initial, inputs, count), given_up

    def stand(self, state: State) -> None:
        """Stand in a state, and keep it whatever becomes of its names."""
        pin = contextlib.ExitStack()
        pin.enter_context(self.store.pin(state))
        self._pin.close()
        self._pin, self.here = pin, state

    def step_back(self) -> None:
        """Stand in the state before, for want of the one at hand."""
        self.stand(self._parent(self.here) or self.initial)

    def back(self, start: State, steps: int) -> State:
        """The state so many cells before `start`; StateNotFound when there is none."""
        for _ in range(steps):
            parent = self._parent(start)
            if parent is None:
                raise StateNotFound(
                    "there is nothing to undo" if start.parent is None else "that state was forgotten"
                )
            start = parent
        return start

    def undone(self, state: State) -> None:
        """The notebook goes back from this state: `redo` leads there again."""
        self._undone.append(state)

    def redo(self) -> State:
        """The state that the last undo came from; StateNotFound when there is none."""
        while self._undone:
            state = self.store.state(self._undone.pop().id)
            if state is not None:
                return state
        raise StateNotFound("there is nothing to redo")

    def cells_before(self, state: State) -> dict[int, str]:
        """The cells that led to a state, by their numbers; of cells that have one number the latest."""
        found: dict[int, str] = {}
        at: State | None = state
        while at is not None:
            if at.info.get("cell"):
                found.setdefault(at.info["cell"], at.code)
            at = self._parent(at)
        return found

    def before_cell(self, cell_id: str) -> State | None:
        """Where a cell that is run again starts from; None when it goes on from here."""
        known = self._before_cell.get(cell_id) if self.rerun else None
        return None if known is None else self.store.state(known)

    # -- names

    def find(self, name: str) -> State:
        """The state of that name; StateNotFound, whose message offers near names."""
        if name == LAST:
            if self.left is None:
                raise StateNotFound("there is no earlier kernel's state of this notebook")
            name = self.left
        state = self._find(name)
        if state is None:
            names = self.store.names(self.workspace)
            near = difflib.get_close_matches(name, names, 3) or names[-3:]
            raise StateNotFound(f"there is no state {name!r} (there is {', '.join(near)})")
        return state

    def names(self) -> dict[int, list[str]]:
        """All names of each state, by its id; the oldest state first."""
        found: dict[int, list[str]] = {}
        for row in self.store.details(self.workspace):
            found.setdefault(row["id"], []).append(row["name"])
        return dict(sorted(found.items()))

    def name_of(self, state: State) -> str:
        """The name that a state was made with, or another one when that was taken away."""
        return self.ordered(self.names().get(state.id) or ["?"])[0]

    def ordered(self, names: Sequence[str]) -> list[str]:
        """A state's names, the one that it was made with first."""
        return sorted(names, key=lambda name: NUMBERED.fullmatch(name) is None)

    def label(self, name: str, state: State) -> None:
        """Give a state a name of the user's: it stays, and the notebook's states do not expire from then on."""
        if name in (INITIAL, LAST) or NUMBERED.fullmatch(name) or not name or len(name) > 255:
            raise BridgeError(f"{name!r} cannot be the name of a state")
        self.store.label(self.workspace, name, state)

    def hold(self) -> None:
        """The notebook's states do not expire from now on."""
        self.store.open_workspace(self.workspace, labelled=True)

    def hold_for_good(self) -> None:
        """The notebook's states neither expire nor are evicted from now on."""
        self.store.keep_workspace(self.workspace)

    def forget(self, name: str) -> None:
        """Take a name away, and the state with its last one; Conflict for the one at hand."""
        self.store.delete(self.workspace, name)
        if name == self.branch:
            self.branch = None

    def close(self) -> None:
        """Let go of the state at hand."""
        self._pin.close()

    # -- inside

    def _parent(self, state: State) -> State | None:
        return None if state.parent is None else self.store.state(state.parent)

    def _find(self, name: str) -> State | None:
        return self.store.find(self.workspace, name)

    def _newest(self) -> str | None:
        numbered = [name for name in self.store.names(self.workspace) if NUMBERED.fullmatch(name)]
        return max(numbered, key=lambda name: int(name[1:]), default=None)


def _changes(before: Manifest, after: Manifest) -> list[str]:
    """The names of variables that are new, changed or gone."""
    old = {name for unit in before.units.values() for name in unit.names}
    new = {name for unit in after.units.values() for name in unit.names}
    found = {*records.changed_names(before, after), *(old ^ new)}
    return sorted(name for name in found if records.is_user_name(name))
