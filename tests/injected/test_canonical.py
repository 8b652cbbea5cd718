"""Content hashes, alias groups and fingerprints of values made by small programs, in this process."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from bridge.injected import canonical

SETUP = """
import collections, dataclasses, functools, weakref
import numpy as np, pandas as pd
def nothing(): pass
"""


def made(program: str, *, first_line: int = 1) -> dict[str, Any]:
    """The names that a program binds, as a notebook would."""
    scope: dict[str, Any] = {"__name__": "__main__"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(SETUP, scope)
        before = set(scope)
        exec(compile("\n" * first_line + program, f"<cell {first_line}>", "exec"), scope)
    return {name: value for name, value in scope.items() if name not in before}


# Programs that leave equal values in `a` and `b`.
EQUAL = [
    "a = {1, 9, 17, 'x'}; b = {'x', 17, 9, 1}",
    "a = ['ab' * 2] * 2; b = ['abab', ''.join(['ab', 'ab'])]",
    "a = [[1], [1]]; one = [1]; b = [one, one]",
    "a = np.arange(6).reshape(2, 3); b = np.asfortranarray(a)",
    "a = np.arange(6)[::2]; b = a.copy()",
    "a = pd.DataFrame({'x': [1, 2], 'y': ['p', 'q']}).iloc[:1]; b = a.copy()",
    "a = pd.DataFrame({'x': [1, 2], 'y': [3, 4]}); b = pd.DataFrame(np.array([[1, 3], [2, 4]]), columns=['x', 'y'])",
    "a = pd.Index(['p', 'q']); b = pd.Index(['p', 'q']); b.get_loc('q'); b.is_unique",
    "a = pd.Series(range(4), pd.MultiIndex.from_product([[1, 2], ['x', 'y']])).iloc[:2]\n"
    "b = pd.Series(range(2), pd.MultiIndex.from_tuples([(1, 'x'), (1, 'y')]))",
    *[
        f"a = pd.Series([1, 0, 1]).astype('{dtype}'); a.array.dtype; repr(a); b = a.copy()"
        for dtype in (
            "Int64",
            "Float64",
            "boolean",
            "string",
            "category",
            "datetime64[ns]",
            "timedelta64[ns]",
        )
    ],
    "a = pd.Series(pd.period_range('2020', periods=3)); repr(a); b = a.copy()",
    "a = lambda x: x in {'p', 'q', 'r'}\nb = lambda x: x in {'r', 'q', 'p'}\na.__name__ = b.__name__",
]

# Programs that leave different values in `a` and `b`.
DIFFERENT = [
    "a = 1; b = 1.0",
    "a = [1]; b = [True]",
    "a = [0.0]; b = [-0.0]",
    "a = {1: 1, 2: 2}; b = {2: 2, 1: 1}",
    "a = np.zeros(2, [('x', 'i4'), ('y', 'O')]); b = np.zeros(2, [('z', 'i4'), ('y', 'O')])",
    "a = np.array([1, 'x'], object); b = np.array([[1, 'x']], object)",
    "a = np.ma.array([1, 2], mask=[0, 1]); b = np.ma.array([1, 2], mask=[1, 0])",
    "a = pd.Timestamp('2020', tz='Europe/Berlin'); b = a.tz_convert('UTC')",
    "a = pd.Series(pd.Categorical(['x'], ['x', 'y'])); b = pd.Series(pd.Categorical(['x'], ['y', 'x']))",
    "a = pd.Series([1, None], dtype='Int64'); b = pd.Series([1, 1], dtype='Int64')",
    "a = pd.MultiIndex.from_tuples([(1, 2)], names=['x', 'y']); b = a.rename(['y', 'x'])",
    "a, b = lambda x: x + 1, lambda x: x + 2",
    "a, b = lambda x, y: 0, lambda x, *, y: 0",
    "a, b = lambda x, y: 0, lambda x, /, y: 0",
    "a, b = lambda: 0.0, lambda: -0.0",
    "def a(x: int): pass\ndef b(x: str): pass\nb.__name__ = b.__qualname__ = 'a'",
    "class a: 'one'\nclass b: 'two'\nb.__name__ = b.__qualname__ = 'a'",
    "def make(n): return lambda: n\na, b = make(1), make(2)",
]

# Definitions whose content does not depend on where they stand.
MOVED = [
    "def f(x, *, y=[1]):\n  'doc'\n  return lambda: x",
    "class f:\n  x = 1\n  @functools.cached_property\n  def p(self): return {1}\n  @staticmethod\n  def s(): pass",
    "@dataclasses.dataclass\nclass f:\n  x: int = 1\n  y: list = dataclasses.field(default_factory=list)",
    "f = collections.namedtuple('f', 'x y')(1, 2)",
    "@functools.wraps(nothing)\ndef f(): pass",
]

# Programs and the groups that they leave; names that share nothing are left out.
GROUPS = [
    ("a = np.arange(6); b = a[1:]; c = a.T; d = a.copy()", ["a b c"]),
    ("m = np.ma.array([1], mask=[0]); d = m.data; k = m.mask", ["d k m"]),
    ("a = pd.DataFrame({'x': [1, 2]}); b = a.copy(); c = a.index; d = pd.Series([1, 2], index=c)", []),
    (
        "def make():\n  n = 1\n  def f():\n    nonlocal n\n    n += 1\n  return f, lambda: n\nf, g = make()",
        ["f g"],
    ),
    ("l = []\ndef f(x=l): pass\ndef g(*, x=l): pass\ndef h(): pass\nh.x = l", ["f g h l"]),
    ("l = []\nclass C:\n  x = l", ["C l"]),
    ("class C: pass\na = C(); b = C(); w = weakref.ref(a)", ["a w"]),
    ("class C:\n  def f(self): pass\nc = C(); m = c.f", ["c m"]),
    ("def f(): pass\ng = f; h = [f]; i = {1: f}", []),
    ("l = [1]; p = functools.partial(print, l); t = (l,); m = l.append", ["l m p t"]),
    ("k = 'abc'; x = ...; r = range(3); t = (1, 2); a = [k, x, r, t, print]; b = [k, x, r, t, print]", []),
    ("l = [1]\ndef g(x): yield x\nz = g(l); y = g(2)", ["l z"]),
]

# Pairs of programs: the names' values are equal, what they share is not.
SHARING = [
    ("x = [1]; y = [x, x]", "x = [1]; y = [x, [1]]"),
    ("x = np.arange(6); y = x[1:]", "x = np.arange(6); y = x[1:].copy()"),
    ("z = np.zeros(6); x = z[:2]; y = z[:2]", "z = np.zeros(6); x = z[:2]; y = z[2:4]"),
    ("z = np.zeros(6); x = z[:2]; y = z[:2]", "z = np.zeros(6); x = z[:2]; y = z[:4:2]"),
    (
        "def make():\n  n = []\n  return (lambda: n), (lambda: n)\nx, y = make()",
        "def make():\n  n = []\n  return (lambda: n), (lambda: n)\nx, y = make()[0], make()[1]",
    ),
    ("class x: l = []\ny = x.l", "class x: l = []\ny = []"),
    ("def x(l=[]): pass\ny = x.__defaults__[0]", "def x(l=[]): pass\ny = []"),
    (
        "class C:\n  def __hash__(self): return 1\nc = C(); x = {c}; y = [c]",
        "class C:\n  def __hash__(self): return 1\nx = {C()}; y = [C()]",
    ),
]

# Pairs whose values are equal and that share the same, as far as can be felt.
ALIKE = [
    ("x = 'ab' * 2; y = [x, x]", "x = 'ab' * 2; y = [x, ''.join(['ab', 'ab'])]"),
    ("x = (1, 2); y = [x, x]", "x = (1, 2); y = [x, tuple([1, 2])]"),
    ("x = lambda: 1; y = [x, x]", "x = lambda: 1; y = [x, lambda: 1]"),
    ("x = {(1, 2), (3, 4), 'p', 'q'}; y = 1", "x = {'q', 'p', (3, 4), (1, 2)}; y = 1"),
    ("x = np.arange(6); y = x[1:]", "unused = np.zeros(9); x = np.arange(6); y = x[1:]"),
    ("x = [np.ones((2, 3)), np.ones((2, 3))]; y = 1", "x = [np.ones((2, 3)), np.ones((3, 2)).T]; y = 1"),
    ("def x(n): return x(n - 1)\ndef make():\n  def y(): return y\n  return y\ny = make()",) * 2,
]


def _sharing(program: str) -> str:
    values = made(program)
    return canonical.fingerprint({name: values[name] for name in ("x", "y")})


@pytest.mark.parametrize("program", EQUAL)
def test_equal_values_have_one_hash(program: str) -> None:
    values = made(program)
    assert canonical.content_hash(values["a"]) == canonical.content_hash(values["b"])


@pytest.mark.parametrize("program", DIFFERENT)
def test_different_values_have_different_hashes(program: str) -> None:
    values = made(program)
    assert canonical.content_hash(values["a"]) != canonical.content_hash(values["b"])


@pytest.mark.parametrize("program", MOVED)
def test_definitions_have_the_hash_of_their_content_not_of_their_place(program: str) -> None:
    here, there = made(program)["f"], made(program, first_line=9)["f"]
    assert canonical.content_hash(here) == canonical.content_hash(there)


@pytest.mark.parametrize(("program", "expected"), GROUPS)
def test_names_are_grouped_by_the_mutable_objects_they_share(program: str, expected: list[str]) -> None:
    groups = [sorted(group) for group in canonical.alias_groups(made(program)) if len(group) > 1]
    assert groups == [group.split() for group in expected]


@pytest.mark.parametrize(("one", "other"), SHARING)
def test_what_is_shared_shows_in_the_fingerprint(one: str, other: str) -> None:
    assert _sharing(one) != _sharing(other)
    for name, value in made(one).items():
        if name in "xy":
            assert canonical.content_hash(value) == canonical.content_hash(made(other)[name])


@pytest.mark.parametrize(("one", "other"), ALIKE)
def test_what_cannot_be_felt_does_not_show_in_the_fingerprint(one: str, other: str) -> None:
    assert _sharing(one) == _sharing(other)
