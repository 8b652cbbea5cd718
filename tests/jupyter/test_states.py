"""A state after every cell, and the way between them: the magics in a real kernel."""

from __future__ import annotations

from pathlib import Path

import psutil

from tests.jupyter.kernels import notebook
from tests.store.support import opened


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


def test_k21_undo_goes_back_a_cell_whatever_was_named_since(tmp_path: Path) -> None:
    with notebook(tmp_path) as nb:
        for code in ("x = 1", "x = 2", "%label checkpoint"):
            nb.run(code)
        assert "s1" in nb.run("%undo").text()
        assert nb.value("x") == "1"
        nb.run("%checkout checkpoint")
        assert nb.value("x") == "2"


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


def test_a_kernel_killed_between_cells_costs_one_note(tmp_path: Path) -> None:
    with notebook(tmp_path) as nb:
        nb.run("x = 5; conn = __import__('sqlite3').connect(':memory:')")
        process = psutil.Process(int(nb.value("import os; os.getpid()")))
        process.kill()
        process.wait(10)
        after = nb.run("x")
        assert (after.result(), after.reply["execution_count"]) == ("5", 3)
        assert "signal 9 (SIGKILL)" in after.text("stderr")
        # Where the copy of its process could be made, the connection is there again; else the note says what is not.
        assert ("conn could not be brought back" in after.text("stderr")) == (
            nb.value("'conn' in globals()") == "False"
        )
        assert nb.run("x").text("stderr") == ""


def test_cells_that_wait_outlive_the_kernel(tmp_path: Path) -> None:
    with notebook(tmp_path) as nb:
        nb.run("x = 1")
        ids = [nb.send(code, stop_on_error=False) for code in ("import os; os._exit(3)", "x += 1", "x")]
        runs = [nb.finish(each) for each in ids]
        assert "exit code 3" in runs[0].reply["evalue"]
        assert runs[2].result() == "2"


def test_what_changes_between_cells_is_in_the_next_state(tmp_path: Path) -> None:
    with notebook(tmp_path) as nb:
        nb.run("import asyncio\nmoves = []; count = 0\ndone = asyncio.Event()")
        nb.run(
            "async def later():\n    global count\n    await asyncio.sleep(0.1)\n"
            "    moves.append(1); count = 1001; done.set()\n"
            "task = asyncio.get_running_loop().create_task(later())"
        )
        nb.run("silent = 7", silent=True, store_history=False)
        nb.run("await done.wait()", store_history=False)
        nb.run("'a cell that touches none of them'")
        nb.run("import os; os._exit(1)")
        assert nb.value("moves, count, silent") == "([1], 1001, 7)"


def test_a_failed_cell_leaves_a_state_too(tmp_path: Path) -> None:
    with notebook(tmp_path) as nb:
        nb.run("x = 1")
        nb.run("x = 2\n1/0")
        nb.run("import os; os._exit(1)")
        assert nb.value("x") == "2"
        shown = nb.shown("%states")
        assert "s2  [2] x = 2 (failed)" in shown
        assert "← here" in shown


def test_a_cell_that_only_looks_leaves_no_state(tmp_path: Path) -> None:
    with notebook(tmp_path) as nb:
        nb.run("x = 1")
        nb.run("x = 2")
        nb.run("%states\n# a comment\n%diff s1")
        nb.run("x?")
        nb.run("%undo")
        assert nb.value("x") == "1"


def test_names_of_the_users_own(tmp_path: Path) -> None:
    with notebook(tmp_path, "--max-home", "1G") as nb:
        nb.run("x = 1")
        assert "one is s1" in nb.run("%label one").text()
        assert "branch dev begins at s1" in nb.run("%branch dev").text()
        nb.run("x = 2")
        nb.run("%checkout one")
        nb.run("x = 3")
        nb.run("%branch dev")
        assert nb.value("x") == "2"
        assert "changed: x" in nb.run("%diff one s2").text()
        assert "forgotten: s3" in nb.run("%forget s3").text()
        wrong = nb.run("%checkout on")
        assert wrong.reply["status"] == "error"
        assert "there is no state 'on' (there is one" in wrong.text("stderr")
        # What is labelled, and where the notebook stands, is there when room was wanted; the rest says so.
        nb.run("x = 4")
        with opened(tmp_path) as store:
            store.evict(1000, grace=0)
        assert nb.value("x") == "4"
        gone = nb.run("%checkout s2")
        assert gone.reply["status"] == "error"
        assert "the state 's2' was evicted at 20" in gone.text("stderr")
        nb.run("%checkout one")
        assert nb.value("x") == "1"
        nb.run("x = 5")
        nb.run("x = 6")
        assert "kept until they are forgotten" in nb.run("%keep").text()
        with opened(tmp_path) as store:
            assert store.evict(1000, grace=0).states == 0
        nb.run("%undo")
        assert nb.value("x") == "5"


def test_a_cell_that_is_run_again_starts_where_it_ran_before(tmp_path: Path) -> None:
    with notebook(tmp_path) as nb:
        nb.run("%rerun on")
        nb.run("x = 0", "a")
        assert [nb.run("x += 1; x", "b").result() for _ in range(3)] == ["1", "1", "1"]
        assert nb.run("x += 1; x", "c").result() == "2"
        nb.run("%rerun off")
        assert nb.run("x += 1; x", "b").result() == "3"


def test_a_thread_does_not_outlive_the_undo_of_its_cell(tmp_path: Path) -> None:
    with notebook(tmp_path) as nb:
        nb.run("x = 1")
        before = nb.value("import os; os.getpid()")
        nb.run("import threading; threading.Thread(target=threading.Event().wait, daemon=True).start()")
        nb.run("%undo")
        assert nb.value("x") == "1"
        assert nb.value("os.getpid()") != before


def test_undo_brings_back_what_cannot_be_stored(tmp_path: Path) -> None:
    with notebook(tmp_path) as nb:
        nb.run("import sqlite3; base = sqlite3.connect(':memory:'); base.execute('create table t (x)')")
        nb.run("steps = (n for n in range(9)); base.execute('insert into t values (7)'); next(steps)")
        nb.run("base.execute('delete from t'); next(steps)")
        nb.run("%undo")
        assert nb.value("base.execute('select x from t').fetchall(), next(steps)") == "([(7,)], 1)"
        nb.run("%undo 2")
        assert nb.value("base.execute('select x from t').fetchall(), 'steps' in globals()") == "([], False)"


def test_a_notebook_goes_on_with_what_cannot_be_stored_when_its_kernel_dies(tmp_path: Path) -> None:
    with notebook(tmp_path) as nb:
        nb.run("steps = (n for n in range(9)); next(steps)")
        nb.run("import os; os._exit(1)")
        assert nb.value("next(steps)") == "1"


def test_the_source_of_a_function_is_known_after_a_crash(tmp_path: Path) -> None:
    with notebook(tmp_path) as nb:
        nb.run("def f():\n    return 'seen'")
        nb.run("import os; os._exit(1)")
        assert "return 'seen'" in nb.run("import inspect; print(inspect.getsource(f))").text()
