"""Units, manifests and states for the tests of the store, and its worker processes."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bridge.store.home import Home
from bridge.store.manifest import Manifest, State, Unit
from bridge.store.store import Store

ROOT = Path(__file__).resolve().parents[2]


def unit(key: str, data: bytes | None = b"data", blobs: tuple[str, ...] = (), **record: Any) -> Unit:
    """A unit that binds one name."""
    return Unit(key, f"digest of {key} {data!r} {blobs}", (key,), record, data, blobs, len(data or b""))


def manifest(*units: Unit) -> Manifest:
    """A manifest of these units, in this order."""
    return Manifest({each.key: each for each in units}, tuple(name for each in units for name in each.names))


def put(store: Store, workspace: str, name: str, *units: Unit, **fields: Any) -> State:
    """Store a state of these units; fields not given are plain."""
    plain: dict[str, Any] = {"parent": None, "code": f"{name} = 1", "inputs": None, "info": {"count": 1}}
    return store.put(workspace, name, manifest=manifest(*units), **(plain | fields))


def invariants(path: Path) -> None:
    """Fails unless every state of the home can be read whole and everything that it needs is there."""
    with opened(path) as store:
        for space in store.workspaces():
            for name in store.names(space["name"]):
                state = store.find(space["name"], name)
                assert state is not None, name
                missing = [
                    address
                    for unit in state.manifest.units.values()
                    for address in unit.blobs
                    if not store.blobs.has(address)
                ]
                assert not missing, f"{space['name']}:{name} lacks {missing}"
                store.inputs(state.inputs)
    connection = sqlite3.connect(path / "states.sqlite")
    try:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        dangling = "SELECT COUNT(*) FROM names WHERE state NOT IN (SELECT id FROM states)"
        assert connection.execute(dangling).fetchone() == (0,)
    finally:
        connection.close()


@contextmanager
def opened(path: Path) -> Iterator[Store]:
    """A store on the home at `path`, closed at the end."""
    home = Home.open(path)
    store = Store(home)
    try:
        yield store
    finally:
        store.close()
        home.close()


@contextmanager
def worker(*arguments: object) -> Iterator[subprocess.Popen[str]]:
    """A process of `tests/store/worker.py`, killed at the end if it still runs."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.store.worker", *map(str, arguments)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()
