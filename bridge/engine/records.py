"""Between the helper's records and the store's units. Pure."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from bridge.store.manifest import Manifest, Unit

Record = dict[str, Any]
_APART = ("key", "digest", "data", "size")
LARGE = 64 * 1024
"""Bytes from which on a variable is listed as a large one."""


def unit_of(record: Record) -> Unit:
    """The store's unit for a record that the helper made."""
    data = record.get("data")
    stored = [*record.get("arrays", ()), *record.get("buffers", ())]
    blobs = (*record.get("chunks", ()), *(address for item in stored for address in item["chunks"]))
    return Unit(
        key=record["key"],
        digest=record["digest"],
        names=tuple(root for root in record["roots"] if is_name(root)),
        record={name: value for name, value in record.items() if name not in _APART},
        data=base64.b64decode(data) if data is not None else None,
        blobs=blobs,
        size=record["size"],
    )


def shipment(units: Iterable[Unit]) -> tuple[list[Record], list[bytes]]:
    """The records to load, each with the number of its buffer, and the buffers."""
    records: list[Record] = []
    buffers: list[bytes] = []
    for unit in units:
        record = {**unit.record, "key": unit.key, "digest": unit.digest, "buffer": None}
        if unit.data is not None:
            record["buffer"] = len(buffers)
            buffers.append(unit.data)
        records.append(record)
    return records, buffers


def is_name(root: str) -> bool:
    """Whether a root is a name of the namespace, and not one of the helper's own."""
    return not root.startswith("\0")


def is_user_name(name: str) -> bool:
    """Whether a name shows in symbol lists and groups: a user's dunder names do not."""
    return not (name.startswith("__") and name.endswith("__"))


def is_live(unit: Unit) -> bool:
    """Whether a unit's value could not be saved and lives in one kernel alone."""
    return unit.record.get("engine") == "live"


def successor(before: Manifest, report: Mapping[str, Any]) -> Manifest:
    """The manifest of the state that a cell made, from the one it started from and the helper's report."""
    units = dict(before.units)
    for key in report["removed"]:
        units.pop(key, None)
    for record in report["units"]:
        units[record["key"]] = unit_of(record)
    order = report.get("order")
    return Manifest(units, tuple(order) if order is not None else before.order)


def meta(manifest: Manifest) -> dict[str, tuple[str, str | None]]:
    """For each name its type's name and, of a scalar, its repr; in the namespace's order."""
    found = {}
    for unit in manifest.units.values():
        for root, (kind, text) in unit.record.get("meta", {}).items():
            if is_name(root):
                found[root] = (kind, text)
    return {name: found[name] for name in manifest.order if name in found}


def unit_of_name(manifest: Manifest, name: str) -> Unit | None:
    """The unit that binds a name."""
    return next((unit for unit in manifest.units.values() if name in unit.names), None)


def skipped(manifest: Manifest) -> list[dict[str, str]]:
    """What the state could not save, with the reason: `{"name", "reason"}`."""
    found = []
    for unit in manifest.units.values():
        if is_live(unit):
            reason, path = str(unit.record["reason"]), str(unit.record["path"])
            for root in unit.names or unit.record["nodes"]:
                where = f"{path}: " if path != root else ""
                found.append({"name": root, "reason": where + reason})
        found.extend(unit.record.get("problems", ()))
    return found


def largest(manifest: Manifest) -> list[dict[str, Any]]:
    """Up to five of the largest saved variables of at least LARGE bytes, biggest first."""
    sizes = [
        (unit.size, unit.names[0]) for unit in manifest.units.values() if unit.names and unit.size >= LARGE
    ]
    return [{"name": name, "bytes": size} for size, name in sorted(sizes, key=lambda pair: -pair[0])[:5]]


def changed_names(before: Manifest, after: Manifest) -> list[str]:
    """The names of both whose content differs, in themselves or in what they refer to: a closure's variable, say."""
    changed = {
        key
        for key, unit in after.units.items()
        if key not in before.units or before.units[key].digest != unit.digest
    }
    nodes = {node for key in changed for node in after.units[key].record["nodes"]}
    while nodes:
        found = [
            unit
            for unit in after.units.values()
            if unit.key not in changed and not nodes.isdisjoint(unit.record["refs"])
        ]
        changed.update(unit.key for unit in found)
        nodes = {node for unit in found for node in unit.record["nodes"]}
    if not changed:
        return []
    old = {name for unit in before.units.values() for name in unit.names}
    nodes = {node for key in changed for node in after.units[key].record["nodes"]}
    joined = (after.units[key] for key in changed if not after.units[key].record["nodes"])
    same = {
        name
        for unit in joined
        if nodes.isdisjoint(unit.record["refs"])
        for name in _only_joined(before, unit)
    }
    names = (name for key in changed for name in after.units[key].names if name in old and name not in same)
    return sorted(name for name in names if is_user_name(name))


def _only_joined(before: Manifest, unit: Unit) -> Iterator[str]:
    """The roots of a unit that are as they were and share an object with something new: a value that was shown, say."""
    joined = unit.record.get("joined") or ()
    digests = {tuple(each.record["roots"]): each.digest for each in before.units.values()} if joined else {}
    for roots, digest in joined:
        if digests.get(tuple(roots)) == digest:
            yield from roots


def closure(manifest: Manifest, names: Iterable[str]) -> list[Unit]:
    """The units of these names with all that they refer to, and those whose names their functions look up."""
    by_name = {name: unit for unit in manifest.units.values() for name in unit.names}
    by_node = {node: unit for unit in manifest.units.values() for node in unit.record["nodes"]}
    found: dict[str, Unit] = {}
    waiting = [by_name[name] for name in names if name in by_name]
    while waiting:
        unit = waiting.pop()
        if unit.key in found:
            continue
        found[unit.key] = unit
        waiting.extend(by_node[node] for node in unit.record["refs"] if node in by_node)
        waiting.extend(by_name[name] for name in unit.record.get("globals", ()) if name in by_name)
    return list(found.values())
