"""Cells and what they read, bind and remove, as CONTRACT's symbol lists say.

Row = (cell, accessed, modified, deleted, maybe): names apart by spaces. `maybe`: names that may be listed as read
too where the interpreter cannot say what ran inside loops and functions (before Python 3.13); from there on they
must not be. EVERY: code that can reach anything, so every name from before is reported as read.
"""

from __future__ import annotations

Row = tuple[str, str, str, str, str]
EVERY = "*"


def row(cell: str, accessed: str = "", modified: str = "", deleted: str = "", maybe: str = "") -> Row:
    return (cell, accessed, modified, deleted, maybe)


PLAIN = "a = 1\nb = 2\nc = 3\nxs = [1, 2]\nzero = 0\nimport math"
PLAIN_ROWS = [
    row("d = a + b", "a b", "d"),
    row("a += 1", "a", "a"),
    row("a = a", "a", "a"),
    row("a = 1", "", "a"),
    row("a = 5; a", "", "a"),
    row("a = b = c", "c", "a b"),
    row("a, (b, *c) = 1, (2, 3)\na, b, c", "", "a b c"),
    row("a, b = b, a", "a b", "a b"),
    row("del a", "", "", "a"),
    row("del a, b", "", "", "a b"),
    row("del xs[0]", "xs"),
    row("del a\na = 3\na", "", "a"),
    row("d = 1\ndel d"),
    row("xs[0] = a", "a xs"),
    row("xs[a:b]", "a b xs"),
    row("xs.x if zero else 0", "zero"),
    row("print(a, sep=str(b))", "a b"),
    row("print(*xs, **{'sep': str(c)})", "c xs"),
    row("not a", "a"),
    row("type(a)", "a"),
    row("{**{'q': a}, 'z': b}", "a b"),
    row("d = [*xs]", "xs", "d"),
    row("pass"),
    row(""),
    row("'only text'"),
    row("d = 'only text'", "", "d"),
    # branches
    row("if zero:\n    b", "zero"),
    row("if a:\n    b\nelse:\n    c", "a b"),
    row("if zero:\n    b\nelif a:\n    c", "a c zero"),
    row("if a:\n    d = 1\nelse:\n    d = b\nd", "a", "d"),
    row("if zero:\n    a = 2\na", "a zero"),
    row("if a:\n    b = 2\nb", "a", "b"),
    row("if zero:\n    a = 1", "zero"),
    row("a if b else c", "a b"),
    row("zero and b", "zero"),
    row("a and b", "a b"),
    row("a or b", "a"),
    row("zero and b and c", "zero"),
    row("zero < -1 < b", "zero"),
    row("zero < 1 < b", "b zero"),
    row("assert a, b", "a"),
    row("assert zero, b", "b zero"),
    row("if __name__ == '__main__':\n    b", "b"),
    row("if (d := a) and zero:\n    b", "a zero", "d"),
    row("f'{a} {b!r:{c}}'", "a b c"),
    row("f'{a if zero else b}'", "b zero"),
    row("(y := a)", "a", "y"),
    # loops
    row("for i in []:\n    b"),
    row("for i in ():\n    b = 2"),
    row("for i in range(zero):\n    b", "zero"),
    row("for i in xs:\n    b", "b xs", "i"),
    row("for a in xs:\n    pass\na", "xs", "a"),
    row("for i in xs:\n    a = i\na", "xs", "a i"),
    row("for i in xs:\n    if zero:\n        b", "xs zero", "i", "", "b"),
    row("for i in xs:\n    pass\nelse:\n    b", "b xs", "i"),
    row("for i in xs:\n    break\nelse:\n    b", "xs", "i", "", "b"),
    row("for i in xs:\n    break\n    b", "xs", "i"),
    row("for i in iter([]):\n    b", "", "", "", "b"),
    row("for i in []:\n    pass\nelse:\n    b", "b"),
    row("while zero:\n    b", "zero", "", "", "b"),
    row("while True:\n    a = 2\n    break\na", "", "a"),
    row("while a < 3:\n    a += 1", "a", "a"),
    row("while zero:\n    a = 2\na", "a zero", "", "", "a"),
    row("if (g := lambda: b)():\n    c", "b c", "g"),
    row("g = {lambda: b}", "", "g", "", "b"),
    # comprehensions
    row("[b for i in []]"),
    row("[i for i in xs]", "xs"),
    row("[a for a in xs]", "xs"),
    row("[a for a in xs], a", "a xs"),
    row("[b for b in xs if b]; b", "b xs"),
    row("[i for i in xs if zero and b]", "xs zero", "", "", "b"),
    row("{b: c for k in xs}", "b c xs"),
    row("{k for k in [a]}", "a"),
    row("(a for a in [b])", "b"),
    row("list(a for q in xs)", "a xs"),
    row("[(i, j) for i in xs for j in range(i)]", "xs"),
    row("[d := i for i in xs]", "xs", "d"),
    # functions of this cell
    row("g = lambda: b", "", "g"),
    row("g = lambda q=c: b", "c", "g"),
    row("g = [lambda: b, lambda: c]", "", "g"),
    row("(lambda: b)()", "b"),
    row("sorted(xs, key=lambda q: a)", "a xs"),
    row("sorted([], key=lambda q: a)", "", "", "", "a"),
    row("g = {'q': lambda: a}\ng['q']()", "a", "g"),
    row("def f():\n    return b", "", "f"),
    row("def f():\n    return b\nf()", "b", "f"),
    row("def f():\n    return b\nb = 1\nf()", "", "b f"),
    row("def f():\n    return b\nf()\nb = 1", "b", "b f"),
    row("def f(q=b): return c", "b", "f"),
    row("def f(a): return a\nf(1)", "", "f"),
    row("def f():\n    a = 1\n    return a\nf()", "", "f"),
    row("def f():\n    if zero: return b\n    return c\nf()", "c zero", "f", "", "b"),
    row("def f():\n    global a\n    a = 1\nf()", "", "a f"),
    row("def f():\n    global a\n    del a\nf()", "", "f", "a"),
    row("def f():\n    global a\n    a = 3\n", "", "f"),
    row("def f():\n    def inner(): return a\n    return inner\ng = f()", "", "f g", "", "a"),
    row("def f():\n    def inner(): return a\n    return inner()\nf()", "a", "f"),
    row("def f(n): return f(n - 1) + a if n else 0\nf(2)", "a", "f"),
    row("@staticmethod\ndef f(): return b", "", "f"),
    row("import functools\n@functools.lru_cache\ndef f(): return b", "", "f functools"),
    row("@(lambda z: z)\ndef f(): return b", "", "f", "", "b"),
    row("@(lambda z: z())\ndef f(): return b", "b", "f"),
    row("def f(q: b) -> c: pass", "b c", "f"),
    row("async def f(): return b\nawait f()", "b", "f"),
    row("async def f():\n    yield b\nasync for q in f():\n    c", "b c", "f q"),
    row("def f():\n    yield b\nit = f()", "", "f it", "", "b"),
    row("def f():\n    yield b\nlist(f())", "b", "f"),
    # classes of this cell
    row("class K:\n    q = a\n    def m(self): return b", "a", "K"),
    row("class K:\n    a = 4\n    q = a", "", "K"),
    row("class K:\n    if zero:\n        a = 4\n    q = a", "a zero", "K"),
    row("class K:\n    def m(self): return b\nK().m()", "b", "K"),
    row("class K:\n    def m(self): return b\nK()", "", "K", "", "b"),
    row("class K:\n    global a\n    a = 2", "", "K a"),
    row("class K:\n    q = [i for i in xs]", "xs", "K"),
    row(
        "import dataclasses\n@dataclasses.dataclass\nclass P:\n    q: int = a\n    def m(self): return b",
        "a",
        "P dataclasses",
    ),
    row("class K:\n    @property\n    def p(self): return b\nK().p", "b", "K"),
    row(
        "class M(type):\n    def __init__(cls, *q): cls.m(1)\nclass K(metaclass=M):\n    def m(self): return b",
        "b",
        "K M",
    ),
    # with, try
    row("with open('/dev/null') as a: pass", "", "a"),
    row("with open('/dev/null') as fh:\n    d = 1\n    a = d\na", "", "a d fh"),
    row(
        "import contextlib\nwith contextlib.suppress(ValueError):\n    int('x')\n    a = 1\na",
        "a",
        "contextlib",
    ),
    row("try:\n    b\nexcept ValueError:\n    c", "b"),
    row("try:\n    1/0\nexcept ZeroDivisionError as a:\n    c", "c", "", "a"),
    row("try:\n    1/0\nexcept ZeroDivisionError as e:\n    c", "c"),
    row(
        "try:\n    1/0\nexcept (ValueError, ZeroDivisionError):\n    a\nexcept Exception:\n    b\nelse:\n    c",
        "a",
    ),
    row("try:\n    pass\nexcept b:\n    pass\nelse:\n    c", "c"),
    row("try:\n    a = 2\nfinally:\n    a", "", "a"),
    row("try:\n    int('x')\n    a = 2\nexcept ValueError:\n    a", "a"),
    row("try:\n    a = int('7')\nexcept ValueError:\n    a = b\na", "", "a"),
    # match
    row("match a:\n    case 1: b\n    case 2: c", "a b"),
    row("match xs:\n    case [q, *r]: q, r", "xs", "q r"),
    row("match a:\n    case math.pi: b\n    case _: c", "a c math"),
    row("match a:\n    case 1 if zero: b\n    case d: c", "a c zero", "d"),
    row("match {'k': 1}:\n    case {'k': b, **rest}: b", "", "b rest"),
    # imports, annotations, scopes
    row("import math", "", "math"),
    row("import os.path as b", "", "b"),
    row("import os.path", "", "os"),
    row("from os import path as c\nc", "", "c"),
    row("from keyword import *", "", "iskeyword issoftkeyword kwlist softkwlist"),
    row("x: a = b", "a b", "x"),
    row("x: a", "a"),
    row("from __future__ import annotations\nx: a = b", "b", "annotations x"),
    row("global a\na = 3", "", "a"),
    row("__x__ = a", "a"),
    row("__x__ = 1\n__x__"),
    row("print(__name__)"),
    row("_\n__\nIn\nOut\n_ih\nexit\nopen\nget_ipython"),
    row("for _ in xs:\n    pass\n_", "xs", "_"),
    # failures
    row("raise ValueError(a)", "a"),
    row("b\n1/0\nc", "b"),
    row("d = b\ne = 1/0", "b", "d"),
    row("d = nope"),
    row("f("),
    row("return"),
    row("a = 1/0\nb", ""),
    # magics and shell
    row("%time a", "a"),
    row("%%time\nd = a\nb", "a b", "d"),
    row("%%time\nif zero:\n    b", "zero"),
    row("v = 1\nr = %time v + a", "a", "r v"),
    row("%%capture out\na", "a", "out"),
    row("%%capture\nd = a\nd", "a", "d"),
    row("%timeit -n1 -r1 a", "a"),
    row("%%timeit -n1 -r1 d = c\na", "a c"),
    row("r = %timeit -n1 -r1 -q -o a", "a", "r"),
    row("%prun -q a", "a"),
    row("b?", "b"),
    row("%pinfo b", "b"),
    row("%matplotlib --list"),
    row("%env BRIDGE_TEST_SYMBOLS=$a", "a"),
    row("!true $a {b}", "a b"),
    row("d = !true $a", "a", "d"),
    row("d = %pwd", "", "d"),
    row("%%bash\ntrue $a"),
    row("%%bash --out c\ntrue", "", "c"),
    row("%run no_such_file.py"),
    # what can reach anything
    row("eval('a')", EVERY),
    row("exec('d = a')", EVERY, "d"),
    row("exec('del a')", EVERY, "", "a"),
    row("globals()['a']", EVERY),
    row("globals()['d'] = 1", EVERY, "d"),
    row("locals()", EVERY),
    row("vars()", EVERY),
    row("dir()", EVERY),
    row("vars(math)", "math"),
    row("dir(a)", "a"),
    row("import __main__\n__main__.a", EVERY),
    row("import sys\ngetattr(sys.modules['__main__'], 'a')", EVERY, "sys"),
    row("import sys\nsys._getframe().f_globals", EVERY, "sys"),
    row("import inspect\ninspect.stack()", EVERY, "inspect"),
    row("get_ipython().user_ns['a']", EVERY),
    row("get_ipython().run_line_magic('time', chr(97))", EVERY),
    row("%who", EVERY),
    row("%run -i no_such_file.py", EVERY),
    row("%no_such_magic a", EVERY),
    row("def f():\n    return globals()", "", "f"),
    row("def f():\n    return globals()\nf()", EVERY, "f"),
    row("if zero:\n    eval('a')", "zero"),
    # functions that see the namespace, in plain view or by another name
    row("__builtins__.eval('a')", EVERY),
    row("__builtin__.vars()", EVERY),
    row("import builtins\n{'e': builtins.eval}['e']('a')", EVERY, "builtins"),
    row("import builtins as q\nif 1:\n    q.globals()['a']", EVERY, "q"),
    row("if 1:\n    import builtins\n    getattr(builtins, 'ev' + 'al')('a')\n    del builtins", EVERY),
    row("import json\njson.codecs.builtins.eval('a')", EVERY, "json"),
    row("import json\nvars(json)['__builtins__']['eval']('a')", EVERY, "json"),
    row("import json\njson.__dict__", EVERY, "json"),
    row(
        "import operator, json\noperator.attrgetter('__builtins__')(json)['eval']('a')",
        EVERY,
        "operator json",
    ),
    row("list(map(eval, ['a']))", EVERY),
    row("import functools\nfunctools.reduce(lambda q, w: eval(w), ['a', 'a'])", EVERY, "functools"),
    row("q = eval", EVERY, "q"),
    row("def q(w=eval): return w('a')\nq()", EVERY, "q"),
    row("import types\ntypes.FunctionType(compile('a', '', 'eval'), {})", EVERY, "types"),
    row("def q(): pass\nq.__code__ = (lambda: a).__code__", EVERY, "q"),
    row("__import__('__main__').a", EVERY),
    row("import importlib\nimportlib.import_module('__main__').a", EVERY, "importlib"),
    row("import importlib\nimportlib.import_module('__ma' + chr(105) + 'n__').a", EVERY, "importlib"),
    row("import importlib\nq = importlib.import_module('json')", "", "importlib q"),
    row("import sys\nfor q in sys.modules.values(): pass", EVERY, "sys q"),
    row("from sys import modules\nmodules", EVERY, "modules"),
    row("import sys\n'json' in sys.modules, sys.modules['json'], sys.modules.get('no')", "", "sys"),
    row("def q():\n    import sys\n    return 'no' in sys.modules or sys.modules['sys']\nq()", "", "q"),
    row("def q():\n    import sys\n    return sys.modules[chr(95)]\nq", EVERY, "q"),
    row("import inspect as q\nq.stack()", EVERY, "q"),
    row("from inspect import stack\nstack()", EVERY, "stack"),
    row("def q():\n    import inspect as w\n    return w.stack()\nq()", EVERY, "q"),
    row("import inspect\ngetattr(inspect, 'stack')()", EVERY, "inspect"),
    row(
        "import operator, inspect\noperator.attrgetter('f_back.f_globals')(inspect)",
        EVERY,
        "operator inspect",
    ),
    row("import gc\ngc.get_objects", EVERY, "gc"),
    row("class Q: pass\nQ.__subclasses__()", EVERY, "Q"),
    row("import typing\nclass Q:\n    q: 'a'\ntyping.get_type_hints(Q)", EVERY, "Q typing"),
    row("get_ipython().complete('a')", EVERY),
    row("q = get_ipython()", EVERY, "q"),
    row("get_ipython().__class__.__name__, get_ipython() is None, type(get_ipython())"),
    row("def q():\n    return get_ipython().object_find('a')\nq()", EVERY, "q"),
    row("def q():\n    return get_ipython() is not None and get_ipython().config\nq()", "", "q"),
    # attributes that are named in pieces, in format strings, by methods of another name, or by nobody
    row("def q(): pass\ngetattr(q, '__glo' + 'bals__')['a']", EVERY, "q"),
    row("def q(): pass\nobject.__getattribute__(q, '__globals__')['a']", EVERY, "q"),
    row("def q(): pass\nq.__getattribute__(chr(95))", EVERY, "q"),
    row("import operator\noperator.methodcaller('__getattribute__', chr(95))", EVERY, "operator"),
    row("def q(): pass\ntype(q).__dict__[chr(95)].__get__(q)", EVERY, "q"),
    row("def q(): pass\nvars(type(q))['__glo' + 'bals__'].__get__(q)", EVERY, "q"),
    row("def q(): pass\ngetattr([q][0], '__{}__'.format('globals'))", EVERY, "q"),
    row("getattr((w for w in xs), 'gi_' + 'frame')", EVERY),
    row("try:\n    1/0\nexcept Exception as e:\n    getattr(e.__traceback__, 'tb_' + 'frame')", EVERY),
    row("def q(): pass\n'{0.__globals__[a]}'.format(q)", EVERY, "q"),
    row("def q(): pass\n'{0.__glo'.__add__('bals__[a]}').format(q)", EVERY, "q"),
    row("def q(): pass\nw = '{0.__glo'\nw += 'bals__[a]}'\nw.format(q)", EVERY, "q w"),
    row("import string\ndef q(): pass\nstring.Formatter().get_field(chr(48), (q,), {})", EVERY, "q string"),
    row("class Q:\n    def m(self): pass\nw = str(a)\nw.format(Q())", EVERY, "Q w"),
    row("w = '{0.real} {1}'\nw.format(a, [lambda: b])", "a", "w", "", "b"),
    row("w = '{0.real}' * 2\nw.format(a, b)", "a b", "w"),
    row("w = ['{}']\nw[0].format(xs[0])", "xs", "w"),
    row("def q(): pass\n[getattr(w, chr(95)) for w in [q] if zero]", EVERY, "q"),
    row("def q(): pass\nr = {1: q}\n[getattr(w, chr(95), 0) for _, w in r.items()]", EVERY, "q r"),
    row("[getattr(w, q) for w in xs for q in ['real']]", "xs"),
    row(
        "class Q:\n    v = 1\n    def m(self): return b\nq = [Q()]\n[getattr(w, r) for w in q for r in 'v']",
        "",
        "Q q",
        "",
        "b",
    ),
    row("import typing\ngetattr(typing, 'get_type_' + 'hints')", EVERY, "typing"),
    row("import typing\ngetattr(typing, chr(95))", EVERY, "typing"),
    row("getattr(object, '__sub' + 'classes__')()", EVERY),
    row("getattr(str(a), 'up' + 'per')()", "a"),
    row("print.__self__.eval('a')", EVERY),
    row("getattr(len, '__se' + 'lf__')", EVERY),
    # the same inside functions, whose arguments nobody knows
    row("def q(o, n): return getattr(o, n)\nq(q, ''.join(['__glo', 'bals__']))['a']", EVERY, "q"),
    row("def q(o, n): return getattr(o, n)\nq(lambda: b, chr(95))", EVERY, "q"),
    row("def q(o, n): return getattr(o, n)\nq(print, chr(95))", EVERY, "q"),
    row(
        "def q(o, n): return getattr(o, n)\nclass Q:\n    def m(self): return b\nq(Q(), chr(95))",
        EVERY,
        "q Q",
    ),
    row("def q(n, o=(lambda: b)): return getattr(o, n)\nq(chr(95))", EVERY, "q"),
    row("def q(o, n): return getattr(o[0], n)\nr = [q]\nq(r, chr(95))", EVERY, "q r"),
    row("def q(n):\n    def r(): return b\n    return getattr(r, n)\nq(chr(95))", EVERY, "q"),
    row("def q(n):\n    import inspect\n    return getattr(inspect, n)\nq(chr(95))", EVERY, "q"),
    row("import inspect as w\ndef q(n): return getattr(w, n)\nq(chr(95))", EVERY, "q w"),
    row("def q(n): return getattr(q.__get__, n)\nq(chr(95))", EVERY, "q"),
    row("def q(o, n): return getattr(o, '%s' % n)\nq(q, chr(95))", EVERY, "q"),
    row("def q(o, n): return getattr(o, '__' + n)\nq(q, chr(95))", EVERY, "q"),
    row("def q(o, n): return getattr(o, f'do_{n}', 0)\nq(q, a)", "a", "q"),
    row("def q(o, n): return getattr(o, 'do_' + n, 0)\nq(q, str(a))", "a", "q"),
    row("def q(o, n): return getattr(o, n, 0)\nq(xs, str(a)), q(math, chr(95))", "a math xs", "q"),
    row("def q(n): return getattr(math, n, 0)\nq(chr(95))", "math", "q"),
    row("class Q:\n    def m(self, n): return getattr(self, n, 0)\nQ().m(chr(95))", "", "Q"),
    row("def q(t, o): return t.format(o)\nq(str(a), q)", EVERY, "q"),
    row("def q(t, o): return t.format(o)\nq(str(a), xs)", "a xs", "q"),
    row("import operator\ndef q(n): return operator.attrgetter(n)\nq(chr(95))(q)", EVERY, "operator q"),
    row("import operator\ndef q(o): return operator.attrgetter('real')(o)\nq(a)", "a", "operator q"),
    row("list(map(getattr, [lambda: b], [chr(95)]))", EVERY),
    row("w = getattr\nw(lambda: b, chr(95))", EVERY, "w"),
    row("def q(): pass\ngetattr(q.__get__, chr(95))", EVERY, "q"),
    # libraries that look for what a text names
    row("import unittest.mock as q\nq.patch('__ma' + chr(105) + 'n__.a', 3)", EVERY, "q"),
    row("import unittest.mock as q\nq.patch.dict('os.environ')", EVERY, "q"),
    row("from unittest.mock import Mock\nMock()", "", "Mock"),
    row(
        "import logging.config\nlogging.config.dictConfig({'version': 1, 'incremental': True})",
        EVERY,
        "logging",
    ),
    row("import logging.config as q\nq.BaseConfigurator({}).resolve('os.path')", EVERY, "q"),
    row(
        "import functools\n@functools.singledispatch\ndef q(w): pass\n@q.register\ndef r(w: 'b'): pass",
        "b",
        "functools q",
    ),
    # loaders, and what runs code, find names in the main module; data formats do not
    row("import json\njson.loads('1')", "", "json"),
    row("def q(w):\n    import json\n    return json.loads(w)\nq('1')", "", "q"),
    row("import pickle\npickle.dumps(a)", "a", "pickle"),
    row("import pickle\npickle.loads(b'c__main__\\na\\n.')", EVERY, "pickle"),
    row("import pickle\npickle.loads(pickle.dumps(a))", EVERY, "pickle"),
    row("import pickle\nq = pickle.loads\nq(b'N.')", EVERY, "pickle q"),
    row("from pickle import loads", "", "loads"),
    row("from pickle import loads\nloads(b'N.')", EVERY, "loads"),
    row("import pickle, io\npickle.Unpickler(io.BytesIO(b'N.')).load()", EVERY, "pickle io"),
    row("import pickle\n[pickle][0].loads(b'N.')", EVERY, "pickle"),
    row("def q(w):\n    import pickle\n    return pickle.loads(w)\nq(b'N.')", EVERY, "q"),
    row("def q(w):\n    from pickle import loads as e\n    return e(w)\nq(b'N.')", EVERY, "q"),
    row("class Q:\n    def load(self): return 1\nQ().load()", "", "Q"),
    row(
        "import pickle, io\nclass Q(pickle.Unpickler): pass\nQ(io.BytesIO(b'N.')).load()",
        EVERY,
        "Q io pickle",
    ),
    row("import timeit\ntimeit.timeit('a', globals=globals(), number=1)", EVERY, "timeit"),
    row("import timeit\ntimeit.timeit('pass', number=1)", EVERY, "timeit"),
    row("import timeit\nq = timeit.default_timer()", "", "q timeit"),
    row("import doctest\ndoctest.testmod", EVERY, "doctest"),
    row("import runpy\nrunpy.run_path", EVERY, "runpy"),
    row("import code\ncode.interact", EVERY, "code"),
    row("import pdb\npdb.run('a')", EVERY, "pdb", "", "__pdb_convenience_variables"),
    row("import unittest\nunittest.main(argv=['q'], exit=False)", EVERY, "unittest"),
    row("import dill\ndill.dumps(a)", EVERY, "dill"),
    row("import joblib\njoblib.load('no such file')", EVERY, "joblib"),
    row("import cloudpickle\ncloudpickle.loads(b'N.')", EVERY, "cloudpickle"),
    row("import copyreg\nclass Q: pass\ncopyreg.pickle(Q, lambda q: 'a')", EVERY, "Q copyreg"),
    row("import ctypes\nctypes.py_object", EVERY, "ctypes"),
    row("import math\ngetattr(math, 'pi')", "", "math"),
    row("q = {'modules': 1, 'eval': 2}; q['eval']", "", "q"),
]

# Values that hold what opens the namespace; by the time of these cells nothing but the values tells.
HOLDERS = """x = 5; y = [1, 2]
import functools, weakref, pickle, math, re
d = {'g': globals}; l = [eval]; p = functools.partial(eval, 'x')
class K:
    e = staticmethod(eval)
    g = globals
    q = property(lambda self: eval)
class Plain:
    def m(self): return 1
class Deep(K): pass
k = Deep()
o = Plain(); o.hidden = exec
def closed():
    e = eval
    return lambda: e
c = closed()
def default(e=eval): return e('x')
m = d.get
s = map(eval, ['x'])
mods = {'b': __import__('builtins')}
main = [__import__('__main__')]
load = [pickle.loads]
ns = (globals(),)
ip = {'i': get_ipython()}
tell = get_ipython().complete
ref = weakref.ref(k)
dict_ = __builtins__.__dict__
pat = re.compile('x')
plain = Plain(); boxes = {'a': [1, (2, {3})], 'f': y.append}
math.bridge_eval = eval
class Cell:
    def __init__(self, n, more=None): self.n = n; self.more = more
class Slot:
    __slots__ = ('n', 'more')
    def __init__(self, n, more=None): self.n = n; self.more = more
many = [Cell(n) for n in range(50)]
many_hold = [*[Cell(n, [n, {'t': (n,)}]) for n in range(50)], Cell(0, {'e': (eval,)})]
many_kinds = [*[Cell(n, int) for n in range(50)], Cell(0, Deep)]
slots = [*[Slot(n) for n in range(50)], Slot(0, globals)]
rows = [{'n': n, 't': 'text', 'l': [n]} for n in range(50)]
rows_hold = [*rows, {'n': 1, 't': 'text', 'l': [p]}]"""
HOLDER_ROWS = [
    *[
        row(cell, EVERY)
        for cell in (
            "d['g']()['x']", "p()", "l[0]('x')", "K.e('x')", "K.g()['x']", "k.e('x')", "k.q('x')", "o.hidden('y')",
            "c()('x')", "default()", "m('g')()['x']", "next(s)", "mods['b']", "main[0].x", "load[0](b'N.')",
            "ns[0]['x']", "ip['i'].complete('x')", "tell('x')", "ref().e('x')", "dict_['eval']('x')",
            "math.bridge_eval('x')",
            "many_hold[1].n", "many_kinds[1].n", "slots[1].n", "rows_hold[1]['n']",
        )
    ],
    row("x", "x"),
    row("plain.m()", "plain"),
    row("boxes['f'](3)", "boxes"),
    row("pat.match('x')", "pat"),
    row("y.append(1)", "y"),
    row("many[1].n", "many"),
    row("rows[1]['n']", "rows"),
    row("math.pi", "math"),
    row("sorted(y)", "y"),
]  # fmt: skip

# Cells as notebooks have them: none of them may be taken for one that reaches everything.
USUAL = """import json, logging, math, os, re, sys, time
import numpy as np
import pandas as pd
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
rng = np.random.default_rng(1)
df = pd.DataFrame({'n': [1, 2, 2], 't': list('abc')})
arr = np.arange(6.0).reshape(2, 3)
names = ['mean', 'sum']
log = logging.getLogger('bridge-test')
@dataclass
class Fare:
    unlock: float = 1.0
    def price(self, minutes): return self.unlock + minutes
fare = Fare()
class Ledger:
    def __init__(self): self.sums = {}
    def add(self, key, amount):
        self.sums[key] = self.sums.get(key, 0) + amount
        return self
    def load(self): return self
    def eval(self): return self
ledger = Ledger()
def tally(frame):
    for key, part in frame.groupby('t'):
        yield key, len(part)
def read(path):
    return json.loads(path)"""
USUAL_ROWS = [
    row("df.groupby('n')['t'].agg(['count', 'max'])", "df"),
    row("df[df['n'] > 1].sort_values('n').head()", "df"),
    row("[getattr(df['n'], q)() for q in names]", "df names"),
    row("getattr(np, names[0])(arr)", "arr names np"),
    row("df['p'] = [fare.price(q) for q in df['n']]", "df fare"),
    row("ledger.load().eval()", "ledger"),
    row("def q(o): return o.eval()\nq(ledger)", "ledger", "q"),
    row("np.stack([arr, arr]); np.trace(arr)", "arr np"),
    row("rng.choice(arr.ravel(), 2)", "arr rng"),
    row("for q, w in tally(df):\n    print(q)", "df tally", "q w"),
    row("read('[1]')", "json read"),
    row(
        "with open(os.devnull) as fh:\n    try:\n        json.load(fh)\n    except ValueError:\n        pass",
        "json os",
        "fh",
    ),
    row("re.compile('a').match('b')", "re"),
    row("import pickle\npickle.dumps(df)", "Fare Ledger df read tally", "pickle", "", "json"),
    row("log.info('x %s', arr)", "arr log"),
    row("Counter(df['t']).most_common(1), defaultdict(list)", "Counter defaultdict df"),
    row("Path('.') / 'x', sys.version, time.time(), math.pi", "Path math sys time"),
    row("'google.colab' in sys.modules", "sys"),
    row("df.merge(df, on='n').pivot_table(index='n', values='t_x', aggfunc='count')", "df"),
    row("df.style, df.plot", "df"),
    row("np.load", "np"),
    row("print(arr.dtype, file=sys.stderr)", "arr sys"),
]

FUNCTIONS = """a = 1; b = 2; c = 3; xs = [1, 2]; zero = 0
import functools
def f(): return a
def g(): return f()
def h(q): return g() if q else c
def setter():
    global b
    b = 2
class K:
    def __init__(self): self.v = b
    def m(self): return c
    def __repr__(self): return str(a)
class F:
    def __bool__(self): return bool(c)
    def __hash__(self): return len(xs)
falsy = F()
k = K()
p = functools.partial(f)
box = [f]
deep = {'f': [(g,)]}
bound = k.m
it = (a for q in xs)
lazy = map(f, [])"""
FUNCTION_ROWS = [
    row("f()", "a f"),
    row("h(1)", "a f g h", "", "", "c"),
    row("h(0)", "c h", "", "", "a f g"),
    row("w = h", "h", "w"),
    row("xs.append(f)", "f xs", "", "", "a"),
    row("p()", "a p"),
    row("box[0]()", "a box"),
    row("deep['f'][0][0]()", "a deep f"),
    row("bound()", "bound c", "", "", "a b"),
    row("next(it)", "a it"),
    row("list(map(f2, xs)) if zero else 1", "zero"),
    row("match k:\n    case q if (r := falsy): c", "falsy k c", "q r", "", "a b xs"),
    row("d = {falsy}", "falsy xs", "d", "", "c"),
    row("k", "a k", "", "", "b c"),
    row("k.v", "k", "", "", "a b c"),
    row("K", "K", "", "", "a b c"),
    row("kk = K()", "K b", "kk", "", "a c"),
    row("k.m()", "c k", "", "", "a b"),
    row("kk = k", "k", "kk"),
    row("print(f'{k}')", "a k", "", "", "b c"),
    row("K.m(k)", "K c k", "", "", "a b"),
    row("isinstance(k, K)", "K k", "", "", "a b c"),
    row("def f(): return b", "", "f"),
    row("def f(): return b\ng()", "b g", "f"),
    row("g()\ndef f(): return b", "a f g", "f", "", "b"),
    row("del f", "", "", "f"),
    row("f = 1", "", "f"),
    row("setter()", "setter", "b"),
    row("w = setter", "setter", "w"),
    row("w = functools.partial(f)\nw()", "a f functools", "w"),
    row("[q() for q in box]", "a box"),
    row("for q in box: q()", "a box", "q"),
    row("list(map(f3, [])) if zero else f()", "a f zero"),
    row("class L(K): pass", "K", "L"),
    row("class L(K):\n    def m(self): return zero\nL().m()", "K b zero", "L", "", "a c"),
    row("try:\n    h(1)\nexcept Exception:\n    b", "a f g h", "", "", "c"),
    row("import threading\nt = threading.Thread(target=f); t.start(); t.join()", "a f", "t threading"),
    row("f() if zero else g", "g zero", "", "", "a f"),
    row("%time f()", "a f"),
    row("%timeit -n1 -r1 g()", "a f g"),
    row("!true {f()}", "a f"),
    row("import pickle\npickle.dumps(k.v)", "F K f g h k setter", "pickle", "", "a b c"),
    row("f() or g() or h(zero)", "a f"),
]

FRAMES = """import pandas as pd
df = pd.DataFrame({'n': [1, 2]})
x = 1; y = 2; q = 'n > @x'
def f(s): return s.query('n > @y')
def g(s, e): return s.query(e)
def unused(): return y"""
FRAME_ROWS = [
    row("df", "df"),
    row("df.n.sum()", "df"),
    row("df.query('n > @x')", "df x"),
    row("df.query(q)", "df q x"),
    row("df.query(f'n > {x}')", "df x"),
    row("z = 'n > @x'\ndf.query(z)", "df x", "z"),
    row("z = 'n > @'\nz += 'x'\ndf.query(z)", EVERY, "z"),
    row("df.query(q.strip())", EVERY),
    row("df.eval('z = n + @y')", "df y"),
    row("pd.eval('x + y')", "pd x y"),
    row("f(df)", "df f y"),
    row("g(df, q)", EVERY),
    row("df.apply(lambda r: x)", "df x"),
    row("df.loc[0] = 1", "df"),
    row("getattr(df, 'query')('n > @x')", EVERY),
    row("w = df.query\nw('n > @x')", EVERY, "w"),
    row("[df.query][0]('n > @x')", EVERY),
    row("list(map(df.query, ['n > @x']))", EVERY),
    row("import operator\noperator.methodcaller('query', 'n > @x')(df)", EVERY, "operator"),
    row("def h(s): return list(map(s.query, ['n > @x']))\nh(df)", EVERY, "h"),
    row("def h(s): return getattr(s, 'query')('n > @x')\nh(df)", EVERY, "h"),
    row("def h(s): return s.query('n > @x', engine='python')\nh(df)", "df x", "h"),
    row("from pandas import eval as w\nw('x + y')", EVERY, "w"),
    row("from urllib.parse import urlparse\nurlparse('//n?x').query", "", "urlparse"),
]

READERS = """import duckdb, numexpr, numpy as np, pandas as pd, patsy, polars as pl
df = pd.DataFrame({'n': [1.0, 2.0], 'm': [2.0, 1.0]})
pdf = pl.DataFrame({'n': [1, 2]})
arr = np.arange(3.0); k = np.ones(3); x = 1; unused = [1]
con = duckdb.connect(); held = con.sql; sentence = 'from df'; parsed = duckdb.extract_statements('from df')[0]
from duckdb import sql
def double(v): return v * 2
def add(k): return numexpr.evaluate('k + arr')
def design(d): return patsy.dmatrix('double(n)', d)
def rows(): return duckdb.sql('from df').fetchall()"""
READER_ROWS = [
    row("numexpr.evaluate('arr * 2 + k')", "arr k numexpr"),
    row("e = 'arr + 1'\nnumexpr.evaluate(e)", "arr numexpr", "e"),
    row("numexpr.evaluate('arr + k'); numexpr.re_evaluate()", EVERY),
    row("from numexpr import evaluate as q\nq('arr + k')", EVERY, "q"),
    row("add(k)", "add arr k numexpr"),
    row("patsy.dmatrix('double(n)', df)", "df double patsy"),
    row("patsy.dmatrices('m ~ np.log(n)', df)", "df np patsy"),
    row("q = patsy.ModelDesc.from_formula('double(n)')\npatsy.dmatrix(q, df)", EVERY, "q"),
    row("design(df)", "design df double patsy"),
    row("duckdb.sql('from df').fetchall()", "df duckdb"),
    row("duckdb.sql(sentence).fetchall()", "df duckdb sentence"),
    row("duckdb.sql(f'from df where n > {x}').fetchall()", "df duckdb x"),
    row("sql('from df').fetchall()", "df sql"),
    row("list(map(sql, ['from df']))", EVERY),
    row("duckdb.view('df').fetchall()", "df duckdb"),
    row("con.table('df').fetchall()", "con df"),
    row("con.execute('select sum(n) from df').fetchall()", "con df"),
    row("held('from df').fetchall()", EVERY),
    row("duckdb.execute(parsed).fetchall()", EVERY),
    row("q = duckdb.sql('from df')\nq.query('v', 'select sum(n) from v').fetchall()", "df duckdb", "q"),
    row("duckdb.query_df(pd.DataFrame({'n': [1]}), 'v', sentence).fetchall()", EVERY),
    row("rows()", "df duckdb rows"),
    row("pl.sql('select sum(n) from pdf').collect()", "pdf pl"),
    row("pl.SQLContext.execute_global('select sum(n) from pdf')", "pdf pl"),
    row("pl.SQLContext(register_globals=True)", EVERY),
]
