"""What no serialiser holds: shown right from hot states alone."""

from __future__ import annotations

from tests.programs import Program

LIVE = Program(
    "live",
    (
        "def count(start):\n    n = start\n    while True:\n        got = yield n\n        n = got or n + 1\n"
        "steps = count(3); next(steps), next(steps)",
        "steps.send(40), next(steps)",
        "doubled = (n * 2 for n in steps); next(doubled), next(doubled)",
        "import itertools\nturns = itertools.cycle('abc'); pairs = zip(turns, iter([1, 2, 3])); next(pairs)",
        "next(pairs), next(turns)",
        "import sqlite3\nbase = sqlite3.connect(':memory:'); base.execute('create table t (x)')\n"
        "base.executemany('insert into t values (?)', [(n,) for n in range(5)]); base.total_changes",
        "rows = base.execute('select x from t where x > 1 order by x'); rows.fetchone()",
        "base.execute('insert into t values (9)'); rows.fetchall(), base.in_transaction",
        "base.rollback(); base.execute('select count(*) from t').fetchone()",
        "import threading\nlock, gate = threading.RLock(), threading.Semaphore(2)\n"
        "lock.acquire(), gate.acquire(), gate.acquire()",
        "gate.acquire(blocking=False), lock.acquire(), lock._is_owned()",
        "import textwrap, json, decimal\n"
        "plain = textwrap.shorten\ntextwrap.shorten = lambda *a, **k: plain(*a, **k).upper(); json.own = {'x': steps}",
        "textwrap.shorten('a b c', 3), json.own['x'] is steps, next(json.own['x'])",
        "import contextvars\nvar = contextvars.ContextVar('var', default=1); token = var.set(5); var.get()",
        "var.reset(token); var.get()",
        "import io, tempfile\nfile = tempfile.TemporaryFile('w+'); file.write('one\\ntwo\\n'), file.tell()",
        "_ = file.seek(0); file.readline()",
        "class Meter:\n    made = []\n"
        "    def __init__(self): Meter.made.append(self); self.steps = (n * n for n in range(9))\n"
        "    def __next__(self): return next(self.steps)\n    def __iter__(self): return self\n"
        "meter = Meter(); next(meter), next(meter)",
        "next(meter), len(Meter.made), Meter.made[0] is meter, sum(meter)",
        "import contextlib\n@contextlib.contextmanager\ndef opened():\n    print('in')\n    yield 7\n    print('out')\n"
        "stack = contextlib.ExitStack(); stack.enter_context(opened())",
        "stack.close()",
        "async def later():\n    return 3\nwaiting = later(); type(waiting).__name__",
        "await waiting",
        "import random\nsource = random.Random(3); draw = iter(source.random, None); random.seed(4)\n"
        "next(draw), random.random()",
        "next(draw), random.random(), random.gauss(0, 1)",
        "import warnings\ncatcher = warnings.catch_warnings(record=True); seen = catcher.__enter__()\n"
        "warnings.warn('kept'); len(seen)",
        "warnings.warn('kept too'); catcher.__exit__(None, None, None); [str(w.message) for w in seen]",
        "import sys\nold, sys.stdout = sys.stdout, io.StringIO()\nprint('hidden')",
        "print('hidden too'); caught, sys.stdout = sys.stdout.getvalue(), old; caught",
        "view = memoryview(bytearray(b'abc')); part = view[1:]; part[0] = 120; bytes(view)",
        "part[1] = 121; bytes(view), bytes(part)",
    ),
)
