"""What a kernel holds, and what must be loaded to make it hold another state. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from bridge.engine.records import is_live
from bridge.store.manifest import Manifest, State, Unit

_STEP = 1 << 20
"""Bytes in which costs are counted: which of two kernels has a little less to load decides nothing."""
_MODULES, _IMPORTS = "u:\0env:modules", 1 << 26
"""The unit that names what a state's cells imported, and the bytes that an import of them counts."""
_COUNTS_AS = 4096
"""Bytes that a unit counts beside its size: many small ones take their time too."""
_LOST = 1 << 40
"""Bytes that a live value counts that this kernel would lose or lacks."""
_BOUND = 1 << 50
"""Bytes that a process counts which must be ended before it may serve: the last choice."""


@dataclass(slots=True)
class Held:
    """The engine's belief about one kernel. Updated by whoever has the kernel leased.

    `state` is the id of the state that the kernel holds exactly, None when it holds something else or nothing.
    `units` are those known to be in place. `bound` says why its process can serve no other line of states.
    """

    kernel_id: str
    state: int | None = None
    units: dict[str, Unit] = field(default_factory=dict)
    inputs: list[str] = field(default_factory=list)
    files: set[str] = field(default_factory=set)
    bound: list[str] = field(default_factory=list)
    stale: set[str] = field(default_factory=set)  # units that are in place with a content nobody knows
    ran: bool = False  # a cell
    pure: bool = True  # whether all cells that it ran led to what it holds

    def copy(self, kernel_id: str) -> Held:
        """The same of a kernel that is this one's copy."""
        return replace(
            self,
            kernel_id=kernel_id,
            units=dict(self.units),
            inputs=list(self.inputs),
            files=set(self.files),
            bound=list(self.bound),
            stale=set(self.stale),
        )

    def holds(self, state: State) -> bool:
        """Whether no switch is needed."""
        return self.state == state.id

    def has(self, units: Iterable[Unit]) -> bool:
        """Whether these are in place, and nothing that runs on can change them."""
        return not self.bound and all(
            unit.key in self.units and self.units[unit.key].digest == unit.digest for unit in units
        )

    def adopt(self, state: State, inputs: list[str]) -> None:
        """The kernel holds exactly this state now."""
        self.state = state.id
        self.units = dict(state.manifest.units)
        self.inputs = inputs
        self.stale.clear()

    def lack(self, names: Iterable[str]) -> None:
        """Values of these names could not be brought back here, though the state has them."""
        lost = set(names)
        for key in [key for key, unit in self.units.items() if lost.intersection(unit.names)]:
            del self.units[key]

    def spoil(self, keys: Iterable[str]) -> None:
        """A cell that left no state may have changed these units."""
        self.state = None
        for key in keys:
            self.units.pop(key, None)
            self.stale.add(key)


@dataclass(frozen=True, slots=True)
class Switch:
    """What one kernel lets go of and loads to hold another state."""

    drop: tuple[str, ...]
    load: tuple[Unit, ...]


def plan(held: Held, target: Manifest) -> Switch:
    """The least that makes a kernel hold `target`.

    A unit stays when it is the same and whatever it refers to stays: an instance whose class is loaded anew must be
    loaded anew too, to be an instance of that one class object.
    """
    load = {
        key
        for key, unit in target.units.items()
        if key not in held.units or held.units[key].digest != unit.digest
    }
    owner = {node: unit.key for unit in target.units.values() for node in unit.record["nodes"]}
    referring = [unit for unit in target.units.values() if unit.record["refs"] and unit.key not in load]
    grown = bool(load)
    while grown:
        more = {
            unit.key for unit in referring if any(owner.get(ref) in load for ref in unit.record["refs"])
        } - load
        load |= more
        grown = bool(more)
    drop = {key for key in held.units if key not in target.units or key in load} | held.stale
    return Switch(tuple(sorted(drop)), tuple(target.units[key] for key in target.units if key in load))


def cost(held: Held | None, state: State) -> float:
    """About the MiB to be loaded into a kernel before it holds the state, below 0 when it does."""
    if held is None:
        return float(sum(map(_weight, state.manifest.units.values())) // _STEP)
    if held.holds(state):
        return -1.0
    if held.bound:
        return float(_BOUND // _STEP)
    total = 0
    for key, unit in state.manifest.units.items():
        mine = held.units.get(key)
        if mine is None or mine.digest != unit.digest:
            lost = is_live(unit) and f":{held.kernel_id}:" not in unit.digest
            total += _LOST if lost else _weight(unit)
    return float(total // _STEP)


def _weight(unit: Unit) -> int:
    """About the bytes that loading a unit costs."""
    return unit.size + (_IMPORTS if unit.key == _MODULES else _COUNTS_AS)


def home_of_live(manifest: Manifest) -> str | None:
    """The kernel that holds the state's live values, when it has any."""
    for unit in manifest.units.values():
        if is_live(unit):
            return unit.digest.split(":")[1]
    return None
