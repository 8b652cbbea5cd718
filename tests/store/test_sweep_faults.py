"""Sweeps and evictions that are killed at any moment, beside a process that stores, labels and deletes."""

from __future__ import annotations

import contextlib
import random
import subprocess
import threading
from pathlib import Path

import pytest

from bridge.errors import StateEvicted
from bridge.store.store import Store
from tests.store.support import invariants, opened, worker

SECONDS_ALIVE = 0.15
"""The longest that a sweeping process lives, so that it is killed in all its steps."""


class Told:
    """What a `churn` worker said: the names that are there, those that may be going, and the labels."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.names: set[str] = set()
        self.labels: set[str] = set()
        self._at_work = threading.Event()
        self._process = process
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            sign, name = line[0], line[1:].strip()
            if sign == "-":
                self.names.discard(name)
                self._at_work.set()
            else:
                (self.names if sign == "+" else self.labels).add(name)

    def wait(self) -> None:
        """Until it deletes states too."""
        assert self._at_work.wait(60)

    def end(self) -> None:
        """Kill the worker, and hear all that it said."""
        self._process.kill()
        self._reader.join(30)


def sweep_and_kill(path: Path, limit: int, times: int) -> int:
    """Have the home swept by one process after the other, each killed in the middle; gives the rounds begun."""
    rounds = 0
    for _time in range(times):
        with worker("free_forever", path, limit) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "round\n"
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(random.uniform(0, SECONDS_ALIVE))
            process.kill()
            rounds += 1 + process.communicate(timeout=30)[0].count("round")
    return rounds


def whole(store: Store, name: str) -> bool:
    """Whether the state is there with all its blobs; False for an evicted one."""
    try:
        state = store.find("w", name)
    except StateEvicted:
        return False
    assert state is not None, name
    blobs = [address for unit in state.manifest.units.values() for address in unit.blobs]
    assert len(blobs) == 2, name
    assert all(map(store.blobs.has, blobs)), name
    return True


@pytest.mark.parametrize("times", [1, pytest.param(60, marks=pytest.mark.soak)])
@pytest.mark.parametrize("limit", [0, 100_000], ids=["sweeps", "evictions"])
def test_a_kill_at_any_moment_costs_no_state_and_leaves_a_whole_home(
    path: Path, limit: int, times: int
) -> None:
    with worker("churn", path, "w") as process:
        told = Told(process)
        try:
            told.wait()
            assert sweep_and_kill(path, limit, times) >= times
        finally:
            told.end()
    assert len(told.names) > 5
    with opened(path) as store:
        kept = [name for name in told.names if whole(store, name)]
        if not limit:
            assert len(kept) == len(told.names)
        assert all(whole(store, name) for name in told.labels)
        store.clear("w", keep=())
        store.collect(grace=0, strays=0)
        assert list(store.blobs.list()) == []
    invariants(path)
