"""Writes the golden homes, and says what must be found in them."""

from __future__ import annotations

import os
import sys
import tarfile
import tempfile
import uuid
from dataclasses import dataclass
from pathlib import Path

from bridge import Kernel
from bridge.settings import Settings
from bridge.store.schema import VERSION

FOLDER = Path(__file__).parent
MINOR = f"python{sys.version_info.major}.{sys.version_info.minor}"
WORKSPACE = "golden"


@dataclass(frozen=True)
class Golden:
    """A line of states `s1`, `s2`, … one for each cell; and cells that run from the last, with "
    "what they print."""

    cells: tuple[str, ...]
    checks: tuple[tuple[str, str], ...]


DATA = Golden(
    (
        "import os, random, collections, datetime, decimal, fractions, pathlib, uuid\n"
        "a = [1, 2.5, 'text', b'bytes', None, True, 1j, 2**100]; b = a; box = {'x': a, (1, 'k'): "
        "{3, 'three'}}",
        "ring = [0]; ring.append(ring); pair = ([], 'shared'); holder = {'p': pair}; marker = object()\n"
        "marks = [marker]; long = bytes(range(256)) * 400; deep = []\nfor _n in range(200): deep = [deep]",
        "import numpy as np\ngrid = np.arange(24.0).reshape(4, 6); row = grid[1]; big = np.arange(100_000)\n"
        "window = big[10:20]; fort = np.asfortranarray(np.ones((2, 3))); rec = np.zeros(2, "
        "dtype=[('n', 'i4')])\n"
        "things = np.array([a, 'o'], dtype=object); fixed = np.arange(3); fixed.flags.writeable = False",
        "day = datetime.datetime(2024, 2, 29, tzinfo=datetime.timezone.utc); price = "
        "decimal.Decimal('1.10')\n"
        "od = collections.OrderedDict(b=1, a=2); dq = collections.deque([1, 2], 3); part = "
        "fractions.Fraction(1, 3)\n"
        "where = pathlib.PurePosixPath('/a/b'); name = uuid.UUID(int=5); count = collections.Counter('aab')",
        "os.environ['GOLDEN'] = 'yes'; random.seed(7); np.random.seed(7); np.set_printoptions(precision=2)\n"
        "decimal.getcontext().prec = 6\n'result'",
    ),
    (
        (
            "print(a, b is a, box['x'] is a, sorted(box[1, 'k'], key=str))",
            "[1, 2.5, 'text', b'bytes', None, True, 1j, 1267650600228229401496703205376] True True "
            "[3, 'three']\n",
        ),
        (
            "print(ring[1] is ring, holder['p'] is pair, marks[0] is marker, len(long), len(deep))",
            "True True True 102400 1\n",
        ),
        (
            "row[0] = -1; window[0] = -2; print(grid[1, 0], big[10], row.base is not None, "
            "fort.flags.f_contiguous)",
            "-1.0 -2 True True\n",
        ),
        (
            "print(rec.dtype.names, things[0] is a, fixed.flags.writeable, big.sum())",
            "('n',) True False 4999950000\n",
        ),
        (
            "print(day.isoformat(), price, list(od), dq.maxlen, part, where, name.int, count['a'])",
            "2024-02-29T00:00:00+00:00 1.10 ['b', 'a'] 3 1/3 /a/b 5 2\n",
        ),
        (
            "print(os.environ['GOLDEN'], round(random.random(), 6), round(float(np.random.rand()), 6))",
            "yes 0.323833 0.076308\n",
        ),
        (
            "print(np.array([1 / 3]), decimal.Decimal(1) / 3, _, Out[5], len(In))",
            "[0.33] 0.333333 result result 7\n",
        ),
    ),
)
CODE = Golden(
    (
        "import abc, dataclasses, enum, functools, inspect, typing\n"
        "def make(n):\n    def up(k=1):\n        nonlocal n; n += k; return n\n    def peek(): "
        "return n\n    return up, peek\n"
        "up, peek = make(5); rate = 2\ndef tax(v, *, plus=1): return v * rate + plus\ntax.note = ['n']",
        "class Base:\n    made = []\n    def who(self): return 'base'\n    def "
        "__init_subclass__(cls): Base.made.append(cls)\n"
        "class Kid(Base):\n    'Doc.'\n    def who(self): return 'kid ' + super().who()\nkid = "
        "Kid(); kid.peer = kid\n"
        "class Slim:\n    __slots__ = ('v', '__w')\n    def __init__(self): self.v, self.__w = 1, [2]\n"
        "    def w(self): return self.__w\nslim = Slim()",
        "class Color(enum.Enum):\n    RED = 1\n    def low(self): return self.name.lower()\nred = Color.RED\n"
        "class Perm(enum.Flag):\n    R = 4\n    W = 2\nrw = Perm.R | Perm.W\n"
        "@dataclasses.dataclass\nclass Row:\n    n: int\n    tags: list = "
        "dataclasses.field(default_factory=list)\nrow = Row(1)\n"
        "T = typing.TypeVar('T')\nclass Box(typing.Generic[T]):\n    def get(self) -> T: return self.v\n"
        "class Shape(abc.ABC):\n    @abc.abstractmethod\n    def area(self): ...\n    @property\n   "
        " def p(self): return 1",
        "seen = []\n@functools.lru_cache(maxsize=8)\ndef slow(x): seen.append(x); return x * 2\nslow(3)\n"
        "double = functools.partial(slow, 4); bound = kid.who; fns = {'t': tax, 'l': lambda q=seen: q}\n"
        "@functools.singledispatch\ndef kind(v): return 'any'\n@kind.register\ndef _int(v: int): "
        "return 'int'\n"
        "class Err(Exception):\n    def __init__(self, code, why): super().__init__(why); self.code "
        "= code\nerr = Err(4, 'why')",
    ),
    (
        ("print(up(2), peek(), tax(10), tax.note, tax.__globals__ is globals())", "7 7 21 ['n'] True\n"),
        (
            "print(kid.who(), type(kid) is Kid, kid.peer is kid, Base.made == [Kid], Kid.__doc__, "
            "slim.w(), slim.v)",
            "kid base True True True Doc. [2] 1\n",
        ),
        (
            "print(red is Color.RED, Perm.R in rw, red.low(), row == Row(1), Row(2), "
            "Box.__parameters__ == (T,))",
            "True True red True Row(n=2, tags=[]) True\n",
        ),
        (
            "try: Shape()\nexcept TypeError: print('abstract', sorted(Shape.__abstractmethods__))",
            "abstract ['area']\n",
        ),
        (
            "print(slow(3), seen, double(), bound(), fns['t'] is tax, fns['l']() is seen, kind(1), kind(''))",
            "6 [3, 4] 8 kid base True True int any\n",
        ),
        (
            "print(err.code, err.args, type(err) is Err, inspect.getsource(tax))",
            "4 ('why',) True def tax(v, *, plus=1): return v * rate + plus\n\n",
        ),
    ),
)
KINDS = {"data": DATA, MINOR: CODE}


def archive(kind: str, version: int = VERSION) -> Path:
    """Where the golden home of a kind (`data` or a Python) lies."""
    return FOLDER / f"home-{version}-{kind}.tar.gz"


def main() -> None:
    """Write what is missing."""
    os.environ["PYTHONHASHSEED"] = "20240229"
    for kind, golden in KINDS.items():
        if archive(kind).exists():
            print(f"{archive(kind).name} is there already")
            continue
        with tempfile.TemporaryDirectory() as folder:
            write(Path(folder) / "home", golden)
            with tarfile.open(archive(kind), "w:gz") as made:
                made.add(Path(folder) / "home", "home", filter=_plain)
        print(f"{archive(kind).name} written")


def write(home: Path, golden: Golden) -> None:
    """A home with the states of these cells."""
    kernel = Kernel(Settings(home=home, workspace=WORKSPACE, pool_size=1))
    try:
        state = "initial"
        for number, cell in enumerate(golden.cells, 1):
            reply = kernel.execute(cell, uuid.uuid4().hex, state, f"s{number}")
            if reply["error"] is not None or reply["state"]["skipped"]:
                raise RuntimeError(f"cell {number}: {reply['error']} {reply['state']}")
            state = reply["state_name"]
    finally:
        kernel.close()


def _plain(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """A member without what tells of the machine; no logs and no locks."""
    if Path(info.name).parts[1:2] in (("logs",), ("locks",)):
        return None
    info.uid = info.gid = info.mtime = 0
    info.uname = info.gname = ""
    return info


if __name__ == "__main__":
    main()
