"""Values that resist: own containers, tracebacks, modules made by hand, memory that is shared, things replaced."""

from __future__ import annotations

from tests.programs import Program

STUBBORN = Program(
    "stubborn",
    (
        """
from collections import *
class Twice(list):
    def __iter__(self): return (2 * x for x in list.__iter__(self))
    def append(self, x): raise RuntimeError
class Counting(dict):
    def __setitem__(self, k, v): dict.__setitem__(self, k, v + 1)
    def items(self): raise RuntimeError
class Open(dict):
    def __getattr__(self, n): return self[n]
    __setattr__ = dict.__setitem__
class Sorted(OrderedDict):
    def items(self): return []
class Five(deque):
    def __iter__(self): yield 5
class Keyless(defaultdict):
    def keys(self): return []
class Closed(set):
    __slots__ = ("note",)
    def __iter__(self): yield 9
    def add(self, x): raise RuntimeError
class Endless(list):
    def __iter__(self):
        while True: yield 1
class Bottomless(dict):
    def items(self):
        while True: yield 1, 2
    def __len__(self): return 10**9
t, d, ad = Twice([1, 2]), Counting(), Open(x=1)
t.tag = "t"; d["a"] = 1; ad.y = ad
o, q, kl, s = Sorted(a=1, b=2), Five([1, 2, 3], 2), Keyless(list), Closed([1, 2])
o.move_to_end("a"); kl["z"].append(1); s.note = t
e, bl, same = Endless([1, 2, 3]), Bottomless(a=1), [t, d]
""",
        "print(list.__repr__(t), t.tag, dict.__repr__(d), ad.x, ad.y is ad, list(OrderedDict.items(o)), q.maxlen)\n"
        "print(deque.__len__(q), kl['new'], dict.__repr__(kl), 1 in s, len(s), s.note is t, same[0] is t, len(e))",
        "d['b'] = 5; print(dict.__repr__(d), list(t), dict.__getitem__(bl, 'a'), same[1] is d)",
        """
import json, traceback
def deep(n, *args, k=3, **kw):
    if n: return deep(n - 1)
    return {"a": [1, 2]}["b"]["c"]
def gen():
    yield deep(2)
class M:
    def go(self): return list(gen())
def closure(x):
    def inner(): return x.nope
    return inner
async def later(): raise OSError("late")
errors = {}
for name, f in {"go": lambda: M().go(), "json": lambda: json.loads("{oops"), "clo": closure(3)}.items():
    try: f()
    except Exception as error: errors[name] = error
try: await later()
except OSError as error: errors["late"] = error
try:
    try: 1 / 0
    except ZeroDivisionError as error: raise LookupError("x") from error
except LookupError as error:
    errors["chain"] = error; tb = error.__traceback__
""",
        "for name, error in errors.items():\n"
        "    frames = traceback.extract_tb(error.__traceback__)\n"
        "    print(name, repr(error), [(f.name, f.lineno, f.colno, f.end_colno, f.line) for f in frames])\n"
        "print(tb is errors['chain'].__traceback__, errors['chain'].__cause__.__traceback__ is not None)",
        """
import sys, types
tools = types.ModuleType("tools_by_hand"); sys.modules["tools_by_hand"] = tools
exec('''
import math
state = []
class Box:
    def __init__(self, v): self.v = v
    def area(self): state.append(self.v); return math.floor(self.v) ** 2
def make(v): return Box(v)
''', tools.__dict__)
pkg = types.ModuleType("pkg_by_hand"); pkg.sub = tools
sys.modules["pkg_by_hand"] = pkg; sys.modules["pkg_by_hand.sub"] = tools
loose = types.ModuleType("loose"); exec("n = 1\\ndef up():\\n    global n; n += 1; return n", loose.__dict__)
up = loose.up
del tools, pkg
""",
        "from tools_by_hand import make, Box\nb = make(2.5)\nprint(b.area(), isinstance(b, Box), Box.__module__, up())",
        "import tools_by_hand\nprint(tools_by_hand.state, tools_by_hand.Box is Box, tools_by_hand.make is make,\n"
        "      make.__globals__ is vars(tools_by_hand), type(b) is tools_by_hand.Box, loose.n, loose.up is up, up())",
        "from pkg_by_hand.sub import state\nimport pkg_by_hand\nstate.append('z')\n"
        "print(pkg_by_hand.sub.state, tools_by_hand.state, pkg_by_hand.sub is tools_by_hand)",
        """
import numpy as np
ob = np.array([[1, None, 3], [4, [5], 6], [7, 8, 9]], dtype=object)
views = [ob[1:, ::2], ob.T, ob[::-1, 1], ob[1, 1:2], ob.reshape(9)[2:7:2], ob[:, 1].reshape(3, 1)]
""",
        "for v in views: print(v.base is ob, v.tolist(), v.strides, v.shape)\nviews[2][0] = 'set'; print(ob.tolist())",
        "raise errors['go']",
    ),
    fresh=(1, 2, 4, 6, 7, 8, 10, 11),
    needs=("numpy",),
)

SHARED_MEMORY = Program(
    "shared memory",
    (
        "import pandas as pd\n"
        "df = pd.DataFrame({'a': [1, 2, 3], 'b': [4., 5., 6.], 's': ['x', 'y', 'z']})\n"
        "col, part, ser, idx = df['a'], df[['a']], df['b'], pd.Index(df['a'])\n"
        "rev, shallow, arr = df[::-1], df.copy(deep=False), df['b'].to_numpy()",
        "df.loc[0, 'b'] = 99; ser.iloc[1] = -1; df.iloc[2, 0] = 50\n"
        "print(df.to_dict('list'), ser.tolist(), part.a.tolist(), idx.tolist(), col.tolist())\n"
        "print(rev.b.tolist(), shallow.b.tolist(), arr.tolist())",
        "shallow.loc[0, 's'] = 'q'; print(df.s.tolist(), shallow.s.tolist(), arr.flags.writeable)\n"
        "lone = pd.Series([1, 2, 3]); of_it = pd.Index(lone); same = lone",
        "lone.iloc[0] = 100; print(of_it.tolist(), same.iloc[0])",
    ),
    fresh=(1, 2, 3),
    needs=("pandas",),
)

REPLACED = Program(
    "replaced",
    (
        "import builtins, functools, io, os, sys, time, weakref\n"
        "real, caught = sys.stdout, io.StringIO(); sys.stdout = caught",
        "print('hidden')",
        "sys.stdout = real\nprint(repr(caught.getvalue()))",
        "real_print = print\ndef louder(*parts): real_print(*parts, '!')\nbuiltins.print = louder",
        "print('x')",
        "builtins.print = real_print\nprint('y', print is real_print)",
        # ipykernel sleeps half a millisecond after each cell, the server's kernels do not.
        "nap = time.sleep; time.sleep = lambda s: s < 1 or print('slept', s)\n"
        "cores = os.cpu_count; os.cpu_count = lambda: 7",
        "time.sleep(3); nap(0); print(nap.__name__, os.cpu_count(), cores() > 0)",
        "time.sleep = nap; print(time.sleep is nap)",
        "@functools.lru_cache(maxsize=None)\n"
        "def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)\n"
        "@functools.lru_cache(maxsize=2)\ndef double(n): return 2 * n\n"
        "fib(20); double(1); double(2); double(1); double(3)",
        "fib(25); double(3); print(fib.cache_info(), double.cache_info())",
        "class A: pass\na = A(); ref = weakref.ref(a); end = weakref.finalize(a, print, 'ended')",
        "print(ref() is a, end.alive)",
        "del a",
    ),
    fresh=(1, 2, 4, 5, 7, 8, 10, 12, 13),
)
