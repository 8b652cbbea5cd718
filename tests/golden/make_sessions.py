"""State files of sessions written by earlier versions, which every later version must load.

    sessions/oldest.state     made by hand, in the oldest format: `cwd` and `names` alone
    sessions/version-1.state  values, definitions, and values that need these
    sessions/classes.state    classes, modules and type variables as values, and values that need these

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
CLASS_CELLS = (
    "import types, typing\nT = typing.TypeVar('T')\nclass Stack(typing.Generic[T]): pass",
    "if True:\n    class Kind: label = 'kind'\nKind.first = Kind()\nkinds = [Kind(), Kind.first]\n"
    "own = types.ModuleType('own')\nown.kind = Kind",
)
CLASS_CHECK = (
    "print(type(kinds[0]) is Kind, Kind.label, type(Kind.first) is Kind)\n"
    "print(Stack.__parameters__[0] is T, own.kind is Kind)"
)
CLASS_SHOWN = "True kind True\nTrue True\n"
OLDEST = {"numbers": [1, 2.5, None], "text": "old", "nested": {"k": (1, {2})}}
OLDEST_CHECK = "import os\nprint(numbers, text, nested, os.getcwd())"
OLDEST_SHOWN = "[1, 2.5, None] old {'k': (1, {2})} /\n"


def main() -> None:
    """Write what is missing."""
    FOLDER.mkdir(exist_ok=True)
    oldest = FOLDER / "oldest.state"
    if not oldest.exists():
        names = {name: pickle.dumps(value, protocol=2) for name, value in OLDEST.items()}
        oldest.write_bytes(pickle.dumps({"cwd": "/", "names": names}, protocol=2))
    for file, cells in (("version-1.state", CELLS), ("classes.state", CLASS_CELLS)):
        if not (FOLDER / file).exists():
            make(FOLDER / file, cells)


def make(path: Path, cells: tuple[str, ...]) -> None:
    """Write the state file of a session that ran these cells."""
    kernel = Kernel(Settings(ephemeral=True, pool_size=1))
    try:
        kernel.sessions.create("golden", cwd="/")
        for number, cell in enumerate(cells):
            reply = kernel.sessions.execute("golden", cell, f"cell {number}")
            if reply["error"] is not None:
                raise RuntimeError(f"cell {number}: {reply['error']}")
        kernel.sessions.release("golden")
        shutil.copyfile(kernel.sessions.files.state_path("golden"), path)
    finally:
        kernel.close()


if __name__ == "__main__":
    main()
