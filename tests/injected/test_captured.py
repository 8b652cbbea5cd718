"""Definitions as source: what is recorded of a cell, what takes it back, and where a failing cell failed."""

from __future__ import annotations

import ast
import asyncio
import inspect
import sys
from typing import Any

import pytest

from bridge.injected.captured import Captured, bound, looked_up


class Cells:
    """Runs cells as IPython does, one statement after the other, and has them captured."""

    def __init__(self) -> None:
        self.scope: dict[str, Any] = {}
        self.captured = Captured(self.scope)
        self._flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT

    def run(self, code: str) -> dict[str, str]:
        error: BaseException | None = None
        try:
            for node in ast.parse(code).body:
                made = compile(ast.Module([node], []), "<cell>", "exec", self._flags)
                if made.co_flags & inspect.CO_COROUTINE:
                    asyncio.run(eval(made, self.scope))
                else:
                    exec(made, self.scope)
        except Exception as raised:
            error = raised
        self.captured.after_cell(code, error, "<cell>")
        return self.captured.sources()


RECORDED: list[tuple[str, list[str], list[str]]] = [
    ("a function", ["def f():\n    return 1"], ["f"]),
    (
        "async, class, decorated",
        ["import functools\n@functools.cache\ndef f(): ...\nasync def g(): ...\nclass C: ..."],
        ["functools", "f", "g", "C"],
    ),
    (
        "each import by its own name",
        ["import os.path, sys as s\nfrom math import pi, tau as t"],
        ["os", "s", "pi", "t"],
    ),
    (
        "nothing nested",
        [
            "if True:\n    def f(): ...\ntry:\n    import os\nfinally:\n    pass\n"
            "with open('/dev/null'):\n    class C: ..."
        ],
        [],
    ),
    ("later assignment", ["def f(): ...", "f = 1"], []),
    ("assignment to the same object", ["def f(): ...", "g = f\nf = g"], []),
    ("augmented", ["class C(int): ...\ndef n(): ...", "n = 1\nn += 1"], ["C"]),
    ("annotation alone binds nothing", ["def f(): ...", "f: int"], ["f"]),
    ("delete", ["def f(): ...", "del f"], []),
    ("loop target", ["def f(): ...", "for f in [1]: pass"], []),
    ("with target", ["def f(): ...", "with open('/dev/null') as f: pass"], []),
    ("unpacked target", ["def f(): ...\ndef g(): ...", "(f, [g]) = 1, [2]"], []),
    ("rebound inside an if", ["def f(): ...\nif True:\n    f = 1"], []),
    ("rebound inside a later if", ["def f(): ...", "if True:\n    f = 1"], []),
    ("an if that was not taken", ["def f(): ...", "if False:\n    f = 1"], ["f"]),
    ("rebound by a function", ["def f():\n    global f\n    f = 1", "f()"], []),
    ("a comprehension's own name", ["def f(): ...", "[f for f in [1]]"], ["f"]),
    ("a walrus", ["def f(): ...", "(f := 1)"], []),
    ("the latest wins and comes last", ["def f(): ...\ndef g(): ...", "def f(): return 2"], ["g", "f"]),
    ("defined again after a value", ["f = 1\ndef f(): ..."], ["f"]),
    ("a star tells no names", ["from math import *"], []),
]


@pytest.mark.parametrize(
    ("cells", "names"), [(c, n) for _, c, n in RECORDED], ids=[i for i, _, _ in RECORDED]
)
def test_what_is_recorded(cells: list[str], names: list[str]) -> None:
    runner, found = Cells(), {}
    for cell in cells:
        found = runner.run(cell)
    assert list(found) == names


def test_sources_are_whole() -> None:
    runner = Cells()
    source = "@dec(\n    1,\n)\ndef f(a):  # why\n    return '''x\ny'''"
    found = runner.run(f"def dec(n): return lambda f: f\n{source}\nimport os, sys")
    assert found["f"] == source
    assert (found["os"], found["sys"]) == ("import os", "import sys")
    assert runner.run("def f(): return 2")["f"] == "def f(): return 2"


FAILURES = [
    (
        "two calls of one function",
        "def bad(n):\n    if n: raise ValueError\ndef a(): ...\nbad(0)\ndef b(): ...\nbad(1)\ndef c(): ...",
        ["bad", "a", "b"],
    ),
    (
        "inside a called function",
        "def outer(): inner()\ndef inner():\n    1 / 0\nouter()\ndef c(): ...",
        ["outer", "inner"],
    ),
    ("statements that bind nothing", "1\n'text'\nprint()\ndef a(): ...\npass\n1 / 0\ndef c(): ...", ["a"]),
    (
        "a failing decorator",
        "def a(): ...\ndef dec(f): raise ValueError\n@dec\ndef b(): ...\ndef c(): ...",
        ["a", "dec"],
    ),
    ("a failing default", "def a(): ...\ndef b(x=1 / 0): ...\ndef c(): ...", ["a"]),
    ("a failing class body", "def a(): ...\nclass B:\n    x = 1 / 0\nclass C: ...", ["a"]),
    (
        "an awaited call",
        "async def slow(): raise ValueError\nimport os\nawait slow()\ndef c(): ...",
        ["slow", "os"],
    ),
    ("a failing import", "def a(): ...\nimport no_such_module_here\ndef c(): ...", ["a"]),
    ("a loop that bound a name", "def a(): ...\ndef f(): ...\nfor f in [1, 0]: 1 / f\ndef c(): ...", ["a"]),
    ("on one line", "import os; import sys; 1 / 0; import re", ["os", "sys"]),
    ("a statement of many lines", "def a(): ...\nx = [\n    1,\n    1 / 0,\n]\ndef c(): ...", ["a"]),
    (
        "re-raised",
        "def a(): ...\ntry:\n    1 / 0\nexcept ZeroDivisionError as e:\n    err = e\n"
        "def b(): ...\nraise err\ndef c(): ...",
        ["a", "b"],
    ),
    ("what cannot be compiled in its turn", "def a(): ...\nreturn\ndef c(): ...", ["a"]),
]


@pytest.mark.parametrize(("cell", "names"), [(c, n) for _, c, n in FAILURES], ids=[i for i, _, _ in FAILURES])
def test_a_failed_cell_gives_what_came_before(cell: str, names: list[str]) -> None:
    if sys.version_info < (3, 11) and cell.startswith("import os; "):
        names = []  # without columns the first statement of the line counts as the failing one
    assert list(Cells().run(cell)) == names


def test_what_a_definition_looks_up_while_it_runs() -> None:
    source = "@dec\ndef f(a=default, *, b: note = 1) -> result:\n    return inside"
    assert looked_up(source) == {"dec", "default", "note", "result"}
    assert looked_up("class C(Base, metaclass=Meta):\n    x = value\n    def m(self): inside") == {
        "Base",
        "Meta",
        "value",
    }


def test_every_way_to_bind() -> None:
    code = (
        "try:\n    import a.b\nexcept E as c:\n    (d := 1)\nfor e, [f] in []:\n    del g\nwith h as i: pass\n"
        "match j:\n    case {'k': l, **m}: pass\n    case [n, *o] as p: pass\ndef q(r): s = 1\nclass t: u = 1\n"
        "[v for v in w]\nlambda x: x"
    )
    found = {name for statement in ast.parse(code).body for name in bound(statement)}
    assert found == {"a", "c", "d", "e", "f", "g", "i", "l", "m", "n", "o", "p", "q", "t"}
