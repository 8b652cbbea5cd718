"""States that go from one home to another in a file."""

from __future__ import annotations

from pathlib import Path

from bridge.errors import StateNotFound
from bridge.store.archive import Archive, Result, write
from bridge.store.manifest import State
from bridge.store.store import Store
from bridge.store.sweep import Progress


def export_state(store: Store, workspace: str, name: str, target: Path, progress: Progress) -> int:
    """Write the state of that name to a new file; gives its size in bytes. StateNotFound, ArchiveError, HomeDamaged."""
    state = store.find(workspace, name)
    if state is None:
        raise StateNotFound(f"there is no state named {name!r}")
    with store.pin(state):
        return write(store, name, state, target, _sources(store, state), progress)


def import_state(store: Store, source: Path, workspace: str, name: str | None, progress: Progress) -> str:
    """Store the state in a file, under its own name unless told another; gives that. ArchiveError, Conflict."""
    with Archive(source) as archive:
        chosen = name or archive.name
        archive.load(store, workspace, chosen, progress)
        return chosen


def _sources(store: Store, state: State) -> list[Result]:
    """What the home knows of the texts that the state's functions come from: some were no cells of its line."""
    files = {file for unit in state.manifest.units.values() for file in unit.record.get("files", ())}
    found = ((file, store.cache_get("cell", file)) for file in sorted(files))
    return [("cell", file, cell) for file, cell in found if cell is not None]
