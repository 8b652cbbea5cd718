"""Programs that run notebooks, nbclient and papermill, get from the bridge kernel what they get from ipykernel."""

from __future__ import annotations

import copy
import re
import uuid
from pathlib import Path
from typing import Any

import nbformat
import papermill
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from bridge.store.home import Home
from bridge.store.store import Store
from tests.support import ROOT

NOTEBOOKS = sorted((ROOT / "tests" / "notebooks").glob("*.ipynb"))
WAIT = 120
"""Seconds that one cell may take."""


@pytest.fixture(autouse=True)
def same_hashes(jupyter: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets of strings have one order in both kernels."""
    monkeypatch.setenv("PYTHONHASHSEED", "20240229")
    monkeypatch.delenv("PYTEST_CURRENT_TEST", raising=False)


def run(notebook: nbformat.NotebookNode, kernel: str, folder: Path, **options: Any) -> nbformat.NotebookNode:
    """A copy of the notebook after nbclient has run it, with that folder as the working folder."""
    ran = copy.deepcopy(notebook)
    resources = {"metadata": {"path": str(folder)}}
    NotebookClient(ran, kernel_name=kernel, timeout=WAIT, resources=resources, **options).execute()
    return ran


def joined(outputs: list[Any]) -> list[Any]:
    """Outputs with texts of one stream that follow each other as one."""
    found: list[Any] = []
    for output in outputs:
        if found and output["output_type"] == "stream" and output["name"] == found[-1].get("name"):
            found[-1] = {**found[-1], "text": found[-1]["text"] + output["text"]}
        else:
            found.append(output)
    return found


def comparable(notebook: nbformat.NotebookNode) -> Any:
    """A notebook without what two runs of one kernel differ in: times, random ids, addresses, process numbers.

    And in how many messages a text came: ipykernel sends what is written when a timer says so.
    """
    names: dict[str, str] = {}
    accident = re.compile(r"[0-9a-f]{32}|0x[0-9a-f]{6,}|(?<=ipykernel_)\d+")

    def plain(value: Any) -> Any:
        if isinstance(value, str):
            return accident.sub(lambda found: names.setdefault(found[0], f"<{len(names)}>"), value)
        if isinstance(value, dict):
            if "outputs" in value:
                value = {**value, "outputs": joined(value["outputs"])}
            return {
                plain(key): plain(item)
                for key, item in value.items()
                if key not in ("execution", "papermill", "kernelspec")
            }
        return [plain(item) for item in value] if isinstance(value, list) else value

    return plain(notebook)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_o10_nbclient_gets_the_outputs_of_ipykernel(path: Path, tmp_path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    ours, plain = (comparable(run(notebook, kernel, tmp_path)) for kernel in ("bridge", "python3"))
    for mine, theirs in zip(ours["cells"], plain["cells"], strict=True):
        assert mine == theirs
    assert ours == plain


def test_papermill_gets_the_outputs_of_ipykernel(tmp_path: Path) -> None:
    path = ROOT / "tests" / "notebooks" / "controls.ipynb"
    notebook = nbformat.read(path, as_version=4)
    notebook.cells = [
        cell for cell in notebook.cells if "raises-exception" not in cell.metadata.get("tags", ())
    ]
    notebook.cells[2].metadata["tags"] = ["parameters"]
    given = tmp_path / "given.ipynb"
    nbformat.write(notebook, given)
    ran = [
        papermill.execute_notebook(
            given,
            tmp_path / f"{kernel}.ipynb",
            parameters={"portion": 3},
            kernel_name=kernel,
            cwd=tmp_path,
            progress_bar=False,
            log_output=False,
            execution_timeout=WAIT,
        )
        for kernel in ("bridge", "python3")
    ]
    ours, plain = map(comparable, ran)
    # papermill gives the cell that it puts in a random name.
    for notebook in (ours, plain):
        for cell in notebook["cells"]:
            cell.pop("id")
    assert ours == plain


def test_a_cell_that_fails_ends_the_run_as_it_does_with_ipykernel(tmp_path: Path) -> None:
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(code) for code in ("x = 1", "x / 0", "x = 2")]
    )
    said = []
    for kernel in ("bridge", "python3"):
        with pytest.raises(CellExecutionError) as caught:
            run(notebook, kernel, tmp_path)
        said.append((caught.value.ename, caught.value.evalue, caught.value.traceback))
    assert said[0] == said[1]


def test_a_notebook_outlives_its_kernel(tmp_path: Path) -> None:
    cells = ["kept = [1]", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "kept + [2]"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code) for code in cells])
    ran = run(notebook, "bridge", tmp_path, allow_errors=True)
    died, after = ran.cells[1].outputs, ran.cells[2].outputs
    assert [(output.output_type, output.get("ename")) for output in died] == [("error", "KernelDied")]
    assert "SIGKILL" in died[0].evalue
    assert after[0].data["text/plain"] == "[1, 2]"


def test_every_cell_leaves_a_state_in_the_home(jupyter: Path, tmp_path: Path, monkeypatch: Any) -> None:
    name = f"{uuid.uuid4().hex}.ipynb"
    monkeypatch.setenv("JPY_SESSION_NAME", name)
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(f"x = {n}") for n in range(3)])
    run(notebook, "bridge", tmp_path)
    home = Home.open(jupyter / "home")
    store = Store(home)
    try:
        found = [store.find(name, state) for state in store.names(name)]
        codes = [state.code for state in found if state is not None]
    finally:
        store.close()
        home.close()
    assert [code for code in codes if code] == ["x = 0", "x = 1", "x = 2"]
