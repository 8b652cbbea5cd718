"""A real notebook, cell by cell through REST, against the same notebook in a plain ipykernel.

Every cell runs from the state of the cell before it. What it shows must be what the plain kernel shows:
text exactly, pictures byte for byte. Then every cell is executed again from the state before it, in other
orders and in kernels that never ran anything, and must show the same once more.

Left out of the comparison is the execution count, for a reason: a cell that fails gives no state, hence does
not advance ours, while a plain kernel's counter goes on. Up to that cell the two must agree.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import nbformat
import pytest

from tests.bare import DISPLAY_OPTIONS, bare_kernel, comparable
from tests.concurrency import background
from tests.support import ROOT, Client, Server

NOTEBOOK = ROOT / "tests" / "notebooks" / "analysis.ipynb"
HASH_SEED = "20240229"


class Cell(NamedTuple):
    """A code cell of the notebook."""

    code: str
    fails: bool


class Run(NamedTuple):
    """One cell's run: the state it started from, and its reply."""

    cell: Cell
    start: str
    reply: dict[str, Any]


def code_cells() -> list[Cell]:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    return [
        Cell(cell.source, "raises-exception" in cell.metadata.get("tags", ()))
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


@pytest.fixture(scope="module")
def client(nothing_left_behind: None) -> Iterator[Client]:
    """A server whose home has the hash seed that the plain kernel gets too."""
    server = Server(pool_size=2, env={"PYTHONHASHSEED": HASH_SEED})
    try:
        yield server.ready().client
    finally:
        server.close()


@pytest.fixture(scope="module")
def runs(client: Client) -> list[Run]:
    """Every cell run once, from top to bottom; a failing cell keeps the state before it."""
    state, done = "initial", []
    for number, cell in enumerate(code_cells()):
        reply = client.execute(cell.code, state, f"after-{number}")
        done.append(Run(cell, state, reply))
        state = reply["state_name"] or state
    return done


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> list[list[dict[str, Any]]]:
    """The outputs of every cell in a plain kernel."""
    folder: Path = tmp_path_factory.mktemp("plain")
    with bare_kernel(env={"PYTHONHASHSEED": HASH_SEED}, cwd=folder) as kernel:
        kernel.run(DISPLAY_OPTIONS, silent=True)
        return [kernel.run(cell.code) for cell in code_cells()]


def test_only_the_failing_cell_fails(runs: list[Run]) -> None:
    assert [run.reply["error"] is not None for run in runs] == [run.cell.fails for run in runs]
    assert sum(run.cell.fails for run in runs) == 1


def test_outputs_are_valid_notebook_outputs(runs: list[Run]) -> None:
    notebook = nbformat.v4.new_notebook()
    for run in runs:
        for output in run.reply["output"]:
            nbformat.validate(output, "output", version=4)
        cell = nbformat.v4.new_code_cell(run.cell.code, execution_count=run.reply["execution_count"])
        cell.outputs = [nbformat.from_dict(output) for output in run.reply["output"]]
        notebook.cells.append(cell)
    nbformat.validate(notebook)


def test_outputs_are_those_of_a_plain_kernel(runs: list[Run], plain: list[list[dict[str, Any]]]) -> None:
    for run, expected in zip(runs, plain, strict=True):
        assert comparable(run.reply["output"]) == comparable(expected), run.cell.code
    kinds = {mime for outputs in plain for o in outputs for mime in o.get("data", {})}
    assert {"text/plain", "text/html", "text/markdown", "image/png"} <= kinds


def test_the_count_is_that_of_a_plain_kernel_up_to_the_failure(
    runs: list[Run], plain: list[list[dict[str, Any]]]
) -> None:
    for number, (run, expected) in enumerate(zip(runs, plain, strict=True), 1):
        assert run.reply["execution_count"] == number
        counts = [o["execution_count"] for o in run.reply["output"] if "execution_count" in o]
        assert counts == [o["execution_count"] for o in expected if "execution_count" in o]
        if run.cell.fails:
            break
    following = runs[number]
    assert following.reply["execution_count"] == number


@pytest.mark.parametrize("order", ["backwards", "shuffled"])
def test_every_cell_shows_the_same_again(client: Client, runs: list[Run], order: str) -> None:
    again = list(reversed(runs))
    if order == "shuffled":
        random.Random(5).shuffle(again)
    for run in again:
        check_same(run, client.execute(run.cell.code, run.start))


def test_two_at_a_time_show_the_same(client: Client, runs: list[Run]) -> None:
    half = len(runs) // 2
    for early, late in zip(runs[:half], reversed(runs[half:]), strict=False):
        other = background(client.execute, early.cell.code, early.start)
        check_same(late, client.execute(late.cell.code, late.start))
        check_same(early, other.result(60))


@pytest.mark.parametrize("number", [2, 6, 11, 14, 15, 16, 18, 19])
def test_a_cell_in_a_fresh_kernel_shows_the_same(client: Client, runs: list[Run], number: int) -> None:
    run = runs[number]
    check_same(run, client.execute(run.cell.code, run.start, isolation="fresh"))


def check_same(run: Run, again: dict[str, Any]) -> None:
    """Here the execution count is compared too: it belongs to the state."""
    assert again["output"] == run.reply["output"], run.cell.code
    assert again["execution_count"] == run.reply["execution_count"]
    for symbols in ("accessed_symbols", "modified_symbols", "deleted_symbols"):
        assert again[symbols] == run.reply[symbols], (symbols, run.cell.code)
