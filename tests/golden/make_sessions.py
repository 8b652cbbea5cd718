"""State files of sessions written by earlier versions, which every later version must load.

    sessions/oldest.state     made by hand, in the oldest format: `cwd` and `names` alone
    sessions/version-1.state  values, definitions, and values that need these

`python -m tests.golden.make_sessions` writes those that are missing; a file is never replaced. Their pickles hold no
code, so that any Python loads them.
"""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path

from bridge import Kernel, Settings

FOLDER = Path(__file__).resolve().parent / "sessions"
CELLS = (
    "import math\nfrom datetime import date as day\n",
    "class Base:\n    kind = 'base'\nclass Box(Base):\n    def __init__(self, n): self.n = n\n"
    "    def area(self): return self.n * factor",
    "def twice(box, by=2):\n    return box.area() * by\nasync def later(): return math.pi",
    "factor = 3\nbox = Box(4)\nboxes = {'a': [box, Box(5)], 'when': day(2026, 12, 2)}\nwords = ['a', 'ä', b'\\x00']",
)
CHECK = (
    "print(twice(box), isinstance(box, Base), type(boxes['a'][1]) is Box, boxes['a'][1].area(), boxes['when'].year,\n"
    "      words, round(await later(), 2), twice.__globals__ is globals())"
)
SHOWN = "24 True True 15 2026 ['a', 'ä', b'\\x00'] 3.14 True\n"
OLDEST = {"numbers": [1, 2.5, None], "text": "old", "nested": {"k": (1, {2})}}
OLDEST_CHECK = "import os\nprint(numbers, text, nested, os.getcwd())"
OLDEST_SHOWN = "[1, 2.5, None] old {'k': (1, {2})} /\n"


def main() -> None:
    """Write what is missing."""
    FOLDER.mkdir(exist_ok=True)
    oldest, current = FOLDER / "oldest.state", FOLDER / "version-1.state"
    if not oldest.exists():
        names = {name: pickle.dumps(value, protocol=2) for name, value in OLDEST.items()}
        oldest.write_bytes(pickle.dumps({"cwd": "/", "names": names}, protocol=2))
    if not current.exists():
        kernel = Kernel(Settings(ephemeral=True, pool_size=1))
        try:
            kernel.sessions.create("golden", cwd="/")
            for number, cell in enumerate(CELLS):
                reply = kernel.sessions.execute("golden", cell, f"cell {number}")
                if reply["error"] is not None:
                    raise RuntimeError(f"cell {number}: {reply['error']}")
            kernel.sessions.release("golden")
            shutil.copyfile(kernel.sessions.files.state_path("golden"), current)
        finally:
            kernel.close()


if __name__ == "__main__":
    main()
