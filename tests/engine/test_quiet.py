"""Cells during which nothing is published have no idle status; whatever is published comes, at the last moment too."""

from __future__ import annotations

from typing import Any

import pytest

from bridge import Kernel

HOOK = """
from IPython import get_ipython as shell
def show(result):
    print("x")
    shell().events.unregister("post_run_cell", show)
shell().events.register("post_run_cell", show)
"""

REDIRECTED = """
import contextlib, io, sys
out = sys.stdout
with contextlib.redirect_stdout(io.StringIO()):
    print("x", file=out)
"""


def published(kernel: Kernel, code: str) -> list[str]:
    """The types of the messages on iopub of a cell, up to its end."""
    process, found = kernel.pool.lease(), []

    def collect(message: dict[str, Any]) -> None:
        found.append(message["msg_type"])

    try:
        mark = process.new_mark()
        orders = {"discard": True, "begin": mark.order()}
        execution = process.execute(
            code, metadata={"bridge": orders}, mark=mark, on_iopub=collect, on_input=lambda *_: None
        )
        assert execution.wait(30)
        assert execution.reply is not None
        return found
    finally:
        kernel.pool.release(process)


def test_nothing_is_published_of_a_cell_that_shows_nothing(kernel: Kernel) -> None:
    for _ in range(3):
        assert published(kernel, "n = 1") == []
        assert published(kernel, "print(1)") == ["stream", "status"]
        assert published(kernel, "1 / 0") == ["error", "status"]
        assert published(kernel, "") == []


@pytest.mark.parametrize(
    "code",
    [
        "print('x')",
        "import os; n = os.write(1, b'x\\n')",
        "import subprocess; done = subprocess.run(['echo', 'x'])",
        "import threading; it = threading.Thread(target=print, args=('x',)); it.start(); it.join()",
        "import sys; n = sys.__stdout__.write('x\\n')",
        REDIRECTED,
        HOOK,
    ],
    ids=["print", "descriptor", "child", "thread", "original stream", "redirected", "hook after the cell"],
)
def test_no_output_is_lost_between_cells_that_show_nothing(kernel: Kernel, code: str) -> None:
    state = "initial"
    for turn in range(5):
        for part, text in ((f"n = {turn}", ""), (code, "x\n")):
            reply = kernel.execute(part, f"{turn} {part}", state)
            assert reply["error"] is None, reply["error"]
            assert "".join(output["text"] for output in reply["output"]) == text
            state = reply["state_name"]
