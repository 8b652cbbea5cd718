"""Which definitions a line of cells leaves."""

from __future__ import annotations

import pytest

from bridge.engine.definitions import definitions

EVERYTHING = set("fgnmopABCx")


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["def f():\n    return 1"], {"f": "def f():\n    return 1"}),
        (["@g\n@n\ndef f(): ..."], {"f": "@g\n@n\ndef f(): ..."}),
        (["def f(): 1", "def f(): 2"], {"f": "def f(): 2"}),
        (["def f(): 1", "f = 3"], {}),
        (["def f(): 1", "del f"], {}),
        (["def f(): 1", "for f in []: pass"], {}),
        (["def f(): 1", "with o as f: pass"], {}),
        (["def f(): 1\nx = f"], {"f": "def f(): 1"}),
        (["if x:\n    def f(): 1"], {}),
        (["import os as o, sys as x"], {"o": "import os as o, sys as x", "x": "import os as o, sys as x"}),
        (
            ["async def f(): ...", "class A:\n    x = 1"],
            {"f": "async def f(): ...", "A": "class A:\n    x = 1"},
        ),
        (["%matplotlib inline\ndef f(): 1"], {"f": "def f(): 1"}),
        (["def broken(", "def f(): 1"], {"f": "def f(): 1"}),
        (["def elsewhere(): 1"], {}),
    ],
)
def test_definitions(cells: list[str], expected: dict[str, str]) -> None:
    assert definitions(cells, EVERYTHING) == expected
