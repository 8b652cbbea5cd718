"""Values that pickle takes wrongly: saved and loaded in one process, each as one name of a small namespace."""

from __future__ import annotations

import io
import json
import pickle
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from bridge.injected import blobs, memos, picklers, reducers
from bridge.injected.ledger import Ledger
from bridge.injected.loader import Loader, Source
from bridge.injected.parts import Part
from bridge.injected.saver import Saver


class Bench:
    """Saves a namespace of which every name may have changed, and loads it into another."""

    def __init__(self, folder: Path, code: str) -> None:
        self.folder = blobs.Folder(str(folder))
        self.module = types.ModuleType("__main__")
        self.scope = vars(self.module)
        exec(code, self.scope)
        names = [name for name in self.scope if not name.startswith("_")]
        saver = Saver(Ledger(), self.scope, self.folder, "n", picklers.Spare())
        self.parts = saver.save([Part({name: self.scope[name]}) for name in names])
        self.records = [saver.record(part) for part in self.parts if part.failure is None]

    def units(self) -> list[list[str]]:
        """The names of each unit that has names."""
        return sorted(record["roots"] for record in self.records if record["roots"])

    def failures(self) -> dict[str, str]:
        """Why each name was not saved."""
        return {root: part.failure for part in self.parts for root in part.roots if part.failure is not None}

    def problems(self) -> list[str]:
        """What was reported of names that were saved."""
        return [problem["reason"] for record in self.records for problem in record["problems"]]

    def ask(self, question: str) -> Any:
        """Evaluate an expression over what is loaded into an empty namespace."""
        module = types.ModuleType("__main__")
        loader = Loader(Ledger(), vars(module), self.folder)
        sources = []
        for part, record in zip(
            (each for each in self.parts if each.failure is None), self.records, strict=True
        ):
            sources.append(Source(json.loads(json.dumps(record)), part.data))
        loader.load(sources)
        assert loader.failed == []
        vars(module).update(loader.values)
        return eval(question, vars(module))


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    def make(code: str) -> Bench:
        made = Bench(tmp_path, code)
        monkeypatch.setitem(sys.modules, "__main__", made.module)
        return made

    # Classes of the code under test are a notebook's own: they must not be found in a module.
    monkeypatch.setitem(sys.modules, "__main__", types.ModuleType("__main__"))
    return make


BACK = {
    "an instance whose class says what its __new__ takes": (
        "class N:\n    def __new__(cls, a):\n        o = object.__new__(cls); o.made = a; return o\n"
        "    def __getnewargs__(self): return ('told',)\nn = [N(3), N(4)]",
        "[type(each).__name__ + str(each.made) for each in n]",
        ["N3", "N4"],
    ),
    "an instance that has nothing to be told": (
        "class E:\n    def __setstate__(self, state): self.told = state\ne = [E(), E()]; e[1].a = 1",
        "[vars(each) for each in e]",
        [{}, {"told": {"a": 1}}],
    ),
    "instances with slots beside attributes": (
        "class S:\n    __slots__ = ('a',)\nclass T(S): pass\nt = [T(), T(), S()]\n"
        "t[0].a = 1; t[0].b = 2; t[2].a = [3]",
        "(t[0].a, t[0].b, vars(t[1]), hasattr(t[1], 'a'), t[2].a)",
        (1, 2, {}, False, [3]),
    ),
    "a view of a dict follows the dict": (
        "d = {'a': 1}; v = [d, d.keys()]",
        "(v[0].update(b=2), type(v[1]).__name__, list(v[1]))[1:]",
        ("dict_keys", ["a", "b"]),
    ),
    "an iterator over values": ("i = iter({'a': 1, 'b': 1}.values()); next(i)", "(type(i).__name__, list(i))",
        ("dict_valueiterator", [1])),
    "an iterator over items, backwards": ("i = reversed({'a': 1, 'b': 2}.items())", "list(i)",
        [("b", 2), ("a", 1)]),
    "an iterator over a set": ("i = iter({1, 2})", "(type(i).__name__, sorted(i))", ("set_iterator", [1, 2])),
    "an object that answers for every attribute": (
        "class P:\n    def __init__(self): self.inner = {'a': 1}\n"
        "    def __getattr__(self, name): return self.inner[name]\np = P()",
        "p.a",
        1,
    ),
    "one that has slots too": (
        "class P:\n    __slots__ = ('inner',)\n    def __init__(self): self.inner = {'a': 1}\n"
        "    def __getattr__(self, name): return self.inner[name]\np = P()",
        "p.a",
        1,
    ),
    "the cause and context of an exception": (
        "e = ValueError('v'); e.__cause__ = KeyError('k'); e.__context__ = OSError(2, 'o'); e.note = 1",
        "(e.args, e.__cause__.args, e.__context__.errno, e.__suppress_context__, e.note)",
        (("v",), ("k",), 2, True, 1),
    ),
    "an exception whose __init__ takes something else": (
        "class E(OSError):\n    def __init__(self, a, b): super().__init__(a + b, 'text'); self.a = a\ne = E(1, 1)",
        "(type(e).__name__, e.errno, e.args, e.a)",
        ("E", 2, (2, "text"), 1),
    ),
    "a parser, whose mark is a text told by identity": (
        "import argparse\np = argparse.ArgumentParser(); _ = p.add_argument('--n', default=argparse.SUPPRESS)",
        "vars(p.parse_args([]))",
        {},
    ),
    "an array of the other byte order": (
        f"import numpy as np\na = np.arange(3, dtype='{'>' if sys.byteorder == 'little' else '<'}i4')",
        "(a.dtype.isnative, a.tolist())",
        (False, [0, 1, 2]),
    ),
    "an array over a bytearray": (
        "import numpy as np\nb = bytearray(8); a = np.frombuffer(b, 'u1')[2:4]",
        "(a.fill(7), list(b))[1]",
        [0, 0, 7, 7, 0, 0, 0, 0],
    ),
    "an array over bytes": (
        "import numpy as np\na = np.frombuffer(b'abc', 'u1')",
        "(a.tolist(), a.flags.owndata, a.base)",
        ([97, 98, 99], False, b"abc"),
    ),
    "a masked array without a mask, over an array": (
        "import numpy as np\na = np.arange(3); m = np.ma.array(a); h = np.ma.array([1], mask=[1], hard_mask=True)",
        "(m.mask is np.ma.nomask, h.hardmask, a.fill(7), m.tolist())",
        (True, True, None, [7, 7, 7]),
    ),
    "the attributes of an array's subclass": (
        "import numpy as np\nclass N(np.ndarray): pass\nn = np.arange(2).view(N); n.unit = 'm'",
        "(type(n) is N, n.unit, n.tolist())",
        (True, "m", [0, 1]),
    ),
    "a structured type": (
        "import numpy as np\nt = np.dtype([('a', 'i4'), ('b', 'f8')])",
        "(t.names, t.itemsize, t == np.dtype([('a', 'i4'), ('b', 'f8')]))",
        (("a", "b"), 12, True),
    ),
    "attributes of a frame": (
        "import pandas as pd\nclass F(pd.DataFrame):\n    _metadata = ['k']\n"
        "f = F({'a': [1]}); f.k = 5; f.attrs['x'] = 1",
        "(f.k, f.attrs, '_metadata' in vars(f))",
        (5, {"x": 1}, False),
    ),
    "a struct": ("import struct\ns = struct.Struct('<if')", "(s.format, s.size)", ("<if", 8)),
    "the user's own tuple under two names": ("t = (1, 2); d = {'k': t}; e = [t]", "d['k'] is t and e[0] is t", True),
}  # fmt: skip


@pytest.mark.parametrize("about", BACK)
def test_a_value_comes_back_as_it_was(bench: Any, about: str) -> None:
    code, question, expected = BACK[about]
    kept = bench(code)
    assert kept.failures() == {}
    assert kept.ask(question) == expected


APART = {
    "frames and series": "import pandas as pd\na = pd.DataFrame({'x': ['u', None]}); b = a.copy()\n"
    "c = pd.Series([1], name='s'); d = pd.Series(pd.array([1, None], 'Int64')); e = pd.array(['a', None], 'string')\n"
    "f = e.copy(); g = pd.date_range('2024-01-01', periods=2, freq='B'); h = g.copy()",
    "figures": "from matplotlib.figure import Figure\na, b = Figure(), Figure()\n"
    "for f in a, b: _ = f.subplots().plot([1, 2], marker='o')\ndel f",
    "masked and structured arrays": "import numpy as np\n"
    "a = np.ma.array([1], mask=[1]); b = np.ma.array([2], mask=[0])\n"
    "t = np.dtype([('a', 'i4')])\nc = np.zeros(2, t); d = np.zeros(2, t)\ndel t",
    "parsers": "import argparse, configparser\na, b = argparse.ArgumentParser(), argparse.ArgumentParser()\n"
    "c, d = configparser.ConfigParser(), configparser.ConfigParser()",
    "functions of one making": "f = lambda a: a + 1\ng = lambda b: b + 1",
    "a large dict and what is equal to its items": "d = {n: [n] for n in range(20_000)}; x = [[7], [8]]; y = {7: [7]}",
    "two large dicts": "a = {n: [n] for n in range(20_000)}; b = {n: [n] for n in range(20_000)}; c = [[1]]",
    "methods of built-in types": "a = [str.split]; b = {'k': str.split}; c = (NotImplemented,); d = [NotImplemented]",
}


@pytest.mark.parametrize("about", APART)
def test_strangers_are_stored_apart(bench: Any, about: str) -> None:
    kept = bench(APART[about])
    assert kept.failures() == {}
    together = [names for names in kept.units() if len(names) > 1]
    assert together == []


TOGETHER = {
    "a list in two estimators": (
        "class Kept:\n    def __init__(self, rows): self.rows = rows\n"
        "rows = [1]; a, b = Kept(rows), Kept(rows)\ndel rows",
        ["a", "b"],
    ),
    "axes of one figure": (
        "from matplotlib.figure import Figure\na, b = Figure().subplots(1, 2)",
        ["a", "b"],
    ),
    "axes of one figure of pyplot": (
        "import matplotlib; matplotlib.use('agg')\nimport matplotlib.pyplot as plt\na, b = plt.subplots(1, 2)[1]",
        ["a", "b"],
    ),
    "a constant in a dict": ("t = (1, 'x'); d = {'k': t}", ["d", "t"]),
    "an item of a large dict": ("d = {n: [n] for n in range(20_000)}; x = [[1], d[7]]", ["d", "x"]),
    "an instance far down in a large list": (
        "class P: pass\nd = [[P()] for n in range(20_000)]; x = {1: d[19_999][0]}; other = [P()]",
        ["d", "x"],
    ),
    "an item of two large dicts": (
        "a = {n: [n] for n in range(20_000)}; b = {n: [n] for n in range(20_000)}; b[1] = a[2]; other = [[1]]",
        ["a", "b"],
    ),
}


@pytest.mark.parametrize("about", TOGETHER)
def test_what_shares_stays_together(bench: Any, about: str) -> None:
    code, names = TOGETHER[about]
    try:
        assert names in bench(code).units()
    finally:
        if "matplotlib.pyplot" in sys.modules:
            sys.modules["matplotlib.pyplot"].close("all")


def test_what_needs_an_unsaveable_class_is_named_with_it(bench: Any) -> None:
    kept = bench(
        "import ctypes\nclass P(ctypes.Structure): _fields_ = [('a', ctypes.c_int)]\np = P(1); other = [1]"
    )
    assert kept.failures() == {
        "P": "the class P is made by PyCStructType, not by type",
        "p": "it needs P: the class P is made by PyCStructType, not by type",
    }
    assert kept.ask("other") == [1]


def test_a_function_over_what_cannot_be_saved_is_named_with_it(bench: Any) -> None:
    kept = bench(
        "def pair():\n    g = (n for n in 'ab')\n    return [lambda: next(g)], lambda: next(g)\n"
        "box, f = pair(); other = [1]"
    )
    assert kept.failures() == {"f": "it is a generator", "box": "it is a generator"}


def test_a_traceback_comes_back_without_its_frames_local_variables(bench: Any) -> None:
    kept = bench(
        "def f(a):\n    b = 1\n    1 / 0\ntry:\n    f(2)\nexcept ZeroDivisionError as error:\n    kept = error"
    )
    assert kept.problems() == ["the local variables in its traceback are not kept"]
    assert kept.ask("(type(kept), kept.args)") == (ZeroDivisionError, ("division by zero",))
    assert kept.ask("[frame.lineno for frame in __import__('traceback').extract_tb(kept.__traceback__)]") == [
        5,
        3,
    ]
    assert kept.ask("kept.__traceback__.tb_next.tb_frame.f_locals") == {"a": None}


def test_what_python_s_own_pickler_met_is_told_too() -> None:
    """dill's is one: its memo is a dict."""
    met, stranger = [1], [1]
    for kind in (pickle.Pickler, pickle._Pickler):  # type: ignore[attr-defined]
        pickler = kind(io.BytesIO(), 5)
        pickler.dump({n: [n] for n in range(300)} | {"met": met})
        probe = memos.Probe(pickler)
        assert [probe.has(each) for each in (met, stranger, [met], stranger)] == [True, False, False, False]
        assert any(each is met for each in memos.objects(pickler).values())


def test_a_pickle_that_leaves_no_room_in_memory_is_given_up() -> None:
    sink = picklers.Sink(room=lambda: 70_000_000)
    with pytest.raises(reducers.Unsaveable, match="memory is short"):
        pickle.dump([bytes([number]) * 1_000_000 for number in range(200)], sink)
    assert len(sink.getbuffer()) < 140_000_000


def test_a_library_s_object_that_does_not_load_is_named(
    bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fragile_library.py").write_text(
        "class Fragile:\n    def __setstate__(self, state): raise OSError('no such font')\n"
        "class Changed:\n    def __reduce__(self): return list, ()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    kept = bench("from fragile_library import Fragile, Changed\nf = Fragile(); f.a = 1; c = Changed()")
    assert kept.failures() == {
        "f": "what it saves does not load: OSError: no such font",
        "c": "it would come back as list",
    }
