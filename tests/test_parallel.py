"""Executions beside each other, and every way one can end before its time: only that one is touched."""

from __future__ import annotations

import http.client
import json
import re
import socket
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.concurrency import Flag, background, is_over, until
from tests.support import Client, Server, quote, text_of


@pytest.fixture(scope="module")
def two(nothing_left_behind: None) -> Iterator[Server]:
    """A server with two kernels, shared by the tests here."""
    server = Server(pool_size=2)
    try:
        yield server.ready()
    finally:
        server.close()


@pytest.fixture
def client(two: Server) -> Client:
    """A client of it, with no state left from the test before."""
    assert two.client.post("/reset") == (200, {"status": "ok"})
    return two.client


def executions(client: Client) -> dict[str, dict[str, Any]]:
    """The executions that run or wait, by their exec_id."""
    return {e["exec_id"]: e for e in client.get("/health")[1]["executions"]}


def names(client: Client) -> list[str]:
    """The states that a test gave a name itself: the server's own names are 32 hexadecimal digits."""
    return [name for name in client.get("/states")[1]["states"] if not re.fullmatch("[0-9a-f]{32}", name)]


def test_branches_of_one_state_run_at_the_same_time(client: Client, tmp_path: Path) -> None:
    client.run("x = [0]", new="root")
    here, there = Flag(tmp_path), Flag(tmp_path)
    # Each raises its own flag and waits for the other's: neither could end if they did not overlap.
    left = background(client.execute, f"x.append(1)\n{here.raising}\n{there.waiting}\nx", "root", "left")
    right = background(client.execute, f"x.append(2)\n{there.raising}\n{here.waiting}\nx", "root", "right")
    replies = left.result(60), right.result(60)
    assert [text_of(reply) for reply in replies] == ["[0, 1]", "[0, 2]"]
    assert len({reply["kernel_id"] for reply in replies}) == 2
    assert text_of(client.run("x", "root")) == "[0]"


def test_an_execution_that_waits_in_line_can_be_interrupted(client: Client, tmp_path: Path) -> None:
    go = Flag(tmp_path)
    busy = []
    for number in range(2):
        started = Flag(tmp_path)
        busy.append(background(client.execute, f"{started.raising}\n{go.waiting}", exec_id=f"busy-{number}"))
        started.wait()
    ran = Flag(tmp_path)
    waiting = background(client.execute, ran.raising, new="never", exec_id="waits")
    until(lambda: "waits" in executions(client), "it stands in line")
    assert client.post("/interrupt", {"exec_id": "waits"}) == (200, {"interrupted": True, "how": "queued"})
    reply = waiting.result(30)
    assert reply["error"]["ename"] == "KeyboardInterrupt"
    assert reply["state_name"] is None
    assert not any(execution.done() for execution in busy)
    go.raise_()
    assert all(execution.result(30)["error"] is None for execution in busy)
    assert not ran.up
    assert "never" not in names(client)


def test_an_interrupt_before_the_first_kernel_is_up_counts(
    make_server: Callable[..., Server], tmp_path: Path
) -> None:
    client = make_server(pool_size=1).client
    ran = Flag(tmp_path)
    early = background(client.execute, f"import time; time.sleep(60)\n{ran.raising}", exec_id="early")
    until(lambda: "early" in executions(client), "it has arrived")
    assert client.post("/interrupt", {"exec_id": "early"})[1]["interrupted"] is True
    assert early.result(30)["error"]["ename"] == "KeyboardInterrupt"
    assert not ran.up
    assert text_of(client.run("print('next')")) == "next\n"


@pytest.mark.parametrize(
    "blocking",
    [
        "import time; time.sleep(60)",
        "import threading; threading.Event().wait(60)",
        "import subprocess; subprocess.run(['sleep', '60'])",
        "while True: pass",
        "import asyncio; await asyncio.sleep(60)",
        "import time\ndef later():\n    yield 1\n    time.sleep(60)\nsum(later())",
    ],
)
def test_a_plain_interrupt_ends_what_blocks(client: Client, tmp_path: Path, blocking: str) -> None:
    started = Flag(tmp_path)
    running = background(client.execute, f"print('so far')\n{started.raising}\n{blocking}", exec_id="blocks")
    started.wait()
    assert client.post("/interrupt", {"exec_id": "blocks"}) == (200, {"interrupted": True, "how": "signal"})
    reply = running.result(30)
    assert reply["error"]["ename"] == "KeyboardInterrupt"
    assert not reply.get("killed")
    assert reply["output"][0] == {"output_type": "stream", "name": "stdout", "text": "so far\n"}
    assert reply["output"][-1]["output_type"] == "error"
    assert text_of(client.run("print('next')")) == "next\n"


def test_an_interrupt_ends_a_shell_line(client: Client, tmp_path: Path) -> None:
    """As in Jupyter the cell goes on after the line; but it was interrupted, and says so."""
    started = Flag(tmp_path)
    code = f"!touch {started.path}; sleep 60.25\nprint('after')"
    running = background(client.execute, code, exec_id="shell")
    started.wait()
    assert client.post("/interrupt", {"exec_id": "shell"})[1]["interrupted"] is True
    reply = running.result(30)
    assert reply["error"]["ename"] == "KeyboardInterrupt"
    assert reply["state_name"] is None
    assert "after\n" in text_of(reply)
    assert not [p.pid for p in psutil.process_iter(["cmdline"]) if p.info["cmdline"] == ["sleep", "60.25"]]


def test_an_interrupt_for_nobody_says_so(client: Client) -> None:
    client.run("1", exec_id="over")
    for exec_id in ("over", "unknown"):
        for force in (False, True):
            status, answer = client.post("/interrupt", {"exec_id": exec_id, "force": force})
            assert (status, answer["interrupted"]) == (200, False)


def test_a_failing_cell_leaves_no_trace(client: Client) -> None:
    client.run("import os, sys\nbox = {'n': 1}; first = box", new="before")
    kept = client.run("box['kept'] = True", "before", "kept")
    reply = client.execute(
        "box['n'] = 2; new = 3; del first\nos.environ['HALF'] = 'done'; sys.path.append('/half')\n1 / 0",
        "before",
        "kept",
    )
    assert reply["error"]["ename"] == "ZeroDivisionError"
    assert reply["error"]["evalue"] == "division by zero"
    assert not any("\x1b" in line for line in reply["error"]["traceback"])
    assert reply["state_name"] is None
    look = "print(box, first is box, 'new' in globals(), os.environ.get('HALF'), '/half' in sys.path)"
    for state, box in (("before", "{'n': 1}"), ("kept", "{'n': 1, 'kept': True}")):
        for isolation in ("shared", "fresh"):
            shown = text_of(client.run(look, state, isolation=isolation))
            assert shown == f"{box} True False None False\n"
    assert names(client)[:3] == ["initial", "before", "kept"]
    assert kept["state_name"] == "kept"


def test_keep_on_error_keeps_what_was_done(client: Client) -> None:
    reply = client.execute("a = 1\n1 / 0\nb = 2", new="half", keep_on_error=True)
    assert reply["error"]["ename"] == "ZeroDivisionError"
    assert reply["state_name"] == "half"
    assert text_of(client.run("print(a, 'b' in globals())", "half")) == "1 False\n"


@pytest.mark.parametrize(
    ("ending", "told"),
    [
        ("os._exit(3)", "3"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "SIGKILL"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "SIGSEGV"),
    ],
)
def test_a_kernels_death_is_told_and_hurts_nobody_else(
    client: Client, tmp_path: Path, ending: str, told: str
) -> None:
    client.run("x = 'safe'", new="before")
    go, started = Flag(tmp_path), Flag(tmp_path)
    other = background(client.execute, f"{started.raising}\n{go.waiting}\nprint(x)", "before", "other")
    started.wait()
    # A plain kernel that dies right behind a flush loses it now and then: its socket's thread has to get a turn.
    code = f"import os, signal, time\nprint('so far', flush=True)\ntime.sleep(0.3)\n{ending}"
    reply = client.execute(code, "before", "dead")
    assert reply["error"]["ename"] == "KernelDied"
    assert told in reply["error"]["evalue"]
    assert reply["output"][0] == {"output_type": "stream", "name": "stdout", "text": "so far\n"}
    assert reply["state_name"] is None
    go.raise_()
    assert text_of(other.result(30)) == "safe\n"
    assert text_of(client.run("print(x)", "before")) == "safe\n"
    assert names(client) == ["initial", "before", "other"]


def test_a_kernel_killed_from_outside_while_idle_is_replaced(client: Client) -> None:
    """Once it is dead: a cell sent to one that is only dying may have begun, and no cell is run twice."""
    for _turn in range(3):
        pid = int(text_of(client.run("import os; print(os.getpid())", new="s")))
        psutil.Process(pid).kill()
        until(lambda pid=pid: is_over(pid), "the process has ended")  # type: ignore[misc]
        assert text_of(client.run("print(os.getpid() > 0)", "s")) == "True\n"


def test_a_stubborn_cell_is_ended_by_force_and_nothing_else_is(client: Client, tmp_path: Path) -> None:
    client.run("x = [1]", new="before")
    started = Flag(tmp_path)
    code = (
        "import time\nx.append(2)\nprint('so far', flush=True)\nwhile True:\n    try:\n"
        f"        {started.raising}\n        time.sleep(60)\n"
        "    except KeyboardInterrupt: print('no', flush=True)"
    )
    running = background(client.execute, code, "before", exec_id="stubborn")
    started.wait()
    assert client.post("/interrupt", {"exec_id": "stubborn"})[1] == {"interrupted": True, "how": "signal"}
    until(
        lambda: executions(client)["stubborn"].get("ignored"),
        "the interrupt is shown as ignored",
    )
    answer = client.post("/interrupt", {"exec_id": "stubborn", "force": True})[1]
    assert answer == {"interrupted": True, "how": "kill"}
    reply = running.result(30)
    assert (reply["error"]["ename"], reply["killed"]) == ("KeyboardInterrupt", True)
    assert text_of(reply) == "so far\nno\n"
    assert text_of(client.run("print(x)", "before")) == "[1]\n"


def test_an_exec_id_is_free_when_its_reply_has_come_and_taken_until_then(
    client: Client, tmp_path: Path
) -> None:
    started, go = Flag(tmp_path), Flag(tmp_path)
    running = background(client.execute, f"{started.raising}\n{go.waiting}", exec_id="mine")
    started.wait()
    body = {"code": "1", "exec_id": "mine", "state_name": "initial"}
    status, answer = client.post("/execute", body)
    assert status == 409
    assert "mine" in answer["error"]["message"]
    assert client.post("/multistate_execute", {"code": "1", "exec_id": "mine", "state_mapping": {}})[0] == 409
    go.raise_()
    assert running.result(30)["error"] is None
    for _turn in range(50):
        assert client.post("/execute", body)[0] == 200


def test_a_reset_interrupts_what_runs_and_waits(client: Client, tmp_path: Path) -> None:
    running = []
    for number in range(2):
        started = Flag(tmp_path)
        code = f"{started.raising}\nimport time; time.sleep(60)"
        running.append(background(client.execute, code, new=f"s{number}", exec_id=f"r{number}"))
        started.wait()
    running.append(background(client.execute, "1", new="s2", exec_id="r2"))
    until(lambda: "r2" in executions(client), "the third waits")
    assert client.post("/reset") == (200, {"status": "ok"})
    for execution in running:
        assert execution.result(30)["error"]["ename"] == "KeyboardInterrupt"
    assert names(client) == ["initial"]
    assert client.get("/states/initial")[1]["variables"] == {}


def test_states_deleted_or_replaced_under_a_running_cell_do_not_disturb_it(
    client: Client, tmp_path: Path
) -> None:
    client.run("x = 'old'", new="source")
    started, go = Flag(tmp_path), Flag(tmp_path)
    code = f"{started.raising}\n{go.waiting}\ny = x + '!'\nprint(y)"
    running = background(client.execute, code, "source", "derived")
    started.wait()
    client.run("x = 'new'", new="source")
    assert client.delete("/states/source") == (200, {"deleted": "source"})
    go.raise_()
    assert text_of(running.result(30)) == "old!\n"
    assert names(client) == ["initial", "derived"]
    assert text_of(client.run("print(x, y)", "derived", isolation="fresh")) == "old old!\n"


def test_an_execution_outlives_its_client(two: Server, client: Client, tmp_path: Path) -> None:
    started, go = Flag(tmp_path), Flag(tmp_path)
    body = {
        "code": f"{started.raising}\n{go.waiting}\nx = 'done'",
        "exec_id": "left alone",
        "state_name": "initial",
        "new_state_name": "finished",
    }
    address = urllib.parse.urlsplit(two.url)
    assert address.hostname is not None
    line = http.client.HTTPConnection(address.hostname, address.port, timeout=30)
    line.request(
        "POST",
        "/execute",
        json.dumps(body),
        {"Authorization": f"Bearer {two.token}", "Content-Type": "application/json"},
    )
    started.wait()
    assert isinstance(line.sock, socket.socket)
    line.close()
    assert "left alone" in executions(client)
    go.raise_()
    until(lambda: "finished" in names(client), "the state is stored all the same")
    until(lambda: "left alone" not in executions(client), "its exec_id is free again")
    assert text_of(client.run("print(x)", "finished")) == "done\n"


def test_a_timeout_ends_a_cell_that_eats_interrupts(client: Client) -> None:
    client.run("x = 'safe'", new="before")
    reply = client.execute(
        "import time\nwhile True:\n    try: time.sleep(60)\n    except BaseException: pass",
        "before",
        timeout=1,
    )
    assert reply["error"]["ename"] == "TimeoutError"
    assert text_of(client.run("print(x)", "before")) == "safe\n"


def test_the_same_name_written_from_two_sides_holds_one_of_them(client: Client) -> None:
    both = [background(client.execute, f"x = {n}; y = {n}", new="shared") for n in range(8)]
    assert all(execution.result(60)["state_name"] == "shared" for execution in both)
    assert names(client) == ["initial", "shared"]
    x, y = text_of(client.run("print(x, y)", "shared")).split()
    assert x == y


def test_names_of_any_kind_can_be_asked_and_deleted(client: Client) -> None:
    for name in ("a/b", "ü ?&#%", "..", "x" * 255, "last", "*", "w:x"):
        client.run("x = 1", new=name)
        status, state = client.get(f"/states/{quote(name)}")
        assert (status, state["name"]) == (200, name)
        assert text_of(client.run("print(x)", name)) == "1\n"
        assert client.delete(f"/states/{quote(name)}") == (200, {"deleted": name})
    assert names(client) == ["initial"]
