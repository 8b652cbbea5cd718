"""Kernels that take more memory than they may, and memory that is not theirs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bridge.pool import memory
from tests.pool.conftest import MakePool
from tests.pool.helpers import Cell, run

LIMIT = 300 << 20
REASON = "it was over its memory limit of 300 MiB"

RUNAWAY = """
import os
kept = []
while True:
    kept.append(bytearray(10**7))
    os.pwrite(progress, b"%12d" % (len(kept) * 10**7), 0)
"""


def test_a_runaway_kernel_is_killed_near_its_limit_and_replaced(make_pool: MakePool, tmp_path: Path) -> None:
    pool = make_pool(memory_limit=LIMIT)
    kernel = pool.lease()
    reached = tmp_path / "reached"
    run(kernel, f"import os; progress = os.open({str(reached)!r}, os.O_RDWR | os.O_CREAT)")
    assert Cell(kernel, RUNAWAY).end().execution.died == REASON
    # Ten looks a second; a machine writes some gigabytes a second to new memory, and a busy one is slower to look.
    assert int(reached.read_text()) < LIMIT + (4 << 30)
    pool.release(kernel)
    other = pool.lease()
    assert other.id != kernel.id
    assert run(other, "print(1)").text == "1\n"
    pool.release(other)


def test_what_a_kernel_starts_counts_too(make_pool: MakePool) -> None:
    pool = make_pool(memory_limit=LIMIT)
    kernel = pool.lease()
    code = "import time; kept = b'x' * 400_000_000; time.sleep(60)"
    cell = run(kernel, f"import subprocess, sys; subprocess.run([sys.executable, '-c', {code!r}])")
    assert cell.execution.died == REASON
    pool.release(kernel)


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(
            "import mmap; data = mmap.mmap(-1, 10**9, mmap.MAP_PRIVATE)", id="reserved and never touched"
        ),
        pytest.param(
            "import mmap; data = mmap.mmap(f.fileno(), 0, mmap.MAP_PRIVATE); read = sum(data[::4096])",
            id="mapped copy-on-write and read",
        ),
        pytest.param(
            "import os; data = b'x' * 200_000_000\n"
            "pids = [os.fork() for _ in range(1)]\n"
            "if pids == [0]: time.sleep(60)",
            id="shared with a forked child",
        ),
    ],
)
def test_memory_that_is_not_a_kernels_own_does_not_count(
    make_pool: MakePool, tmp_path: Path, code: str
) -> None:
    pool = make_pool(memory_limit=LIMIT)
    kernel = pool.lease()
    large = tmp_path / "large"
    with large.open("wb") as file:
        os.truncate(file.fileno(), 400 << 20)
    run(kernel, f"import time; f = open({str(large)!r}, 'r+b')")
    assert run(kernel, code).error is None
    assert kernel.pid is not None
    assert not memory.is_over(kernel.pid, LIMIT)
    run(kernel, "import os, signal; [os.kill(pid, signal.SIGKILL) for pid in globals().get('pids', [])]")
    assert kernel.alive
    pool.release(kernel)


def test_written_pages_of_a_private_map_count(make_pool: MakePool) -> None:
    pool = make_pool()
    kernel = pool.lease()
    run(
        kernel, "import mmap; data = mmap.mmap(-1, 400 << 20, mmap.MAP_PRIVATE); data.write(bytes(400 << 20))"
    )
    assert kernel.pid is not None
    assert memory.is_over(kernel.pid, LIMIT)
    pool.release(kernel)


@pytest.mark.parametrize(
    ("size", "text"),
    [(4 << 30, "4 GiB"), (1536 << 20, "1.5 GiB"), (300 << 20, "300 MiB"), (1000, "1000 bytes")],
)
def test_sizes_in_words(size: int, text: str) -> None:
    assert memory.describe_size(size) == text
