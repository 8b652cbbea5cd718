"""What a kernel holds: its units, the nodes that they own, and the pieces that their arrays consist of."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from . import atoms


@dataclass(slots=True)
class Unit:
    """What the kernel knows of a unit that it holds."""

    key: str
    roots: tuple[str, ...]
    nodes: tuple[str, ...]
    refs: frozenset[str]
    digest: str
    stamp: Any = None  # equal stamps: a function that cannot have changed
    live: bool = False
    pieces: Sequence[atoms.Piece] = ()
    told: int | None = None  # the id of its one value, if `refs` name all that hangs on it beside data


@dataclass(slots=True)
class Ledger:
    """What the kernel holds: its units, which root is in which, the nodes alive here, and the units' pieces."""

    units: dict[str, Unit] = field(default_factory=dict)
    of_root: dict[str, str] = field(default_factory=dict)
    nodes: dict[str, Any] = field(default_factory=dict)
    key_of: dict[int, str] = field(default_factory=dict)  # id of a node -> its key
    pieces: atoms.Pieces = field(default_factory=weakref.WeakValueDictionary)

    def add(self, unit: Unit) -> None:
        """Record a unit, in place of one of the same key."""
        self.units[unit.key] = unit
        for root in unit.roots:
            self.of_root[root] = unit.key

    def remove(self, key: str) -> None:
        """Forget a unit; its nodes stay known until `forget_nodes`."""
        unit = self.units.pop(key)
        for root in unit.roots:
            if self.of_root.get(root) == key:
                del self.of_root[root]

    def untell(self) -> None:
        """Other code than cells may change any value: what pickles told of these holds no more."""
        for unit in self.units.values():
            unit.told = None

    def add_node(self, key: str, obj: Any) -> None:
        """Record a class, function or cell that is alive here."""
        self.nodes[key] = obj
        self.key_of[id(obj)] = key

    def node_key(self, obj: Any) -> str | None:
        """The key of an object that is a node here."""
        key = self.key_of.get(id(obj))
        return key if key is not None and self.nodes.get(key) is obj else None

    def forget_nodes(self) -> None:
        """Drop the nodes that no unit owns any more."""
        owned = {key for unit in self.units.values() for key in unit.nodes}
        for key in self.nodes.keys() - owned:
            obj = self.nodes.pop(key)
            if self.key_of.get(id(obj)) == key:
                del self.key_of[id(obj)]

    def owners(self) -> dict[str, str]:
        """The unit that owns each node."""
        return {node: unit.key for unit in self.units.values() for node in unit.nodes}
