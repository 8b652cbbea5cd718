"""One kernel's namespace as units: what a cell changed of them, and the way back.

`Snapshots.take` is called after a cell, `Snapshots.switch` before one that starts from another state.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from . import blobs, failures, reducers
from .items import ROOT as ENVIRONMENT
from .ledger import Ledger, Unit
from .live import LiveValues
from .loader import Loader, Source, told
from .parts import Part
from .patches import ROOT as PATCH
from .picklers import Spare
from .saver import Saver
from .stamps import plain_value, stamp_of

OUTPUT = "\0out:"  # the root of Out[n]


def is_name(root: str) -> bool:
    """Whether a root is a name of the namespace."""
    return not root.startswith("\0")


class Snapshots:
    """What the kernel holds, in units."""

    def __init__(
        self,
        scope: dict[str, Any],
        folder: blobs.Folder,
        kernel_id: str,
        learn: Callable[[types.CodeType], None] = lambda code: None,
    ) -> None:
        """`learn` is told the code of every function that a load brings."""
        self.scope = scope
        self.folder = folder
        self.learn = learn
        self.ledger = Ledger()
        self._spare = Spare()
        self.live = LiveValues(kernel_id)
        self.lost: set[str] = set()  # roots of the state at hand that could not be brought back here
        self._live_values: dict[str, dict[str, Any]] = {}  # token -> values of the live units that are held

    # After a cell.

    def take(
        self,
        values: dict[str, Any],
        rebound: set[str],
        touched: set[str] | None,
        read: set[str],
        nonce: str,
        made_in: str,
    ) -> dict[str, Any]:
        """Save what may differ from what is held. `values` are all roots; `touched` None means any of them.

        `touched` are those whose value can have been reached in any way, `read` those that the cell read.

        Gives {"units": new records, "removed": keys, "written": bytes}.
        """
        ledger = self.ledger
        self.lost -= values.keys()
        gone = ledger.of_root.keys() - values.keys() - self.lost
        reached = set(values) if touched is None else touched
        affected = self._affected(reached, rebound | gone, everything=touched is None)
        affected |= self._classes_of(rebound, values)
        before = {key: ledger.units[key] for key in affected}
        self._spare.keep_for(values.keys())
        saver = Saver(ledger, self.scope, self.folder, nonce, self._spare)
        try:
            finished = saver.save(self._parts(saver, affected, values, rebound))
            records = [self._record(saver, part, before, made_in) for part in finished]
        finally:
            saver.release()
        for key, unit in before.items():
            self._set_aside(unit, values, read)
            ledger.remove(key)
        for part, record in zip(finished, records, strict=True):
            self._enter(record, part)
        _leave_no_trace(ledger)
        removed = (before.keys() - {record["key"] for record in records}) | self._sweep()
        changed = [
            record
            for record in records
            if record["key"] not in removed
            and (record["key"] not in before or before[record["key"]].digest != record["digest"])
        ]
        return {"units": changed, "removed": sorted(removed), "written": self.folder.take_written()}

    def _enter(self, record: dict[str, Any], part: Part) -> None:
        """Note a unit that the kernel holds now."""
        nodes = tuple(record["nodes"])
        unit = Unit(record["key"], tuple(record["roots"]), nodes, frozenset(record["refs"]), record["digest"])
        unit.stamp = stamp_of(self.ledger.nodes[key] for key in nodes) if nodes else None
        unit.live = record["engine"] == "live"
        unit.pieces = part.pieces()
        unit.told = told(record, part.roots)
        self.ledger.add(unit)

    def dirty(self, values: dict[str, Any], rebound: set[str], touched: set[str] | None) -> list[str]:
        """The keys of the units that a failed cell may have changed."""
        gone = self.ledger.of_root.keys() - values.keys() - self.lost
        reached = set(values) if touched is None else touched
        affected = self._affected(reached, rebound | gone, everything=touched is None)
        for key in affected:
            self.ledger.units[key].told = None
        return sorted(affected)

    def hanging(self, name: str) -> list[Any] | None:
        """The classes and functions that a name's value leads to, if its pickle tells; None where one must look.

        It tells as long as nothing but cells has run since.
        """
        unit = self.ledger.units.get(self.ledger.of_root.get(name, ""))
        if unit is None or unit.told is None or unit.told != id(self.scope.get(name)):
            return None
        nodes = self.ledger.nodes
        return [nodes[key] for key in unit.refs] if unit.refs <= nodes.keys() else None

    def _affected(self, reached: set[str], replaced: set[str], *, everything: bool) -> set[str]:
        """The units that a cell may have changed: those it reached, and what they refer to, and those it replaced."""
        ledger = self.ledger
        affected = {ledger.of_root[root] for root in replaced if root in ledger.of_root}
        waiting = [key for root in reached if (key := ledger.of_root.get(root)) is not None]
        owners = ledger.owners() if any(ledger.units[key].refs for key in waiting) else {}
        if everything:
            waiting = [key for key, unit in ledger.units.items() if not self.lost.intersection(unit.roots)]
        met = set()
        while waiting:
            key = waiting.pop()
            if key in met:
                continue
            met.add(key)
            unit = ledger.units[key]
            waiting.extend(owners[node] for node in unit.refs if node in owners)
            if not self._unchanged(unit):
                affected.add(key)
        return affected

    def _classes_of(self, rebound: set[str], values: dict[str, Any]) -> set[str]:
        """The units of the classes whose methods got names: these become nodes, which the class must refer to."""
        ledger = self.ledger
        methods = {
            id(value)
            for root in rebound
            if type(value := values.get(root)) is types.FunctionType
            and (value.__qualname__ != value.__name__ or value.__name__ == "<lambda>")
            and ledger.node_key(value) is None
        }
        if not methods:
            return set()
        return {
            unit.key
            for unit in ledger.units.values()
            for node in unit.nodes
            if isinstance(cls := ledger.nodes.get(node), type)
            and any(id(value) in methods for value in vars(cls).values())
        }

    def _unchanged(self, unit: Unit) -> bool:
        """Whether reaching this unit cannot have changed it: a number, a text, a plain function."""
        if unit.live:
            return False
        if unit.nodes:
            if unit.stamp is None or any(
                self.scope.get(root) is None for root in unit.roots if is_name(root)
            ):
                return False
            return bool(stamp_of(self.ledger.nodes[key] for key in unit.nodes) == unit.stamp)
        if len(unit.roots) != 1 or not is_name(unit.roots[0]):
            # What belongs to the environment tells of its changes itself.
            return all(root.startswith((ENVIRONMENT, PATCH)) for root in unit.roots)
        return plain_value(self.scope.get(unit.roots[0]))

    def _parts(
        self, saver: Saver, affected: set[str], values: dict[str, Any], rebound: set[str]
    ) -> list[Part]:
        """What is to be pickled: affected units without what was replaced, and each replaced root by itself."""
        ledger = self.ledger
        parts: list[Part] = []
        homes: dict[str, Part] = {}  # node key -> the part that it will be in
        loose = {root for root in values if root not in ledger.of_root} | (rebound & values.keys())
        for key in sorted(affected):
            unit = ledger.units[key]
            kept = {root: values[root] for root in unit.roots if root in values and root not in loose}
            part = Part(kept, {node: ledger.nodes[node] for node in unit.nodes})
            if part.roots or part.nodes:
                parts.append(part)
            homes.update(dict.fromkeys(part.nodes, part))
        for root in sorted(loose):
            value = values[root]
            if issubclass(type(value), (type, types.FunctionType)) and not reducers.by_reference(value):
                node = ledger.node_key(value)
                if node is None and not reducers.is_builtin(value):
                    part = Part({root: value})
                    node = saver.new_node(value, part)
                    homes[node] = part
                    parts.append(part)
                    continue
                if node in homes:
                    homes[node].roots[root] = value
                    continue
            parts.append(Part({root: value}))
        return parts

    def _record(self, saver: Saver, part: Part, before: dict[str, Unit], made_in: str) -> dict[str, Any]:
        """The record of a part, or of the live value that it turned out to be."""
        if part.failure is None:
            try:
                return saver.record(part)
            except OSError as error:  # the disk is full: this unit is lost to other kernels, not the state
                part.failure = failures.unwritten(error)
        roots = sorted(part.roots)
        name = roots[0] if roots else min(part.nodes)
        value = part.roots[name] if roots else part.nodes[name]
        path, reason = failures.locate(name, value, lambda inner: saver.failure_of(inner, part))
        key = f"u:{name}" if roots else f"n:{name}"
        old = before.get(key)
        before_token = old.digest if old is not None and old.live else None
        if before_token is not None and self._live_values.get(before_token, {}).get(name) is not value:
            before_token = None  # the name was bound to another object
        token = self.live.token(value, before_token)
        self._live_values[token] = dict(part.roots) or dict(part.nodes)
        return {
            "key": key,
            "roots": roots,
            "nodes": sorted(part.nodes),
            "refs": [],
            "files": [],
            "globals": [],
            "engine": "live",
            "meta": {root: failures.summary(inner) for root, inner in part.roots.items()},
            "reason": part.failure if reason is None else reason,
            "path": path,
            "type": type(value).__name__,
            "made_in": made_in,
            "digest": token,
            "size": 0,
        }

    def _set_aside(self, unit: Unit, values: dict[str, Any], read: set[str]) -> None:
        """Keep a live value for the older state when its name alone has gone to another object."""
        held = self._live_values.get(unit.digest) if unit.live else None
        if held is None or all(values.get(root) is value for root, value in held.items()):
            return
        if not read.intersection(unit.roots) or self.live.unmoved(unit.digest, held):
            self.live.keep(unit.digest, held)

    def _sweep(self) -> set[str]:
        """Forget the node units that nothing refers to any more; gives their keys."""
        ledger = self.ledger
        owners = ledger.owners()
        waiting = [unit for unit in ledger.units.values() if unit.roots]
        used = {unit.key for unit in waiting}
        while waiting:
            for node in waiting.pop().refs:
                owner = owners.get(node)
                if owner is not None and owner not in used:
                    used.add(owner)
                    waiting.append(ledger.units[owner])
        unused = ledger.units.keys() - used
        for key in unused:
            ledger.remove(key)
        ledger.forget_nodes()
        self._live_values = {
            unit.digest: self._live_values[unit.digest]
            for unit in ledger.units.values()
            if unit.live and unit.digest in self._live_values
        }
        return unused

    # To another state.

    def drop(self, keys: list[str]) -> set[str]:
        """Let go of these units (live values are kept aside); gives the roots that they bound."""
        roots: set[str] = set()
        for key in keys:
            unit = self.ledger.units.get(key)
            if unit is None:
                continue
            roots.update(unit.roots)
            self.lost.difference_update(unit.roots)
            if unit.live and unit.digest in self._live_values:
                self.live.keep(unit.digest, self._live_values.pop(unit.digest))
            self.ledger.remove(key)
        self.ledger.forget_nodes()
        return roots

    def load(self, sources: list[Source]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Load these units: the values of their roots, and what could not be had."""
        stored = [source for source in sources if source.record["engine"] != "live"]
        loader = Loader(self.ledger, self.scope, self.folder)
        loader.load(stored)
        for code in loader.codes:
            self.learn(code)
        values: dict[str, Any] = dict(loader.values)
        failed: list[dict[str, Any]] = list(loader.failed)
        for source in sources:
            record = source.record
            if record["engine"] != "live":
                continue
            kept = self.live.give(record["digest"])
            if kept is None:
                failed += [
                    {"name": root, "reason": record["reason"], "live": record} for root in record["roots"]
                ]
            else:
                values.update(kept)
                self._live_values[record["digest"]] = kept
            unit = Unit(record["key"], tuple(record["roots"]), (), frozenset(), record["digest"], live=True)
            self.ledger.add(unit)
        self.lost.update(lost["name"] for lost in failed)
        return values, failed


def _leave_no_trace(ledger: Ledger) -> None:
    """Take out of the notebook's classes what pickling notes there for itself (`copyreg._slotnames`)."""
    for obj in ledger.nodes.values():
        if isinstance(obj, type) and "__slotnames__" in obj.__dict__:
            type.__delattr__(obj, "__slotnames__")
