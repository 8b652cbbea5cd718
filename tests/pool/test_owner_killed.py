"""A pool whose owner is killed without a word: its kernels, their children and its files go too."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest

from tests.concurrency import left_of
from tests.pool.conftest import KERNEL_NAME

GONE_WITHIN = 3.0
"""Seconds after the owner's death in which its kernels must be gone."""

OWNER = """
import sys, threading
from pathlib import Path
from bridge.pool import Pool, PoolSettings
sys.path.insert(0, {root!r})
from tests.pool.helpers import Cell
pool = Pool(PoolSettings(size=1, log_dir=Path({logs!r}), kernel_name={name!r}))
pool.start()
if {code!r} != "starting":
    cell = Cell(pool.lease(), {code!r}, ["go"]).until("\\n")
    print(cell.text.split()[-1], flush=True)
else:
    while not any(kernel["pid"] for kernel in pool.status()):
        threading.Event().wait(0.001)
    print(pool.status()[0]["pid"], flush=True)
threading.Event().wait()
"""

PID = "import os, subprocess; print(os.getpid(), flush=True)\n"


@pytest.mark.skipif(os.name != "posix", reason="the platform has no SIGKILL")
@pytest.mark.parametrize(
    "code",
    [
        "import os; print(os.getpid())",
        PID + "while True: pass",
        PID + "input(); import itertools; sum(itertools.repeat(1, 10**11))",
        PID.replace("os.getpid()", "subprocess.Popen(['sleep', '600']).pid"),
        "starting",
    ],
    ids=["idle", "busy in Python", "busy in C", "child of the kernel", "starting"],
)
def test_kernels_end_with_an_owner_that_is_killed(code: str, tmp_path: Path) -> None:
    root = str(Path(__file__).resolve().parents[2])
    script = OWNER.format(root=root, logs=str(tmp_path / "logs"), name=KERNEL_NAME, code=code)
    before = set(os.listdir(tempfile.gettempdir()))
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, cwd=root, text=True
    ) as owner:
        assert owner.stdout is not None
        watched = psutil.Process(int(owner.stdout.readline()))
        family = [watched, *psutil.Process(owner.pid).children(recursive=True)]
        owner.send_signal(signal.SIGKILL)
        owner.wait()
    alive = left_of(family, GONE_WITHIN)
    for process in alive:
        process.kill()
    assert alive == []
    assert list((tmp_path / "logs").glob("*")) == []
    assert set(os.listdir(tempfile.gettempdir())) <= before
