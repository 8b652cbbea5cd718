"""What forks give: kernels and branches from frozen processes, beside the store's way, a fresh start and the peer.

    .venv/bin/python -m tests.benchmarks.bench_forks

All sides take turns. Milliseconds are medians; a branch's are of the whole request, switch and cell, which reads
nothing of the state. `make bench` prints this table after the other one.
"""

from __future__ import annotations

import contextlib
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from bridge import Kernel, Settings
from tests.benchmarks.sides import Peer, memory_of
from tests.concurrency import until

TURNS = 7
STATES = {
    "a 512 MB array": "import numpy as np; a = np.ones(1 << 26)",
    "a dict of 300,000 lists": "d = {n: [n] for n in range(300_000)}",
    "100,000 instances": "class P:\n    def __init__(self, n): self.n = n\nps = [P(n) for n in range(100_000)]",
}
LIVE = (
    "import sqlite3; base = sqlite3.connect(':memory:'); base.execute('create table t (x)')\n"
    "steps = (n for n in range(9)); next(steps)"
)
PANDAS = "import pandas as pd; pd.DataFrame({'x': [1]})"


class Engine:
    """One of our engines, in process."""

    def __init__(self, **settings: object) -> None:
        self.kernel = Kernel(Settings(ephemeral=True, pool_size=2, **settings))  # type: ignore[arg-type]
        self._count = 0

    def run(self, code: str, state: str = "initial", new: str | None = None, **terms: object) -> float:
        """The milliseconds that a cell took, which must not fail."""
        self._count += 1
        started = time.perf_counter()
        reply = self.kernel.execute(code, f"e{self._count}", state, new, **terms)  # type: ignore[arg-type]
        assert reply["error"] is None, reply["error"]
        return 1000 * (time.perf_counter() - started)

    def hot(self, name: str) -> bool:
        described = self.kernel.get_state(name)
        return described is not None and bool(described["hot"])


@contextlib.contextmanager
def engines() -> Iterator[tuple[Engine, Engine, Engine]]:
    """One that forks and keeps hot states, one that forks alone, one that starts every kernel by itself."""
    made = Engine(), Engine(hot_states=0), Engine(fork=False)
    try:
        until(
            lambda: made[0].kernel.pool.preloads and made[1].kernel.pool.preloads, "libraries are loaded", 120
        )
        yield made
    finally:
        for engine in made:
            engine.kernel.close()


HEAD = "| ms | hot | store | no forks | peer |\n|---|--:|--:|--:|--:|"


@dataclass(frozen=True)
class Row:
    """One line of the table: the figures of those that have one."""

    what: str
    hot: float
    store: float | None = None
    no_forks: float | None = None
    peer: float | None = None

    def text(self) -> str:
        """The row in Markdown."""
        figures = self.hot, self.store, self.no_forks, self.peer
        shown = ("–" if each is None else f"{each:.0f}" for each in figures)
        return f"| {' | '.join((self.what, *shown))} |"


def starts(forking: Engine, plain: Engine) -> Iterator[Row]:
    """Kernels that never ran anything: all from the beginning, none kept warm."""
    from bridge.pool.pool import Pool

    def start(engine: Engine) -> float:
        pool: Pool = engine.kernel.pool
        started = time.perf_counter()
        kernel = pool._launch(pool._template())
        took = 1000 * (time.perf_counter() - started)
        pool.detach(kernel)
        pool.release(kernel)
        return took

    taken = [(start(forking), start(plain)) for _ in range(TURNS)]
    first, second = (statistics.median(side) for side in zip(*taken, strict=True))
    yield Row("kernel start", first, no_forks=second)
    pandas = [
        (forking.run(PANDAS, isolation="fresh"), plain.run(PANDAS, isolation="fresh")) for _ in range(TURNS)
    ]
    first, second = (statistics.median(side) for side in zip(*pandas, strict=True))
    yield Row("first pandas cell, in a kernel kept warm", first, no_forks=second)


def branches(hot: Engine, stored: Engine, plain: Engine, peer: Peer) -> Iterator[Row]:
    """The first cell of a branch, when every kernel holds something else."""
    for what, code in STATES.items():
        engines = hot, stored, plain
        for engine in engines:
            engine.run(code, new=what, hot=engine is hot)
        peer.connection.close()  # it has ended one that stood still for long
        theirs = peer.execute(code, "initial")
        taken: list[tuple[float, ...]] = []
        for _ in range(TURNS):
            for engine in engines:
                for _ in range(2):
                    engine.run("other = 1")
            peer.connection.close()
            started = time.perf_counter()
            peer.execute("y = 1", theirs)
            last = 1000 * (time.perf_counter() - started)
            taken.append((*(engine.run("y = 1", what) for engine in engines), last))
        yield Row(f"branch from {what}", *(statistics.median(side) for side in zip(*taken, strict=True)))
        for engine in engines:
            engine.kernel.reset()
        peer.connection.close()
        peer.reset()
    hot.run(LIVE, new="live", hot=True)
    taken_hot = []
    for _ in range(TURNS):
        taken_hot.append(hot.run("print(next(steps), base)", "live"))
    yield Row("branch from a connection and a generator", statistics.median(taken_hot))


def costs(hot: Engine) -> Iterator[Row]:
    """What a copy adds to the next cell when that comes at once, and the memory of eight."""
    for what, code in (
        ("a small kernel", "x = 1"),
        ("one of 1 GB", "import numpy as np; a = np.ones(1 << 27)"),
    ):
        hot.kernel.reset()
        hot.run(code, new="base", isolation="shared")
        with_copy, without = [], []
        for turn in range(TURNS):
            without.append(hot.run(f"y = {turn}", "base"))
            with_copy.append(hot.run(f"y = {turn}", "base", hot=True))
        yield Row(f"a copy of {what}", statistics.median(with_copy) - statistics.median(without))
    hot.kernel.reset()
    hot.run("import numpy as np; a = np.ones(1 << 27)", new="g0")
    before = memory_of(psutil.Process())
    for number in range(8):
        hot.run(f"a[{number}] = 2.0", f"g{number}", f"g{number + 1}", hot=True)
    added = memory_of(psutil.Process()) - before
    shares = [each.template.memory() for each in hot.kernel._hot._hot.values()]
    yield Row("what each of eight hot states of 1 GB adds to all memory, MB", added / 8e6)
    yield Row("its part of the pages, of which most are shared, MB", statistics.mean(shares) / 1e6)


def rows() -> Iterator[Row]:
    """All lines, as they are measured."""
    with tempfile.TemporaryDirectory() as folder, contextlib.closing(Peer(Path(folder))) as peer:
        peer.answer()
        with engines() as (hot, stored, plain):
            yield from starts(hot, plain)
            yield from branches(hot, stored, plain, peer)
            yield from costs(hot)


def main() -> list[Row]:
    """Print the table; its lines."""
    print(HEAD, flush=True)
    found = []
    for row in rows():
        print(row.text(), flush=True)
        found.append(row)
    return found


if __name__ == "__main__":
    main()
