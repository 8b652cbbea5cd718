"""Questions about states. What the store knows is answered from it; the rest is asked of an idle kernel once.

An answer depends on content alone, so it is kept under the content's address and serves every state that holds it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import Any

from bridge.engine import helper, records
from bridge.engine.definitions import definitions
from bridge.outputs.limits import Limits, fit_bundle
from bridge.pool import KernelProcess
from bridge.store.manifest import Manifest, State, Unit
from bridge.store.names import Page
from bridge.store.store import Store

Reply = dict[str, Any]
Ask = Callable[[State, Callable[[KernelProcess], Reply]], Reply]


class Content:
    """The content addresses of a manifest's units, what they refer to included."""

    def __init__(self, manifest: Manifest) -> None:
        self._owner = {node: unit for unit in manifest.units.values() for node in unit.record["nodes"]}
        self._known: dict[str, str] = {}

    def key(self, unit: Unit, name: str = "") -> str:
        """The address of a unit's content; with `name`, of that name in it."""
        if unit.key not in self._known:
            digests = sorted(one.digest for one in self._reach(unit).values())
            self._known[unit.key] = hashlib.sha256("\0".join((unit.digest, *digests)).encode()).hexdigest()
        return f"{self._known[unit.key]} {name}" if name else self._known[unit.key]

    def _reach(self, unit: Unit) -> dict[str, Unit]:
        found: dict[str, Unit] = {}
        waiting = [unit]
        while waiting:
            for node in waiting.pop().record["refs"]:
                owner = self._owner.get(node)
                if owner is not None and owner.key not in found:
                    found[owner.key] = owner
                    waiting.append(owner)
        return found


def _stand_in(key: str) -> str:
    """64 hex digits for a value whose content cannot be told: those of the bytes it is stored as, or of its token."""
    return hashlib.sha256(f"undefined {key}".encode()).hexdigest()


def _user_names(unit: Unit) -> list[str]:
    return [name for name in unit.names if records.is_user_name(name)]


class Queries:
    """Questions about the states of a store; `ask` has an idle kernel asked."""

    def __init__(self, store: Store, workspace: str, ask: Ask) -> None:
        self._store = store
        self._workspace = workspace
        self._ask = ask

    def details(self, workspace: str, page: Page) -> list[Reply]:
        """Each state of a workspace ("*": of all), oldest first, with its parent's name, timestamp, code and bytes."""
        fields = {
            "name": "name",
            "parent_name": "parent",
            "created": "timestamp",
            "code": "code",
            "bytes": "bytes",
        }
        found = []
        for row in self._store.details(workspace, page):
            state = {ours: row[theirs] for theirs, ours in fields.items()}
            if workspace == "*":
                state["name"] = f"{row['workspace']}:{row['name']}"
            found.append(state)
        return found

    def _inspect(self, state: State, names: Iterable[str], **wanted: Any) -> Reply:
        """Load what these names need in an idle kernel, in a namespace apart, and ask.

        Contents that a kernel has in place it can often tell without that.
        """
        units = [unit for unit in records.closure(state.manifest, names) if not records.is_live(unit)]

        def ask(process: KernelProcess) -> Reply:
            if wanted.keys() <= {"hashes", "groups"} and process.held.has(units):
                reply = helper.ask(process, {"op": "inspect_here", **wanted})
                if reply["known"]:
                    return reply
            shipped, buffers = records.shipment(units)
            return helper.ask(process, {"op": "inspect", "load": shipped, **wanted}, buffers)

        return self._ask(state, ask)

    def hashes(self, state: State, symbols: list[str]) -> Reply:
        """A hash of each symbol's content; None for one that is not a variable of the state."""
        content = Content(state.manifest)
        units = {name: unit for unit in state.manifest.units.values() for name in unit.names}
        found: Reply = {}
        unknown = []
        for symbol in symbols:
            unit = units.get(symbol)
            if unit is None:
                found[symbol] = None
            elif records.is_live(unit):
                found[symbol] = _stand_in(content.key(unit, symbol))
            else:
                found[symbol] = self._store.cache_get("hash", content.key(unit, symbol))
                if found[symbol] is None:
                    unknown.append(symbol)
        if unknown:
            reply = self._inspect(state, unknown, hashes=unknown)
            for symbol in unknown:
                key = content.key(units[symbol], symbol)
                found[symbol] = reply.get("hashes", {}).get(symbol) or _stand_in(key)
                self._store.cache_put("hash", key, found[symbol])
        return found

    def alias_groups(self, state: State) -> Reply:
        """Every user variable in exactly one group, and a fingerprint for each group, in the same order."""
        content = Content(state.manifest)
        found: list[Reply] = []
        unknown: list[Unit] = []
        for unit in state.manifest.units.values():
            names = _user_names(unit)
            if not names:
                continue
            if records.is_live(unit):
                found += [
                    {"names": [name], "fingerprint": _stand_in(content.key(unit, name))} for name in names
                ]
                continue
            known = self._store.cache_get("groups", content.key(unit))
            if known is None:
                unknown.append(unit)
            else:
                found += known
        if unknown:
            found += self._ask_groups(state, unknown, content)
        place = {name: number for number, name in enumerate(state.manifest.order)}
        found.sort(key=lambda group: min(place.get(name, 0) for name in group["names"]))
        return {
            "groups": [sorted(group["names"]) for group in found],
            "fingerprints": [group["fingerprint"] for group in found],
        }

    def _ask_groups(self, state: State, units: list[Unit], content: Content) -> list[Reply]:
        names = [name for unit in units for name in _user_names(unit)]
        reply = self._inspect(state, names, groups=[_user_names(unit) for unit in units])
        of_name = {name: group for group in reply.get("groups", []) for name in group["names"]}
        result = []
        for unit in units:
            groups: list[Reply] = []
            for name in _user_names(unit):
                group = of_name.get(name, {"names": [name], "fingerprint": None})
                if group not in groups:
                    groups.append(group)
            for group in groups:
                group["fingerprint"] = group["fingerprint"] or _stand_in(content.key(unit, group["names"][0]))
            self._store.cache_put("groups", content.key(unit), groups)
            result += groups
        return result

    def describe(self, name: str, state: State) -> Reply:
        """All that GET /states/NAME tells of a state."""
        manifest = state.manifest
        known = records.meta(manifest)
        parent = self._store.name_of(state.parent) if state.parent is not None else None
        live = [unit for unit in manifest.units.values() if records.is_live(unit)]
        names = [variable for variable in known if records.is_user_name(variable)]
        texts = self._reprs(state, names)
        return {
            "name": name,
            "timestamp": state.created,
            "variables": {
                variable: {"type": known[variable][0], "repr": texts[variable]} for variable in names
            },
            "modules": [variable for variable in names if known[variable][0] == "module"],
            "parent": None
            if parent is None
            else parent[1]
            if parent[0] == self._workspace
            else ":".join(parent),
            "code": state.code,
            "definitions": definitions(self._store.inputs(state.inputs), manifest.order),
            "live": sorted(variable for unit in live for variable in unit.names),
            "skipped": records.skipped(manifest),
            "bytes": sum(unit.size for unit in manifest.units.values()),
        }

    def _reprs(self, state: State, names: list[str]) -> dict[str, str]:
        """The repr of each name: a scalar's is in the manifest, another's is asked for once."""
        content = Content(state.manifest)
        units = {name: unit for unit in state.manifest.units.values() for name in unit.names}
        known = records.meta(state.manifest)
        found: dict[str, str] = {}
        unknown = []
        for name in names:
            text = known[name][1]
            if text is None and records.is_live(units[name]):
                text = f"<{known[name][0]}: not saved>"
            if text is None:
                text = self._store.cache_get("repr", content.key(units[name], name))
            if text is None:
                unknown.append(name)
            else:
                found[name] = text
        if unknown:
            reply = self._inspect(state, unknown, reprs=unknown)
            for name in unknown:
                failure = reply["failed"].get(name, "it could not be brought back")
                found[name] = reply.get("reprs", {}).get(name) or f"<{known[name][0]}: {failure}>"
                self._store.cache_put("repr", content.key(units[name], name), found[name])
        return found

    def bundle(self, state: State, variable: str) -> Reply | None:
        """A variable's display bundle, as the kernel would show it; None when the state has no such variable."""
        unit = records.unit_of_name(state.manifest, variable)
        if unit is None:
            return None
        if records.is_live(unit):
            return {"data": {"text/plain": f"<{unit.record['type']}: not saved>"}, "metadata": {}}
        reply = self._inspect(state, [variable], bundle=variable)
        if "bundle" not in reply:
            failure = reply["failed"].get(variable, "it could not be brought back")
            return {"data": {"text/plain": f"<{failure}>"}, "metadata": {}}
        data, metadata = fit_bundle(reply["bundle"]["data"], reply["bundle"]["metadata"], Limits())
        return {"data": data, "metadata": metadata}

    def diff(self, one: State, other: State) -> Reply:
        """The names added, removed and changed from one state to another. Exact: content decides, not bytes."""
        before = {name: unit for unit in one.manifest.units.values() for name in _user_names(unit)}
        after = {name: unit for unit in other.manifest.units.values() for name in _user_names(unit)}
        old, new = Content(one.manifest), Content(other.manifest)
        suspects = [
            name for name in after if name in before and old.key(before[name]) != new.key(after[name])
        ]
        old_hashes = self.hashes(one, suspects) if suspects else {}
        new_hashes = self.hashes(other, suspects) if suspects else {}
        return {
            "added": sorted(after.keys() - before.keys()),
            "removed": sorted(before.keys() - after.keys()),
            "changed": sorted(name for name in suspects if old_hashes[name] != new_hashes[name]),
        }
