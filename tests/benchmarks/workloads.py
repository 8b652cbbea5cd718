"""The workloads of the table: lines of cells, each run from the state that the one before it left."""

from __future__ import annotations

from dataclasses import dataclass

ARRAY = "import numpy as np\na = np.arange(64 * 1024 * 1024, dtype=float)"  # 512 MB, no two chunks alike
_FIFTY = "import numpy as np\nfor n in range(50): globals()[f'a{n}'] = np.arange(1 << 20) + n * 1e7"
_FRAME = (
    "import numpy as np, pandas as pd\n"
    "df = pd.DataFrame({c: np.arange(2_000_000) * 1.5 for c in 'abcde'})\n"
    "df['s'] = np.array(['one', 'two', 'three', 'four'])[np.arange(2_000_000) % 4]"
)
_LISTS = "d = {n: [n] for n in range(300_000)}"
_POINTS = "class P:\n    def __init__(self, v): self.v = v\nps = [P(n) for n in range(100_000)]"
_TEXTS = "texts = [f'text {n}' for n in range(1_000_000)]"
_CALLS = "def g():\n    for i in range(1_000_000): len('x')"


@dataclass(frozen=True)
class Workload:
    """A cell that sets up, and one that is timed; `{n}` in it is the round's number. The bar is over the bare cell:
    a ratio when it starts with "x", milliseconds when with "+"."""

    what: str
    setup: str
    cell: str
    rounds: int
    bar: str


CHAINS = (
    Workload("tiny cell", "x = 0", "x = {n}", 50, "x 1.3"),
    Workload("cell beside an untouched 512 MB array", ARRAY, "x = {n}", 21, "x 1.3"),
    Workload("`a[0] += 1` on it", ARRAY, "a[0] += 1", 9, "+ 100"),
    Workload("one of 50 arrays of 8 MB changed", _FIFTY, "a{n}[0] += {n} + 1", 13, "+ 10"),
    Workload("2M × 6 DataFrame with texts, a column changed", _FRAME, "df['c'] = df['c'] + 1", 7, "+ 40"),
    Workload("2M × 6 DataFrame with texts, a column added", _FRAME, "df['n{n}'] = df['a'] + {n}", 7, "+ 40"),
    Workload("cell beside an untouched dict of 300,000 lists", _LISTS, "x = {n}", 21, "x 1.3"),
    Workload("`d[0].append(1)` on it", _LISTS, "d[0].append(1)", 7, "+ 250"),
    Workload("100,000 instances of a notebook class, one touched", _POINTS, "ps[0].v += 1", 7, "+ 250"),
    Workload("a list of 1,000,000 texts, one replaced", _TEXTS, "texts[{n}] = 'new {n}'", 7, ""),
)

LOOPS = (
    Workload(
        "a million-turn loop at top level",
        "t = 0",
        "for i in range(1_000_000):\n    if i & 1: t += i",
        7,
        "x 1.05",
    ),
    Workload("a million-turn loop in a function", _CALLS, "g()", 7, "x 1.05"),
)
SEEDS = range(10)
"""Of PYTHONHASHSEED: it decides which names of a namespace get into each other's way, for a loop a matter of half."""

BRANCH, BRANCH_BAR = "x = a[{n}] + {n}", "+ 50"
"""A cell of each of several lines from one state that holds ARRAY; in turns, it is a switch and a cell."""

MEMORY = (ARRAY, *("a[0] += 1" if n % 2 else f"x = {n}" for n in range(13)))
"""The cells of 14 states."""

TINY = "x = 1"
PANDAS = "import pandas as pd\npd.DataFrame({'a': [1, 2]}).sum()"

QUERIES = {"a dict of 300,000 lists": (_LISTS, ["d"]), "the DataFrame": (_FRAME, ["df"])}
"""What is asked for its hash and its groups: the cell that makes it, and its names."""

READ = "total = float(a.sum())"
"""Reads every page of the array."""
