"""Messages pass both ways, in order, whole, and as ipykernel's own."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.jupyter.kernels import Notebook, notebook


@pytest.fixture(scope="module")
def nb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Notebook]:
    """One kernel for all of these tests."""
    with notebook(tmp_path_factory.mktemp("home")) as made:
        yield made


def next_comm(nb: Notebook) -> dict[str, Any]:
    """The next comm_msg that the kernel sends."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        message = nb.take("iopub", 0.5)
        if message is not None and message["msg_type"] == "comm_msg":
            return message
    raise AssertionError("no comm_msg came")


ECHO = """
from comm import get_comm_manager
def target(comm, msg):
    comm.on_msg(lambda m: comm.send(m["content"]["data"], buffers=[bytes(b) for b in m["buffers"]]))
get_comm_manager().register_target("echo", target)
"""


def test_a_front_end_sees_a_kernel_like_any_other(nb: Notebook) -> None:
    info = nb.ask("kernel_info_request", {})
    assert (info["implementation"], info["status"]) == ("ipython", "ok")
    assert "jupyter-bridge" in info["banner"]
    assert nb.ask("complete_request", {"code": "impor", "cursor_pos": 5})["matches"] == ["import"]
    assert "%checkout" in nb.ask("complete_request", {"code": "%check", "cursor_pos": 6})["matches"]
    assert nb.ask("is_complete_request", {"code": "for x in y:"})["status"] == "incomplete"
    assert nb.ask("inspect_request", {"code": "%undo", "cursor_pos": 5, "detail_level": 0})["found"]
    msg_id = nb.send("print('hi', input('who? '))")
    assert nb.finish(msg_id, lambda prompt: prompt.upper()).text() == "hi WHO? \n"
    run = nb.run("1/0", user_expressions={"two": "1+1"})
    kinds = [m["msg_type"] for m in run.messages]
    assert kinds == ["status", "execute_input", "error", "status"]
    assert "payload" not in run.reply or all(item["source"] != "bridge" for item in run.reply["payload"])


def test_cells_behind_a_failed_one_are_aborted_and_others_are_not(nb: Notebook) -> None:
    runs = [nb.finish(each) for each in [nb.send(code) for code in ("a = 1", "1/0", "a = 2")]]
    assert [run.reply["status"] for run in runs] == ["ok", "error", "aborted"]
    assert [m["content"]["execution_state"] for m in runs[2].messages] == ["busy", "idle"]
    ids = [nb.send(code, stop_on_error=False) for code in ("1/0", "a += 10")]
    assert [nb.finish(each).reply["status"] for each in ids] == ["error", "ok"]
    assert nb.value("a") == "11"


def test_a_flood_of_small_writes_loses_none(nb: Notebook) -> None:
    run = nb.run("for i in range(100_000): print(i, flush=i % 20 == 0)")
    assert run.text() == "".join(f"{i}\n" for i in range(100_000))


@pytest.mark.parametrize("size", [1000, pytest.param(200_000_000, marks=pytest.mark.soak)])
def test_buffers_come_back_as_they_went(nb: Notebook, size: int) -> None:
    buffer = os.urandom(1000) * (size // 1000)
    nb.run(ECHO)
    session, shell = nb.client.session, nb.client.shell_channel.socket
    session.send(shell, "comm_open", {"comm_id": f"c{size}", "target_name": "echo", "data": {}})
    session.send(shell, "comm_msg", {"comm_id": f"c{size}", "data": {"n": 1}}, buffers=[buffer])
    message = next_comm(nb)
    assert message["content"]["data"] == {"n": 1}
    assert [bytes(each) for each in message["buffers"]] == [buffer]


def test_a_cell_that_awaits_a_widget_is_woken_though_cells_wait_behind_it(nb: Notebook) -> None:
    nb.run(
        "import asyncio\nfrom comm import get_comm_manager\nwoken = asyncio.Event()\n"
        "def target(comm, msg):\n    comm.on_msg(lambda m: woken.set())\n"
        "get_comm_manager().register_target('wake', target)"
    )
    session, shell = nb.client.session, nb.client.shell_channel.socket
    session.send(shell, "comm_open", {"comm_id": "w", "target_name": "wake", "data": {}})
    first, second = nb.send("await asyncio.wait_for(woken.wait(), 30)"), nb.send("'second'")
    session.send(shell, "comm_msg", {"comm_id": "w", "data": {}})
    assert nb.finish(first).result() == "True"
    assert nb.finish(second).result() == "'second'"


def test_an_interrupt_that_comes_before_its_cell_has_begun_ends_it(nb: Notebook) -> None:
    for _ in range(5):
        first = nb.send("import time, os; time.sleep(0.3); kept = [os.urandom(8) for _ in range(20_000)]")
        endless = nb.send("while True: pass")
        assert nb.finish(first).reply["status"] == "ok"
        # The front end has the reply of the first; the second waits for its state to be kept, or has just begun.
        assert nb.ask("interrupt_request", {}, "control")["status"] == "ok"
        assert nb.finish(endless).reply["ename"] == "KeyboardInterrupt"


def test_an_interrupt_that_meets_ipykernel_and_not_the_cells_code_ends_the_cell_as_such(nb: Notebook) -> None:
    nb.run(
        "import time\nkernel = get_ipython().kernel\ndef slow(**arguments):\n    del kernel.do_execute\n"
        "    print('in ipykernel', flush=True)\n    time.sleep(60)\nkernel.do_execute = slow"
    )
    cell = nb.send("ran = True")
    while "in ipykernel" not in nb.runs[cell].text():
        nb.take("iopub", 0.5)
    assert nb.ask("interrupt_request", {}, "control")["status"] == "ok"
    assert nb.finish(cell).reply["ename"] == "KeyboardInterrupt"
    assert nb.run("'ran' in globals()").result() == "False"


@pytest.mark.parametrize("code", ["while True: pass", "import asyncio; await asyncio.sleep(1000)"])
def test_k13_an_interrupt_ends_a_cell_and_costs_nothing(nb: Notebook, code: str) -> None:
    nb.run("x = 5")
    msg_id = nb.send("print('begun', flush=True)\n" + code)
    while not nb.runs[msg_id].text():
        nb.take("iopub", 0.5)
    assert nb.ask("interrupt_request", {}, "control")["status"] == "ok"
    assert nb.finish(msg_id).errors() in (["KeyboardInterrupt"], ["CancelledError"])
    assert nb.value("x") == "5"
