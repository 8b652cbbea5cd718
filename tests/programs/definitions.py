"""Classes and functions of all kinds, made in one cell and used, changed and asked in later ones."""

from __future__ import annotations

from tests.programs import Program

CLASSES = Program(
    "classes",
    (
        "import abc, enum, typing\nfrom dataclasses import dataclass, field, fields, replace, KW_ONLY\n"
        "from collections import namedtuple\n"
        "class Meta(type):\n    made = []\n    def __new__(meta, name, bases, ns, tag='none'):\n"
        "        cls = super().__new__(meta, name, bases, ns); cls.tag = tag; "
        "meta.made.append(name); return cls\n"
        "    def __init__(cls, name, bases, ns, tag='none'): super().__init__(name, bases, ns)\n"
        "    def __len__(cls): return len(cls.tag)\n"
        "class Base(metaclass=Meta): pass\nclass Child(Base, tag='kid'): pass\nMeta.made, "
        "Child.tag, len(Child)",
        "class Late(Child, tag='late'): pass\nMeta.made, len(Late), type(Late) is Meta, "
        "Late.__mro__[1] is Child",
        "class Shape(abc.ABC):\n    @property\n    @abc.abstractmethod\n    def area(self): ...\n"
        "    @classmethod\n    def unit(cls): return cls(1)\n"
        "class Square(Shape):\n    def __init__(self, side): self.side = side\n"
        "    @property\n    def area(self): return self.side ** 2\n"
        "    @area.setter\n    def area(self, value): self.side = value ** 0.5\n"
        "@Shape.register\nclass Foreign: pass\nsq = Square(3); sq.area",
        "sq.area = 16; sq.side, isinstance(Foreign(), Shape), issubclass(int, Shape), Square.unit().side",
        "try: Shape()\nexcept TypeError as error: print(error)\nsorted(Shape.__abstractmethods__)",
        "class Color(enum.Enum):\n    RED = 1\n    GREEN = 'g'\n    def low(self): return self.name.lower()\n"
        "class Perm(enum.Flag):\n    R = 4\n    W = 2\n    X = 1\n"
        "class Num(enum.IntEnum):\n    ONE = enum.auto()\n    TWO = enum.auto()\n"
        "class Word(str, enum.Enum):\n    HI = 'hi'\n"
        "red, rw, shelf = Color.RED, Perm.R | Perm.W, {Color.GREEN: [Num.TWO]}",
        "red is Color.RED, Color('g') in shelf, rw & Perm.R is Perm.R, list(Perm), Perm.X in rw, red.low()",
        "rw, ~rw, Num.TWO + 1, Word.HI == 'hi', Color['RED'] is red, shelf[Color.GREEN][0] is "
        "Num.TWO, Word('hi')",
        "@dataclass(order=True)\nclass Row:\n    n: int\n    tags: list = "
        "field(default_factory=list, compare=False)\n"
        "    _: KW_ONLY\n    hidden: str = field(default='h', repr=False)\n"
        "@dataclass(frozen=True)\nclass Point:\n    x: int = 0\n    y: int = 0\n"
        "rows = [Row(2), Row(1, ['a'])]; seen = {Point(1, 2): 'here'}\nsorted(rows)",
        "rows[0].tags.append('t'); rows, seen[Point(1, 2)], replace(Point(1), y=5), [f.name for f "
        "in fields(Row)]",
        "try: Point().x = 3\nexcept Exception as error: print(type(error).__name__, error)\n"
        "Row(1) == Row(1, ['z']), Row(3).tags, Row(3).tags is Row(3).tags, Point.__match_args__",
        "Pair = namedtuple('Twin', 'l r', defaults=[9])\nclass Typed(typing.NamedTuple):\n    a: "
        "int\n    b: str = 'b'\n"
        "pr, ty = Pair(1), Typed(2)\npr, ty",
        "pr._replace(l=4), ty.b, Typed._fields, Pair._field_defaults, type(pr) is Pair, Typed(2) == "
        "ty, pr == (1, 9)",
        "T = typing.TypeVar('T')\nclass Box(typing.Generic[T]):\n    def __init__(self, v: T): self.v = v\n"
        "    def get(self) -> T: return self.v\nIntBox = Box[int]\n"
        "@typing.runtime_checkable\nclass Gets(typing.Protocol):\n    def get(self): ...\nb = Box(3)",
        "IntBox, IntBox(4).get(), isinstance(b, Gets), isinstance(3, Gets), Box.__parameters__ == (T,), "
        "typing.get_type_hints(Box.get)['return'] is T",
        "class Slim:\n    __slots__ = ('a', '__b', 'w')\n    def __init__(self): self.a, self.__b = 1, [2]\n"
        "    def b(self): return self.__b\nclass Slimmer(Slim):\n    __slots__ = 'c'\ns, t = "
        "Slim(), Slimmer(); t.c = s",
        "s.b().append(3); s.a, t.c.b(), t.c is s, hasattr(s, 'w'), hasattr(s, '__dict__'), "
        "hasattr(t, '__dict__')",
        "class Positive:\n    def __set_name__(self, owner, name): self.name = '_' + name; "
        "self.owner = owner.__name__\n"
        "    def __get__(self, obj, owner=None): return self if obj is None else getattr(obj, self.name)\n"
        "    def __set__(self, obj, value):\n        if value < 0: raise ValueError(self.name)\n"
        "        setattr(obj, self.name, value)\n"
        "class Account:\n    total = Positive()\n    def __init__(self): self.total = 5\nacc = Account()",
        "acc.total, Account.total.owner, Account.__dict__['total'] is Account.total",
        "try: acc.total = -1\nexcept ValueError as error: print(error)\nacc.total += 2; acc.total, vars(acc)",
        "class Plugin:\n    registry = {}\n    def __init_subclass__(cls, /, key=None, **rest):\n"
        "        super().__init_subclass__(**rest); Plugin.registry[key] = cls; print('registered', key)\n"
        "class A(Plugin, key='a'): pass",
        "class B(A, key='b'): pass\nsorted(Plugin.registry), Plugin.registry['a'] is A, B.__bases__[0] is A",
        "def tagged(cls):\n    cls.tag = cls.__name__.upper(); cls.all = [cls]; return cls\n"
        "@tagged\nclass Deco:\n    def who(self): return __class__.__name__, "
        "super().__repr__()[:10]\nDeco.tag",
        "Deco.all[0] is Deco, Deco().who()[0], Deco.all.append(3), Deco.all[1:]",
        "class V:\n    n = 1\n    def who(self): return 'old', self.n\nold = V(); Old = V",
        "class V:\n    n = 2\n    def who(self): return 'new', self.n\nnew = V(); old.who(), new.who()",
        "old.who(), new.who(), isinstance(old, V), type(old) is Old, Old is V, Old.__name__",
        "V.extra = []; V.who = lambda self: 'patched'; Old.n = 10\nnew.who(), old.who()",
        "new.who(), old.who(), V.extra, hasattr(Old, 'extra')",
        "class Tree:\n    def __init__(self, up=None): self.up, self.kids = up, []\n"
        "    def add(self): kid = Tree(self); self.kids.append(kid); return kid\n"
        "    class Cursor:\n        at = 0\n        def __repr__(self): return f'Cursor({self.at})'\n"
        "root = Tree(); leaf = root.add().add(); cur = Tree.Cursor()",
        "leaf.up.up is root, root.kids[0].kids[0] is leaf, type(leaf) is Tree, cur, Tree.Cursor.__qualname__",
        "class Counter(dict):\n    def __missing__(self, key): return 0\n"
        "class Stack(list):\n    limit = 3\n    def push(self, v): self.append(v); return len(self)\n"
        "class Err(Exception):\n    def __init__(self, code, why): super().__init__(why); self.code = code\n"
        "c, st, er = Counter(a=1), Stack([1, 2]), Err(4, 'why'); st.mark = 'm'; c.self = c",
        "c['nope'], c['a'], st.push(3), st.mark, type(st) is Stack, er.code, er.args, "
        "isinstance(er, Err), c.self is c",
        "st, c, len(st), er",
        "try: raise er\nexcept Err as e: print(e, e.code, e is er, type(e) is Err)",
        "class Lazy:\n    def __getattr__(self, name):\n        if name.startswith('_'): raise "
        "AttributeError(name)\n"
        "        return 'lazy ' + name\n    def __call__(self, *a): return a\n    def __eq__(self, "
        "o): return True\n"
        "    __hash__ = None\nlz = Lazy(); lz.real = 1; fn = lz",
        "lz.other, lz.real, lz(1, 2), lz == 5, fn is lz, Lazy.__hash__",
        "import inspect\nprint(inspect.getsource(Tree.add))",
        "class Zero:\n    def __setstate__(self, state): self.__dict__.update(state, back=True)\n"
        "class Above(Zero): pass\nclass Below(Above): pass\nab = Below(); ab.v = 1; ab.hi = None\n"
        "def method(self): return self.v\nAbove.m = method; method.note = ab; ab_m = ab.m; name = Below.m\nab.back = 0",
        "ab.back = 0; name is method is Above.m, ab_m(), ab_m.__self__ is ab, method.note.v, ab.back",
        "class Tool:\n    @staticmethod\n    def s(): 'Doc.'\n    @classmethod\n    def m(cls): return cls\n"
        "Tool.__dict__['s'].note = [1]; order = [k for k in vars(Tool) if k[0] != '_']\n"
        "class Mixed:\n    a = 1\n    def b(self): ...\n    c = []\n    def d(self): ...\nTool.m() is Tool",
        "Tool.__dict__['s'].note, Tool.s.__doc__, Tool.m() is Tool, [k for k in vars(Mixed) if k[0] != '_'], order",
        "class Cfg:\n    level: int = 1\n    opts: dict = {'a': [1]}\nopts = Cfg.opts; mine = "
        "Cfg(); mine.level = 7",
        "opts['a'].append(2); Cfg.opts, mine.opts is opts, mine.level, Cfg.level, Cfg.__annotations__",
        "del Cfg.level\nhasattr(Cfg, 'level'), mine.level, Cfg.opts is opts",
    ),
    fresh=(1, 7, 9, 14, 16, 21, 26, 32, 39),
)

FUNCTIONS = Program(
    "functions",
    (
        "import functools, contextlib, itertools, operator, inspect\n"
        "def counter(start=0):\n    n = start\n    def up(k=1):\n        nonlocal n; n += k; return n\n"
        "    def peek(): return n\n    return up, peek\nup, peek = counter(); up(); up(5)",
        "up(), peek()",
        "other_up, other_peek = counter(100); box = {'fns': [up, other_peek]}\nother_up(), box['fns'][1]()",
        "box['fns'][0] is up, box['fns'][0](), peek(), other_peek()",
        "def logged(fn):\n    @functools.wraps(fn)\n    def inner(*a, **k):\n        inner.calls += 1\n"
        "        return fn(*a, **k)\n    inner.calls = 0\n    return inner\n"
        "@logged\ndef add(a, b=2, *rest, c=3, **more):\n    'Adds.'\n    return a + b + c + "
        "sum(rest)\nadd(1)",
        "add(1, 2, 3, c=4), add.calls, add.__wrapped__.__name__, add.__doc__, inspect.signature(add)",
        "add.calls, add.__name__, add.__wrapped__.__kwdefaults__, add.__wrapped__.__defaults__",
        "seen = []\n@functools.lru_cache(maxsize=None)\ndef slow(x): seen.append(x); return [x * 2]\n"
        "@functools.lru_cache(maxsize=2)\ndef small(x): seen.append(-x); return x\n"
        "@functools.cache\ndef fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)\n"
        "slow(3), small(1), small(2), fib(30)",
        "slow(3), slow(4), seen, fib(31)",
        "slow.__wrapped__(9), seen[-1], small(2), small(7), small(2)",
        "@functools.singledispatch\ndef kind(v): return 'any'\n@kind.register\ndef _(v: int): return 'int'\n"
        "@kind.register(list)\ndef _list(v): return 'list'\nkind(1), kind([]), kind('')",
        "class Own: pass\n@kind.register\ndef _(v: Own): return 'own'\nkind(Own()), kind(True), kind(2.0)",
        "kind(Own()), kind([]), len(kind.registry), kind.dispatch(int)(3)",
        "def power(base, exp): return base ** exp\nsquare = functools.partial(power, exp=2)\n"
        "cube = functools.partial(square, exp=3); cube.note = 'n'\nget = operator.itemgetter(1); at "
        "= operator.attrgetter('func')",
        "square(5), cube(2), cube.func is power, cube.note, get('abc'), at(cube) is power",
        "handlers = {'f': power, 'm': [].append, 's': str.upper, 'b': len}; f = handlers['f']\nf is power",
        "handlers['f'] is f is power, handlers['s']('x'), handlers['b']('abc'), handlers['m'](1)",
        "lst = []; push = lst.append; push(1); lst",
        "push(2); lst, push.__self__ is lst",
        "class Obj:\n    def __init__(self): self.v = 1; self.cb = self.bump\n    def bump(self): "
        "self.v += 1; return self.v\n"
        "    @staticmethod\n    def st(): return 'st'\n    @classmethod\n    def cl(cls): return "
        "cls.__name__\n"
        "ob = Obj(); bump = ob.bump; st, cl = Obj.st, Obj.cl; bump()",
        "bump(), ob.v, ob.cb(), ob.v, st(), cl(), bump.__self__ is ob",
        "total = 0\ndef accumulate(n):\n    global total, born\n    total += n; born = True\n    "
        "return helper(total)\n"
        "def helper(n): return n * 10\naccumulate(2)",
        "accumulate(3), total, born",
        "def helper(n): return -n\naccumulate(1), total",
        "total, accumulate(0), accumulate.__globals__ is globals(), helper.__globals__ is globals()",
        "def mutable(v, acc=[]): acc.append(v); return acc\nmutable(1); acc = mutable.__defaults__[0]",
        "mutable(2), acc, acc is mutable.__defaults__[0]",
        "fns = [lambda k=k: k * 10 for k in range(3)]; late = [lambda: q for q in range(3)]\n[f() "
        "for f in fns]",
        "[f() for f in fns], [f() for f in late]",
        "@contextlib.contextmanager\ndef noted(name):\n    print('enter', name)\n    try: yield name\n"
        "    finally: print('leave', name)\nclass Guard:\n    depth = 0\n    def __enter__(self): "
        "Guard.depth += 1; return self\n"
        "    def __exit__(self, *a): Guard.depth -= 1; return a[0] is KeyError\nguard = Guard()",
        "with noted('x') as n, guard: print(n, Guard.depth); {}['k']\nGuard.depth",
        "def gen(n):\n    for k in range(n): yield k\nlist(gen(3)), sum(gen(4)), "
        "[*itertools.islice(gen(9), 2)]",
        "list(gen(2)), inspect.isgeneratorfunction(gen)",
        "def rec(n): return 1 if n == 0 else n * rec(n - 1)\nfact = rec\ndel rec\ntry: "
        "fact(3)\nexcept NameError as e: print(e)",
        "rec = fact; fact(5)",
        "print(inspect.getsource(gen)); print(inspect.getsource(add)); inspect.getsourcelines(accumulate)[1]",
        "def boom(d):\n    # a comment\n    return d['age'] / 0\nclass Job:\n    def run(self): "
        "return boom({'age': 1})",
        "import traceback\ntry: Job().run()\nexcept ZeroDivisionError: print(traceback.format_exc())",
        "import sys\ntry: boom({})\nexcept KeyError as e: print([f.name for f in "
        "traceback.extract_tb(e.__traceback__)],"
        " [f.line for f in traceback.extract_tb(e.__traceback__)])",
        "boom({})",
        "deep = functools.reduce(lambda acc, _: (lambda: acc), range(5), 'core')\ndeep()()()()()",
        "deep()()()()()",
        "def outer():\n    class Local:\n        def me(self): return Local, shared\n    shared = "
        "[1]\n    return Local, shared\n"
        "L, sh = outer(); L2 = L; inst = L()",
        "inst.me()[0] is L is L2, inst.me()[1] is sh, type(inst) is L, L.__qualname__",
        "annotated: int = 3\ndef typed(a: int, b: 'list[str]' = None) -> dict[str, int]: return {}\n"
        "typed.__annotations__, __annotations__",
        "typed.__annotations__, __annotations__",
    ),
    fresh=(3, 8, 12, 14, 20, 23, 36, 43),
)

SHARING = Program(
    "sharing",
    (
        "a = [1]; b = a; box = {'x': a, 't': (a, 'k')}; nest = [[a], box]\nMISSING = object(); opts "
        "= {'k': MISSING}",
        "a.append(2); b, box['t'][0], nest[0][0] is a, opts['k'] is MISSING",
        "ring = [1]; ring.append(ring); d = {}; d['me'] = d; d['ring'] = ring; tw = (ring, d)\nring",
        "ring[1] is ring, d['me']['me'] is d, tw[0] is ring, tw[1]['ring'][1] is ring",
        "pair = (1, [2]); p2 = pair; holder = {'p': pair}; key = frozenset({1, 2}); byset = {key: 'v'}",
        "p2 is pair is holder['p'], next(iter(byset)) is key, byset[frozenset({2, 1})]",
        "a = 'other'; b.append(3)\nbox['x'], nest[0][0] is b",
        "del b, nest\nbox['x'] is box['t'][0], box['x']",
        "class N: pass\nx, y = N(), N(); x.peer, y.peer = y, x; group = {x: 1, y: 2}; cls = N; "
        "kinds = [N, N]",
        "x.peer.peer is x, group[y], kinds[0] is cls is N, type(x.peer) is N, len({*kinds})",
        "x.peer = None; [k.peer is x for k in group if k.peer is not None]",
        "import numpy as np\ngrid = np.arange(24.0).reshape(4, 6); row, block = grid[1], grid[1:3, ::2]\n"
        "flip = grid[::-1]; flat = grid.ravel(); tr = grid.T",
        "row[0] = 99; grid[1, 0], block[0, 0], flip[2, 0], flat[6], tr[0, 1], row.base is not None",
        "block[1, 1] = -5; grid, np.shares_memory(block, grid), np.shares_memory(flip, tr)",
        "block.strides, tr.flags.f_contiguous, tr.flags.owndata, grid.base is None, flip.strides",
        "ro = grid.view(); ro.flags.writeable = False; fo = np.asfortranarray(np.arange(6).reshape(2, 3))\n"
        "rec = np.zeros(3, dtype=[('n', 'i4'), ('x', 'f8')]); xs = rec['x']; ob = np.array([[1], "
        "'a', None], dtype=object)\n"
        "sub = ob[:2]; big = np.zeros(100_000); win = big[10:20]; lone = np.ones(50_000)",
        "xs[1] = 2.5; win[:] = 7; sub[0].append(2); grid[0, 0] = -1\n"
        "rec, big[9:21], ob, ro[0, 0], fo.flags.f_contiguous, ro.flags.writeable, sub[0] is ob[0]",
        "sub[1] = 'new'; ob, win.sum(), big.sum(), rec.dtype.names, win.base is big, lone.flags.owndata",
        "big.resize(5) if False else None; lone.resize(10); lone",
        "cube = np.arange(8).reshape(2, 2, 2); views = [cube[0], cube[..., 1], cube.swapaxes(0, "
        "2)]; del cube\nviews[0]",
        "views[0][1, 1] = 50; views[1], views[2]",
        "m = memoryview(bytearray(b'abc')); ba = bytearray(b'xyz'); bs = {'v': ba}\nbytes(m)",
        "ba += b'!'; bs['v'], bs['v'] is ba",
        "mat = np.eye(3); mats = {'m': mat, 'diag': np.diagonal(mat)}; masked = "
        "np.ma.masked_array([1, 2, 3], [0, 1, 0])\n"
        "ten = np.broadcast_to(np.array([1, 2]), (2, 2)); empty = np.empty((0, 3)); zero = np.array(5.0)",
        "mat[0, 0] = 8; mats['diag'], masked, masked.sum(), ten, empty.shape, zero[()], ten.strides",
        "from collections import OrderedDict, defaultdict, deque, Counter, ChainMap\n"
        "od, dd, dq, ct = OrderedDict(b=1, a=2), defaultdict(list), deque([1, 2], maxlen=3), Counter('aab')\n"
        "dd['k'].append(dq); cm = ChainMap({'x': od}, dd)",
        "dq.append(3); dq.append(4); dd['k'][0] is dq, dq, dq.maxlen, cm['x'] is od, dd['new'], "
        "ct.most_common(1)",
        "od.move_to_end('b'); list(od), list(cm['x']), dd, cm.maps[1] is dd",
        "import datetime, decimal, fractions, pathlib, re, uuid, types, array\n"
        "many = [datetime.date(2024, 1, 2), decimal.Decimal('1.10'), fractions.Fraction(1, 3), "
        "pathlib.PurePosixPath('/a/b'),"
        " re.compile('(?i)a+'), uuid.UUID(int=5), types.SimpleNamespace(a=1), array.array('d', [1, "
        "2]), range(3),"
        " slice(1, None), 1j, ..., NotImplemented, bytes(2), memoryview, type(None), int | str, list[int]]",
        "many",
        "ns = many[6]; ns.self = ns; ns2 = ns; many[6] is ns, many[4].findall('AaB'), many[-1].__origin__",
        "ns2.self is ns, ns.a, many[6].self is ns2",
        "import weakref\nclass Node: pass\nnd = Node(); ref = weakref.ref(nd); reg = "
        "weakref.WeakValueDictionary(k=nd)\nref() is nd",
        "ref() is nd, reg['k'] is nd, dict(reg) == {'k': nd}",
        "gen = (k * k for k in range(5)); it = iter([1, 2, 3]); next(gen); rest = [7]",
        "rest.append(8); rest",
        "z = zip([1, 2], 'ab'); en = enumerate('xy'); mp = map(str, [1, 2]); rv = reversed([1, 2]); "
        "next(z); next(en)",
        "list(z), list(en), list(mp), list(rv), next(it)",
        "next(it), list(it)",
        "import io\nbuf = io.StringIO(); buf.write('one '); alias = buf; raw = io.BytesIO(b'abc'); "
        "raw.read(1);",
        "alias.write('two'); buf.getvalue(), raw.read()",
    ),
    fresh=(3, 9, 13, 16, 20, 27, 33, 37),
    needs=("numpy",),
)
