"""States made, or looked into, without running a cell: a combination of two, or several seen from one cell."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

from bridge.engine import helper, records
from bridge.pool import KernelProcess
from bridge.store.manifest import Manifest, State, Unit


def combine(
    source: Manifest, source_vars: Iterable[str], entry: Manifest, input_vars: Iterable[str]
) -> Manifest:
    """`source_vars` of one manifest with `input_vars` of another; the first wins, and its environment is kept.

    No bytes move: a unit of which only some names are wanted is taken with the others left out at its loading.
    Pure.
    """
    wanted = set(source_vars)
    units: dict[str, Unit] = {}
    for unit in source.units.values():
        _take(
            units,
            unit,
            {root for root in unit.record["roots"] if root in wanted or not records.is_name(root)},
        )
    taken = {name for unit in units.values() for name in unit.names}
    others = set(input_vars) - taken
    for unit in entry.units.values():
        _take(units, unit, {root for root in unit.record["roots"] if root in others})
    _complete(units, (source, entry))
    present = {name for unit in units.values() for name in unit.names}
    order = [name for name in dict.fromkeys((*entry.order, *source.order)) if name in present]
    return Manifest(units, tuple(order))


def _take(units: dict[str, Unit], unit: Unit, roots: set[str]) -> None:
    """Add a unit with these of its roots; not at all when there are none."""
    if roots:
        part = _part(unit, roots)
        units[part.key] = part


def _part(unit: Unit, roots: set[str]) -> Unit:
    """The unit with only these roots: the same pickle, the other roots left out when it is loaded."""
    if len(roots) == len(unit.record["roots"]):
        return unit
    kept = sorted(roots)
    identity = "\0".join((unit.digest, *kept)).encode("utf-8", "surrogatepass")
    record = {**unit.record, "roots": kept}
    record["meta"] = {root: value for root, value in unit.record.get("meta", {}).items() if root in roots}
    return Unit(
        key=f"u:{kept[0]}" if kept else f"n:{min(unit.record['nodes'])}",
        digest=unit.digest if records.is_live(unit) else "p" + hashlib.sha256(identity).hexdigest(),
        names=tuple(root for root in kept if records.is_name(root)),
        record=record,
        data=unit.data,
        blobs=unit.blobs,
        size=unit.size,
    )


def _complete(units: dict[str, Unit], manifests: tuple[Manifest, ...]) -> None:
    """Add the units that own what the chosen ones refer to, without their names."""
    owners: dict[str, Unit] = {}
    for manifest in reversed(manifests):
        owners.update({node: unit for unit in manifest.units.values() for node in unit.record["nodes"]})
    waiting = list(units.values())
    owned = {node for unit in waiting for node in unit.record["nodes"]}
    while waiting:
        for node in waiting.pop().record["refs"]:
            if node not in owned and node in owners:
                part = _part(owners[node], set())
                units[part.key] = part
                owned.update(part.record["nodes"])
                waiting.append(part)


def give_aliases(kernel: KernelProcess, states: Mapping[str, State]) -> None:
    """Let the next cell in this kernel see each state under its alias; an empty mapping takes them away."""
    buffers: list[bytes] = []
    aliases: dict[str, Any] = {}
    for alias, state in states.items():
        shipped, data = records.shipment(state.manifest.units.values())
        for record in shipped:
            if record["buffer"] is not None:
                record["buffer"] += len(buffers)
        buffers.extend(data)
        aliases[alias] = shipped
    helper.ask(kernel, {"op": "aliases", "aliases": aliases}, buffers)
