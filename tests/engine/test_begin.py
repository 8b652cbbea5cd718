"""How it becomes known that a kernel has begun a cell, which interrupts and the look for deaf kernels wait for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bridge import Kernel
from bridge.engine import cells
from bridge.pool.begin_marks import Marks
from tests.concurrency import Flag, background, until


@pytest.fixture
def flag(tmp_path: Path) -> Flag:
    return Flag(tmp_path)


def run(kernel: Kernel, code: str, exec_id: str, state: str = "initial") -> dict[str, Any]:
    reply: dict[str, Any] = kernel.execute(code, exec_id, state)
    return reply


def test_a_cell_that_never_lets_go_of_the_interpreter_is_not_taken_for_one_that_did_not_begin(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its kernel's other threads, the one that sends messages among them, stand still meanwhile."""
    monkeypatch.setattr(cells, "BEGIN_SECONDS", 0.5)
    monkeypatch.setattr(cells, "LOOK", 0.1)
    state = "initial"
    for number in range(6):  # the first ones take the helper longer, and so give the threads their turn
        state = run(kernel, "n = sum(range(3))", f"small {number}", state)["state_name"]
    assert run(kernel, "n = sum(range(200_000_000))", "large", state)["error"] is None


def files(kernel: Kernel) -> list[Path]:
    return sorted(kernel.pool._host.folder.path.glob("*.begin"))


@pytest.mark.parametrize("are_there", [True, False], ids=["by its file", "by a message"])
def test_a_cell_is_interrupted_once_it_has_begun(kernel: Kernel, flag: Flag, are_there: bool) -> None:
    assert run(kernel, "n = 1", f"before {are_there}")["error"] is None
    assert files(kernel)
    if not are_there:
        for path in files(kernel):
            path.unlink()
    running = background(run, kernel, f"{flag.raising}\nwhile True: pass", f"endless {are_there}")
    flag.wait()
    kernel.interrupt(f"endless {are_there}", False)
    assert running.result(30)["error"]["ename"] == "KeyboardInterrupt"


def test_the_files_go_with_their_kernels(kernel: Kernel) -> None:
    before = files(kernel)
    assert (
        kernel.execute("n = 1", "apart", "initial", isolation="fresh")["error"] is None
    )  # it ends with its cell
    until(lambda: files(kernel) == before, "the file of the kernel that has ended is gone")
    run(kernel, "import os; os.kill(os.getpid(), 9)", "killed")
    until(lambda: files(kernel) == [], "the file of the kernel that was killed is gone")
    assert run(kernel, "n = 1", "alone")["error"] is None
    assert len(files(kernel)) == 1


def test_a_mark_whose_file_cannot_be_made_is_not_set(tmp_path: Path) -> None:
    assert not Marks(tmp_path / "gone" / "k.begin").next().is_set()
