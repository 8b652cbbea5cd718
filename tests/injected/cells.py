"""Random cell sequences over a handful of names, as texts that any kernel can run.

Any name may hold anything, so many a cell fails: it then counts as never run, as in a line of states.
"""

from __future__ import annotations

from hypothesis import strategies as st

PRELUDE = """
import collections, enum, functools, types, weakref
import numpy as np
l1, l2, d1, d2 = [], [1], {}, {"k": "v"}
class C1:
    def get(self): return self.v
class C2(C1): pass
o1, o2 = C1(), C2()
def f1(p=1): return p
def f2(p=2): return o1
a1, a2 = np.arange(12.0).reshape(3, 4), np.zeros((2, 4), order="F")
x1 = x2 = None
"""
KINDS = {"l": ("l1", "l2"), "d": ("d1", "d2"), "C": ("C1", "C2"), "o": ("o1", "o2"), "f": ("f1", "f2")}
KINDS |= {"a": ("a1", "a2"), "x": ("x1", "x2")}
NAMES = tuple(name for names in KINDS.values() for name in names)

# {l} stands for a list's name, {d} a dict's, {C} a class's, {o} an instance's, {f} a function's, {a} an array's,
# {x} any other value's, {y} and {z} for any name at all, {n} for a small number.
_TEMPLATES = (
    "{l} = [{y}, {z}]",
    "{d} = {{'k': {y}, {n}: {z}}}",
    "{x} = ({y}, {z})",
    "{x} = {y}",
    "{l} = [[], {{}}, {n}, 'text', None, {n}.5, b'b']",
    "{x} = object()",
    "{x} = {{1, 'a', {n}, (2, 'b')}}",
    "{d} = {{{f}: {z}, {C}: {y}, {o}: 1}}",
    "{x} = bytearray(b'{n}')",
    "{l} = collections.deque([{y}], maxlen={n} + 1)",
    "{d} = collections.OrderedDict(k={y}, l={z})",
    "{d} = collections.defaultdict(list, k={y})",
    "{o} = types.SimpleNamespace(v={y}, w={z})",
    "{l}.append({y})",
    "{l}.append({l})",
    "{d}['n'] = {y}",
    "{d}['me'] = {d}",
    "{l}.insert(0, {y})",
    "{a}[0] = {n}",
    "{o}.v = {y}",
    "{l}.clear()",
    "del {y}",
    "{x} = {l}[0]",
    "{x} = {d}['k']",
    "{x} = {o}.v",
    "{C} = type({o})",
    "class {C}:\n    kept = {y}\n    def get(self): return self.v\n    def put(self, v): self.v = v",
    "class {C}({C}):\n    more = [{z}]\n    def get(self): return super().get()",
    "class {C}:\n    __slots__ = ('v', 'w', '__h')\n    def __init__(self, v=None): self.v, self.__h = v, [v]",
    "class {C}(enum.Enum):\n    A = {n}\n    B = 'b'\n    def get(self): return {y}\n{o} = {C}.A",
    "class {C}(enum.Flag):\n    A = 1\n    B = 2\n{o} = {C}.A | {C}.B",
    "class {C}(list):\n    note = {y}\n{l} = {C}([{z}])",
    "class {C}(dict):\n    def __missing__(self, key): return key\n{d} = {C}(k={y})",
    "class {C}(Exception):\n    def __init__(self, c, w): super().__init__(w); self.v = c\n{o} = {C}({y}, {n})",
    "class Meta(type):\n    made = {y}\n    def __call__(cls, *a): return super().__call__(*a)\n"
    "class {C}(metaclass=Meta):\n    kept = {z}\n{o} = {C}()\ndel Meta",
    "class {C}:\n    @property\n    def p(self): return {y}\n    @staticmethod\n    def s(): return {z}\n"
    "    @classmethod\n    def m(cls): return cls",
    "class {C}:\n    inner = {C}\n    def __eq__(self, other): return True\n    __hash__ = None\n{o} = {C}()",
    "class {C}:\n    def me(self): return __class__\n    alias = me",
    "{C}.self = {C}",
    "{o} = collections.namedtuple('{x}', 'v w')({y}, {z})",
    "{o} = {C}()",
    "{o} = {C}({z})",
    "{o} = {C}()\n{o}.v = {o}",
    "{x} = {o}.get",
    "{x} = {C}.get",
    "{x} = {l}.append",
    "{x} = {C}.m",
    "{C}.kept = {y}",
    "{C}.get = {f}",
    "def {f}(p={y}):\n    return {z}",
    "def {f}(p={y}, *, q={z}):\n    global {z}; {z} = p",
    "def make(q):\n    def put(v):\n        nonlocal q; q = v\n    def get(): return q\n    return put, get\n"
    "f1, f2 = make({z}); del make",
    "{f}({y})",
    "def make(q):\n    class Local:\n        v = q\n        def get(self): return Local, q\n    return Local\n"
    "{C} = make({y}); del make",
    "def make():\n    def again(): return again\n    again.note = {y}\n    return again\n{f} = make(); del make",
    "{l} = [lambda: {y}, lambda k={z}: k]",
    "{x} = functools.partial({f}, {z})",
    "{f} = functools.wraps({f})(lambda *p: {z})",
    "@functools.cache\ndef {f}(p): return [p]\n{x} = {f}({n})",
    "{f}.note = {y}",
    "{a} = np.arange({n}.0)",
    "{a} = np.zeros(({n} + 2, 4), order='F')",
    "{a} = np.arange(20_000) + {n}",
    "{a} = np.empty(3, dtype=object); {a}[0] = {y}; {a}[1] = {z}",
    "{a} = np.zeros(3, dtype=[('n', 'i4'), ('x', 'f8')])",
    "{x} = {a}['x']",
    "{a} = {a}[1::2]",
    "{x} = {a}[::-1]",
    "{x} = {a}.T",
    "{x} = {a}[:1]",
    "{a} = {a}.reshape(2, -1)",
    "{x} = {a}.ravel()",
    "{x} = {a}.copy(); {x}.flags.writeable = False",
    "{x} = {a}.view(); {x}.flags.writeable = False",
    "{l} += [{n}]",
    "{a} += {n}",
    "{x} = ({y},) * 2",
    "{x} = weakref.ref({o}), weakref.WeakValueDictionary(k={o}), {o}",
    "{x} = types.MappingProxyType({d})",
    "{x} = iter({l})",
    "{x} = slice({y}, None), range({n}), ..., 1j, 2**100, frozenset([{n}])",
)

_choices = {kind: st.sampled_from(names) for kind, names in KINDS.items()}
_choices |= {"y": st.sampled_from(NAMES), "z": st.sampled_from(NAMES), "n": st.integers(2, 5)}
_fillings = st.fixed_dictionaries(_choices)
cell = st.builds(lambda template, filling: template.format(**filling), st.sampled_from(_TEMPLATES), _fillings)
sequence = st.lists(st.tuples(cell, st.booleans()), min_size=4, max_size=30)
"""Cells, each with whether it is run in a kernel that never ran anything."""
