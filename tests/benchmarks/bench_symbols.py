"""What the symbol lists cost: `python tests/benchmarks/bench_symbols.py`.

1. begin + compile + end of a tiny cell in a namespace of 1,000 names, beside the same cell without a tracker.
2. Loops of a million turns, at top level and in functions, with and without: the ratio of the best of pairs
   run by turns, so that a change of the machine's speed meets both sides.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import io
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

sys.path.insert(0, str(Path(__file__).parents[2]))

from bridge.injected.symbols import Tracker
from tests.benchmarks.bench_loops import FUNCTIONS

LOOPS = {
    "top level, empty body": "for i in range(1_000_000):\n    pass",
    "top level, with a branch": (
        "t = 0\nfor i in range(1_000_000):\n    if i % 2:\n        t += i\n    else:\n        t -= 1"
    ),
    "top level, calls a function": "t = 0\nfor i in range(1_000_000):\n    t += small(i)",
    "in a function, with a branch": "branches(1_000_000)",
    "in a function, globals and builtins": "reads(1_000_000)",
    "in a function of this cell": (
        "def here(n):\n    t = 0\n    for i in range(n):\n"
        "        if i % 3: t += i\n    return t\nhere(1_000_000)"
    ),
}
BOX = """
class Box:
    def __init__(self): self.items = [small]
"""


class Runner:
    """Runs cells in one shell, watched or not."""

    def __init__(self) -> None:
        config = Config()
        config.HistoryManager.enabled = False
        self._folder = tempfile.TemporaryDirectory()
        self.shell: Any = InteractiveShell(config=config, ipython_dir=self._folder.name)
        self.tracker = Tracker(self.shell)
        self.tracker.install()  # without a cell begun it does nothing

    def cell(self, text: str, *, watched: bool) -> float:
        """Seconds that a cell takes, with everything around it."""
        with contextlib.redirect_stdout(io.StringIO()):
            start = time.perf_counter()
            if watched:
                plan = self.tracker.begin(text, text)
            self.shell.run_cell(text, store_history=False)
            if watched:
                self.tracker.end(plan, False)
            taken = time.perf_counter() - start
        return taken

    def close(self) -> None:
        atexit.unregister(self.shell.atexit_operations)
        self.shell.atexit_operations()
        self._folder.cleanup()


def main() -> None:
    """Prints the figures."""
    runner = Runner()
    runner.cell(FUNCTIONS + BOX, watched=True)
    for i in range(1000):
        runner.shell.user_ns[f"name{i}"] = [i]
    gc.disable()
    try:
        for text in (
            "name1",
            "x = name1[0] + 1",
            "small(3)",
            "if name1:\n    y = [v for v in name2]\nprint(y)",
        ):
            parts: list[tuple[float, float]] = []
            for _ in range(300):
                start = time.perf_counter()
                plan = runner.tracker.begin(text, text)
                begun = time.perf_counter()
                with contextlib.redirect_stdout(io.StringIO()):
                    runner.shell.run_cell(text, store_history=False)
                ran = time.perf_counter()
                runner.tracker.end(plan, False)
                parts.append((begun - start, time.perf_counter() - ran))
            bare = statistics.median(runner.cell(text, watched=False) for _ in range(300))
            full = statistics.median(runner.cell(text, watched=True) for _ in range(300))
            begin, end = (statistics.median(column) * 1e6 for column in zip(*parts, strict=True))
            print(
                f"{text!r}: begin {begin:.0f} us, end {end:.0f} us, bare {bare * 1e6:.0f}, all {full * 1e6:.0f} us"
            )
        for title, text in LOOPS.items():
            pairs = [(runner.cell(text, watched=False), runner.cell(text, watched=True)) for _ in range(15)]
            bare, full = (min(column) for column in zip(*pairs, strict=True))
            print(f"{title}: {bare * 1e3:.1f} ms -> {full * 1e3:.1f} ms, {full / bare:.3f} x")
    finally:
        gc.enable()
        runner.close()


if __name__ == "__main__":
    main()
