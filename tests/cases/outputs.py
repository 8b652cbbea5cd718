"""What a cell shows: for each row, cells and exactly what comes out of each.

An output is written short: `("stdout", text)`, `("stderr", text)`, `("result", text)`, `("display", text)`,
`("image", mime)` for a bundle that holds a picture.
"""

from __future__ import annotations

from dataclasses import dataclass

ANYTHING = "*"
"""Stands for a text that differs from run to run."""


@dataclass(frozen=True)
class Showing:
    """One row; every cell runs from the state after the one before it."""

    id: str
    about: str
    cells: tuple[str, ...]
    expected: tuple[tuple[tuple[str, str], ...], ...]


CASES = (
    Showing(
        "O01",
        "clear_output(wait=True) clears when something new comes, not before",
        (
            "from IPython.display import clear_output\nprint('one'); clear_output(wait=True)",
            "print('a'); clear_output(wait=True); print('b')",
        ),
        ((("stdout", "one\n"),), (("stdout", "b\n"),)),
    ),
    Showing(
        "O02",
        "an update changes every output of its id, makes none, and spares what was cleared",
        (
            "from IPython.display import display, clear_output\n"
            "print('p', flush=True); h = display('old', display_id='k'); display('old', display_id='k')\n"
            "h.update('new')",
            "h.update('newer')",
            "q = display('x', display_id='q'); clear_output(); q.update('y'); print('alive')",
        ),
        (
            (("stdout", "p\n"), ("display", "'new'"), ("display", "'new'")),
            (),
            (("stdout", "alive\n"),),
        ),
    ),
    Showing(
        "O03",
        "carriage return and backspace leave the last frame of each line",
        (
            "import time\nfor k in range(4):\n    print(f'\\r{k}/3', end='', flush=True); time.sleep(0.05)",
            "print('ab\\b\\bXY')",
            "print('one\\r\\ntwo\\rTW')",
        ),
        ((("stdout", "3/3"),), (("stdout", "XY\n"),), (("stdout", "one\nTWo\n"),)),
    ),
    Showing(
        "O09",
        "a figure comes once, when it is drawn at the cell's end or is the result",
        (
            "%matplotlib inline\nimport matplotlib.pyplot as plt\nplt.plot([1, 2]);",
            "fig, ax = plt.subplots(); ax.plot([1]); plt.close(fig); fig",
            "import matplotlib; matplotlib.use('Agg')\nplt.plot([3, 4]); plt.show()",
            "plt.figure(); plt.plot([1]); 1 / 0",
            "print('no figure of the failed cell here')",
        ),
        (
            (("image", "image/png"),),
            (("image", "image/png"),),
            (("image", "image/png"),),
            (("error", "ZeroDivisionError"),),
            (("stdout", "no figure of the failed cell here\n"),),
        ),
    ),
    Showing(
        "O12",
        "names bound under a cell magic or by a shell assignment are names",
        ("%%time\nv = 41", "files = !echo hi", "print(v + 1, list(files))"),
        ((("stdout", ANYTHING),), (), (("stdout", "42 ['hi']\n"),)),
    ),
    Showing(
        "O13",
        "a lone surrogate costs neither its neighbours nor a traceback",
        ("print('before'); print('\\ud800'); print('after')",),
        ((("stdout", "before\n\\ud800\nafter\n"),),),
    ),
    Showing(
        "O14",
        "NaN in a JSON output is no NaN in the reply",
        ("display({'application/json': {'x': float('nan')}}, raw=True)",),
        ((("application/json", "{'x': None}"),),),
    ),
    Showing("O15", "a help page is no output of the cell", ("?len",), ((),)),
)
