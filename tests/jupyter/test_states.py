"""A state after every cell, and the way between them: the magics in a real kernel."""

from __future__ import annotations

from pathlib import Path

from tests.jupyter.kernels import notebook


def test_undo_and_redo_walk_along_the_cells(tmp_path: Path) -> None:
    with notebook(tmp_path) as nb:
        for code in ("x = 1", "x += 1", "x += 1"):
            nb.run(code)
        assert "back to s2 (cell [2]: x += 1)" in nb.run("%undo").text()
        assert nb.run("%undo").reply["execution_count"] == 5
        assert nb.value("x") == "1"
        nb.run("%undo")
        nb.run("%redo")
        assert nb.value("x") == "1"
        assert "s3" in nb.run("%checkout s3").text()
        assert nb.value("x") == "3"


def test_a_cell_in_which_the_kernel_ends_costs_no_variable(tmp_path: Path) -> None:
    with notebook(tmp_path) as nb:
        nb.run("x = [1]\ndef double(v):\n    return v * 2")
        died = nb.run("import os; os.kill(os.getpid(), 9)")
        assert died.reply["ename"] == "KernelDied"
        assert "signal 9 (SIGKILL)" in died.reply["evalue"]
        assert "state s1" in died.reply["evalue"]
        assert died.errors() == ["KernelDied"]
        after = nb.run("double(x)")
        assert (after.result(), after.reply["execution_count"]) == ("[1, 1]", 3)
        assert nb.value("In[1].splitlines()[0], Out[3]") == "('x = [1]', [1, 1])"
