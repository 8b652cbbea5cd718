"""Random cells in a real kernel, each from the state before it: what they leave is what they leave in one namespace.

Here a cell is saved as it is in earnest: only what its code can have touched is looked at.
"""

from __future__ import annotations

import inspect
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings

from bridge import Kernel
from bridge.settings import Settings
from tests.injected import describing
from tests.injected.cells import NAMES, PRELUDE, sequence
from tests.injected.test_namespaces import TRUSTED, Cells, new_scope, run
from tests.support import text_of

LOOK = f"{inspect.getsource(describing)}\nprint(describe(globals(), {NAMES!r}))"
OTHER_LINE = f"{PRELUDE}\nl1 = d1 = C1 = o1 = f1 = a1 = x1 = 'another'"


@pytest.fixture(scope="module")
def kernel(nothing_left_behind: None) -> Iterator[Kernel]:
    made = Kernel(Settings(ephemeral=True, pool_size=1))
    try:
        yield made
    finally:
        made.close()


def check(kernel: Kernel, cells: Cells) -> None:
    """Run the cells in one namespace, and each from the state before it, with another line in between."""
    scope, state = new_scope(), "initial"
    for number, cell in enumerate([PRELUDE, *(cell for cell, _ in cells)]):
        reply = execute(kernel, cell, state, f"s{number}")
        if reply["error"] is not None:
            continue  # a random cell that fails leaves no state: it counts as never run
        assert run(cell, scope), f"fails in a plain namespace alone: {cell}"
        state = reply["state_name"]
        assert not reply["state"]["skipped"], f"after {cell!r}: {reply['state']['skipped']}"
        execute(kernel, OTHER_LINE, "initial", "other")
        looked = execute(kernel, LOOK, state, "looked")
        assert looked["error"] is None, looked["error"]
        assert text_of(looked) == describing.describe(scope, NAMES) + "\n", f"after {cell!r}"


def execute(kernel: Kernel, code: str, state: str, new: str) -> dict[str, Any]:
    return kernel.execute(code, uuid.uuid4().hex, state, new)


@settings(max_examples=6, derandomize=True, **TRUSTED)
@given(cells=sequence)
def test_a_line_of_states_is_one_namespace(kernel: Kernel, cells: Cells) -> None:
    check(kernel, cells)


@pytest.mark.soak
@settings(max_examples=500, **TRUSTED)
@given(cells=sequence)
def test_many_lines_of_states_are_one_namespace_each(kernel: Kernel, cells: Cells) -> None:
    check(kernel, cells)
