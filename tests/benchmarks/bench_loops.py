"""What user code costs in the product's kernels, beside a plain ipykernel of the same hash seed.

    python -m tests.benchmarks.bench_loops [SEEDS [ROUNDS]]

Where a name falls in the namespace's dict depends on PYTHONHASHSEED, and a loop at top level looks its names up in
it: two kernels are comparable only when they share one. Each cell tells its own CPU seconds, the sides in turns; a
ratio is that of the best rounds, given as the median of the seeds and their range. A second plain kernel against the
first says how far two equal kernels lie apart.
"""

from __future__ import annotations

import contextlib
import statistics
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from bridge import Kernel, Settings
from bridge.store.home import Home
from tests.bare import bare_kernel

FUNCTIONS = """
limit = 5
def small(i):
    return i if i > limit else 0
def branches(n):
    t = 0
    for i in range(n):
        if i % 2:
            t += i
        else:
            t -= 1
    return t
def reads(n):
    t = 0
    for i in range(n):
        t += abs(i) + limit
    return t
"""
LOOPS = {
    "top level": "for i in range(1_000_000):\n    y = i",
    "top level, a branch": (
        "t = 0\nfor i in range(1_000_000):\n    if i % 2:\n        t += i\n    else:\n        t -= 1"
    ),
    "top level, calls a function": "t = 0\nfor i in range(1_000_000):\n    t += small(i)",
    "function, a branch": "branches(2_000_000)",
    "function, globals and builtins": "reads(1_500_000)",
}
_TIMED = "import time\nbegun = time.process_time()\n{}\nprint(time.process_time() - begun)"

Side = Callable[[str], float]


def compare(sides: Sequence[Side], rounds: int) -> dict[str, list[float]]:
    """By loop, for each side: the fewest CPU seconds."""
    found = {}
    for title, loop in LOOPS.items():
        cell = _TIMED.format(loop)
        turns = [[side(cell) for side in sides] for _round in range(rounds + 1)]
        found[title] = [min(column) for column in zip(*turns[1:], strict=True)]
    return found


@contextlib.contextmanager
def plain_side(seed: int) -> Iterator[Side]:
    """Runs cells in a plain ipykernel of that hash seed."""
    with bare_kernel(env={"PYTHONHASHSEED": str(seed)}) as kernel:
        kernel.run(FUNCTIONS)
        yield lambda cell: float(kernel.run(cell)[0]["text"])


@contextlib.contextmanager
def our_side(seed: int) -> Iterator[Side]:
    """Runs cells from one state of a home of that hash seed."""
    with tempfile.TemporaryDirectory() as home:
        Home.open(Path(home), environ={"PYTHONHASHSEED": str(seed)}).close()
        kernel = Kernel(Settings(home=Path(home), pool_size=1))
        try:
            kernel.execute(FUNCTIONS, "functions", "initial", "functions")

            def run(cell: str) -> float:
                reply = kernel.execute(cell, uuid.uuid4().hex, "functions")
                assert reply["error"] is None, reply["error"]
                return float(reply["output"][0]["text"])

            yield run
        finally:
            kernel.close()


def main(seeds: int = 8, rounds: int = 8) -> None:
    """Measures and prints a line per loop."""
    by_seed = []
    for seed in range(1, seeds + 1):
        with plain_side(seed) as plain, our_side(seed) as ours, plain_side(seed) as control:
            by_seed.append(compare((plain, ours, control), rounds))
    for title in LOOPS:
        bare, full, other = zip(*[each[title] for each in by_seed], strict=True)
        ratios = [a / b for a, b in zip(full, bare, strict=True)]
        noise = [a / b for a, b in zip(other, bare, strict=True)]
        print(
            f"{title:31} {statistics.median(ratios):.3f} x ({min(ratios):.3f}-{max(ratios):.3f}), "
            f"plain against plain {statistics.median(noise):.3f} x ({min(noise):.3f}-{max(noise):.3f}), "
            f"between seeds {max(bare) / min(bare):.3f} x"
        )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
