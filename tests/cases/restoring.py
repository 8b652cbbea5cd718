"""What must come back: for each kind of value, cells that make it and a check that would show a bad restore.

The rule of every row: `check`, run from the state after `setup`, prints `expected`, and that is what it would
print in a kernel where only `setup` ran, whatever `later` did in between and in whichever kernel it runs.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Restoring:
    """One row: `setup` cells give the state S; `later` cells must leave no trace in it.

    `needs` are modules that the kernel must be able to import; `scratch` asks for an empty folder as cwd,
    for rows that write files.
    """

    id: str
    about: str
    setup: tuple[str, ...]
    later: tuple[str, ...]
    check: str
    expected: str
    needs: tuple[str, ...] = ()
    scratch: bool = False


CASES = (
    Restoring(
        "R01",
        "one class object for its name and for every instance, at any depth",
        ("class Node:\n    pass\ntop, shelf = Node(), {'k': [Node()]}",),
        ("shelf.clear()",),
        "print(type(top) is Node, type(shelf['k'][0]) is Node)",
        "True True",
    ),
    Restoring(
        "R02",
        "a class attribute goes back with its class",
        ("class Cfg:\n    level = 1\nread = lambda: Cfg.level",),
        ("Cfg.level = 9",),
        "print(Cfg.level, read())",
        "1 1",
    ),
    Restoring(
        "R03",
        "enum members stay the members; flags of several members load",
        (
            "import enum\nclass Mode(enum.Enum): ON = 1\nclass Perm(enum.IntFlag): R = 4; W = 2\n"
            "m, p = Mode.ON, Perm.R | Perm.W",
        ),
        ("m = None",),
        "print(m is Mode.ON, Perm.R in p)",
        "True True",
    ),
    Restoring(
        "R04",
        "a function writes the notebook's own globals, not a copy",
        ("n = 0\ndef bump():\n    global n; n += 1\nbump()",),
        ("bump()",),
        "bump(); print(n)",
        "2",
    ),
    Restoring(
        "R05",
        "two functions that share a closure variable still share it",
        (
            "def make(t=0):\n    def add(k):\n        nonlocal t; t += k\n    return add, (lambda: t)\n"
            "add, total = make(); add(5)",
        ),
        ("add(100)",),
        "add(1); print(total())",
        "6",
    ),
    Restoring(
        "R06",
        "names of one object stay names of one object",
        ("a = [1]; b = a; box = {'x': a}",),
        ("b = None",),
        "a.append(2); print(b, box['x'] is a)",
        "[1, 2] True",
    ),
    Restoring(
        "R07",
        "a view of an array stays a view",
        ("import numpy as np\ngrid = np.arange(6); win = grid[2:4]",),
        ("grid = None",),
        "win[0] = 99; print(grid[2])",
        "99",
        needs=("numpy",),
    ),
    Restoring(
        "R08",
        "a very deep object does not cost its neighbours",
        ("deep = []\nfor _i in range(30000): deep = [deep]\nkeep = 'small'",),
        ("keep = ''",),
        "print(keep)",
        "small",
    ),
    Restoring(
        "R09",
        "a dataclass instance equals a fresh one",
        ("from dataclasses import dataclass\n@dataclass\nclass Row:\n    v: int\none = Row(1)",),
        ("one.v = 3",),
        "print(one == Row(1))",
        "True",
    ),
    Restoring(
        "R10",
        "a namedtuple bound to another name than its own",
        ("from collections import namedtuple\nPair = namedtuple('Twin', 'l r'); pr = Pair(1, 2)",),
        ("pr = None",),
        "print(pr.r, type(pr) is Pair)",
        "2 True",
    ),
    Restoring(
        "R11",
        "a half-used generator does not cost its neighbours",
        ("squares = (k * k for k in range(5)); next(squares)\nrows = [1, 2, 3]",),
        ("rows.clear(); next(squares)",),
        "print(rows)",
        "[1, 2, 3]",
    ),
    Restoring(
        "R12",
        "a lock and an open file do not cost their neighbours",
        ("import threading\nguard = threading.Lock(); out = open('run.log', 'w'); rows = [1, 2]",),
        ("rows.clear(); out.close()",),
        "print(rows)",
        "[1, 2]",
        scratch=True,
    ),
    Restoring(
        "R13",
        "the random generators go on where the state left them",
        ("import random, numpy as np\nrandom.seed(7); np.random.seed(7); random.random(); np.random.rand()",),
        ("random.random(); np.random.rand()",),
        "print(round(random.random(), 6), round(float(np.random.rand()), 6))",
        "0.150849 0.779919",
        needs=("numpy",),
    ),
    Restoring(
        "R14",
        "working folder, environment and import path belong to the state",
        ("import os, sys\nos.chdir('/tmp'); os.environ['STAGE'] = 'raw'; sys.path.append('/tmp/lib')",),
        ("os.chdir('/'); os.environ['STAGE'] = 'done'; sys.path.pop()",),
        "print(os.getcwd(), os.environ.get('STAGE'), '/tmp/lib' in sys.path)",
        "/tmp raw True",
    ),
    Restoring(
        "R15",
        "values set on modules belong to the state",
        (
            "import textwrap, matplotlib as mpl\n"
            "textwrap.shorten = lambda t, w: t[:w]\nmpl.rcParams['figure.dpi'] = 41",
        ),
        ("del textwrap.shorten; mpl.rcParams['figure.dpi'] = 72",),
        "print(textwrap.shorten('abcdef', 2), mpl.rcParams['figure.dpi'])",
        "ab 41.0",
        needs=("matplotlib",),
    ),
    Restoring(
        "R16",
        "exactly the state's names: deleted ones are back, later ones gone",
        ("kept = 1; dropped = 2",),
        ("del dropped; later = 3",),
        "print(dropped, 'later' in globals())",
        "2 False",
    ),
    Restoring(
        "R17",
        "the user's own underscore names are the user's",
        ("_scale = 10\ndef up(v): return v * _scale",),
        ("_scale = 0",),
        "print(_scale, up(2))",
        "10 20",
    ),
    Restoring(
        "R18",
        "a lazy query with a Python function in it can be collected",
        ("import polars as pl\nlf = pl.LazyFrame({'a': [1, 2]}).map_batches(lambda d: d * 2)",),
        ("lf = None",),
        "print(lf.collect()['a'].to_list())",
        "[2, 4]",
        needs=("polars",),
    ),
    Restoring(
        "R19",
        "a fitted pipeline with a step class from the notebook",
        (
            "from sklearn.base import BaseEstimator, TransformerMixin\n"
            "from sklearn.pipeline import make_pipeline\n"
            "class Inc(BaseEstimator, TransformerMixin):\n"
            "    def fit(self, X, y=None): self.ok_ = 1; return self\n"
            "    def transform(self, X): return [[v + 1 for v in q] for q in X]\n"
            "pipe = make_pipeline(Inc()).fit([[1]])",
        ),
        ("pipe = None",),
        "print(pipe.transform([[1]]), isinstance(pipe[0], Inc))",
        "[[2]] True",
        needs=("sklearn",),
    ),
    Restoring(
        "R20",
        "a class defined twice: old and new instances keep their own",
        ("class V: n = 1\nold = V()", "class V: n = 2\nnew = V()"),
        ("old = new",),
        "print(old.n, new.n, isinstance(old, V), isinstance(new, V))",
        "1 2 False True",
    ),
    Restoring(
        "R21",
        "the source of what cells define can be read",
        ("import inspect\ndef plus(x):\n    return x + 1",),
        ("plus = None",),
        "print(inspect.getsource(plus).strip()[:11])",
        "def plus(x)",
    ),
    Restoring(
        "R22",
        "a submodule reached by attribute is imported again",
        ("import xml.dom.minidom",),
        ("del xml",),
        "print(xml.dom.minidom.__name__)",
        "xml.dom.minidom",
    ),
    Restoring(
        "R23",
        "a cached function works, with its cache or without",
        (
            "from functools import lru_cache\nseen = []\n"
            "@lru_cache\ndef slow(x): seen.append(x); return x * 2\nslow(3)",
        ),
        ("slow(4)",),
        "print(slow(3), seen)",
        "6 [3]",
    ),
    Restoring(
        "R24",
        "super() finds its class",
        (
            "class A:\n    def who(self): return 'A'\n"
            "class B(A):\n    def who(self): return 'B' + super().who()\nob = B()",
        ),
        ("ob = None",),
        "print(ob.who())",
        "BA",
    ),
    Restoring(
        "R25",
        "one attribute that cannot be saved does not cost the rest",
        ("import threading\nclass Svc:\n    lock = threading.Lock()\nsvc, other = Svc(), 5",),
        ("other = 0",),
        "print(other, isinstance(svc, Svc))",
        "5 True",
    ),
    Restoring(
        "R26",
        "Out, _ and the counter are those of the state",
        ("'first'", "40 + 2"),
        ("'later'",),
        "print(Out.get(2), _)",
        "42 42",
    ),
    Restoring(
        "R27",
        "an object whose pickle lies is not passed off as itself",
        ("class Odd:\n    def __reduce__(self): return (str, ('odd',))\nod = Odd()",),
        ("od = None",),
        "print(type(od).__name__)",
        "Odd",
    ),
    Restoring(
        "R28",
        "loggers keep level and handlers, each handler once",
        (
            "import logging\nlg = logging.getLogger('exp'); lg.setLevel(10); "
            "lg.addHandler(logging.NullHandler())",
        ),
        ("lg.setLevel(50)",),
        "print(lg.level, len(lg.handlers))",
        "10 1",
    ),
    Restoring(
        "R29",
        "unlike values of one hash() are told apart",
        ("pts = [(-1, -1), (-2, -2)]",),
        ("pts = []",),
        "print(pts, hash(pts[0]) == hash(pts[1]))",
        "[(-1, -1), (-2, -2)] True",
    ),
    Restoring(
        "R30",
        "slices that share one array share it again",
        ("import numpy as np\nbig = np.zeros(1_000_000); parts = [big[:10], big[10:20]]",),
        ("parts = None",),
        "parts[0][0] = 5; print(big[0])",
        "5.0",
        needs=("numpy",),
    ),
    Restoring(
        "R30-torch",
        "tensors that share one storage share it again",
        ("import torch\nbig = torch.zeros(1_000_000); parts = [big[:10], big[10:20]]",),
        ("parts = None",),
        "parts[0][0] = 5; print(float(big[0]))",
        "5.0",
        needs=("torch",),
    ),
)
