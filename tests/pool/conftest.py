"""Pools of real kernels.

`BRIDGE_TEST_KERNEL` names an installed kernelspec to run these tests on, such as one of an older ipykernel.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bridge.pool import KernelProcess, Pool, PoolSettings

KERNEL_NAME = os.environ.get("BRIDGE_TEST_KERNEL") or None

MakePool = Callable[..., Pool]


@pytest.fixture
def make_pool(tmp_path: Path) -> Iterator[MakePool]:
    """Makes started pools; each is shut down at the end and must have left no file."""
    pools: list[Pool] = []
    logs = tmp_path / "logs"

    def make(prepare: Callable[[KernelProcess], None] = lambda kernel: None, **settings: Any) -> Pool:
        given: dict[str, Any] = {"size": 1, "log_dir": logs, "kernel_name": KERNEL_NAME, **settings}
        pool = Pool(PoolSettings(**given), prepare)
        pools.append(pool)
        pool.start()
        return pool

    yield make
    for pool in pools:
        pool.shutdown()
    assert not list(logs.glob("*"))


@pytest.fixture(scope="module")
def shared_pool(tmp_path_factory: pytest.TempPathFactory, nothing_left_behind: None) -> Iterator[Pool]:
    """One pool for a module's tests that only run cells."""
    pool = Pool(PoolSettings(size=1, log_dir=tmp_path_factory.mktemp("logs"), kernel_name=KERNEL_NAME))
    pool.start()
    yield pool
    pool.shutdown()


@pytest.fixture
def kernel(shared_pool: Pool) -> Iterator[KernelProcess]:
    """A leased kernel that may be killed: the pool replaces it."""
    leased = shared_pool.lease()
    yield leased
    if not leased.execute("", on_iopub=lambda message: None, on_input=lambda *_: None).wait(3):
        leased.kill()  # a cell that a failed test left running must not be the next test's trouble
    shared_pool.release(leased)
