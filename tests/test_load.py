"""Many slow executions at once: the server stays at hand for everybody else."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.concurrency import Flag, background, until
from tests.support import Server, text_of

MANY = 64


@pytest.mark.parametrize("form", ["main", "bottle"])
def test_questions_are_answered_while_many_executions_wait(
    make_server: Callable[..., Server], tmp_path: Path, form: str
) -> None:
    client = make_server(form=form, pool_size=2).client
    started, go = Flag(tmp_path), Flag(tmp_path)
    code = f"{started.raising}\n{go.waiting}\nprint('done')"
    slow = [background(client.execute, code, exec_id=f"slow-{number}") for number in range(MANY)]
    started.wait()

    def known() -> set[str]:
        return {e["exec_id"] for e in client.get("/health")[1]["executions"]}

    until(lambda: len(known()) == MANY, "all executions have arrived")

    # Asked while all of them run or wait; that none has ended is checked below.
    for _turn in range(5):
        assert client.get("/states") == (200, {"states": ["initial"]})
        assert client.request("GET", "/health", headers={"Authorization": ""}).status == 200
        assert client.post("/interrupt", {"exec_id": "nobody"})[1]["interrupted"] is False
    assert not any(execution.done() for execution in slow)

    how = {}
    for number in range(MANY - 8, MANY):
        status, answer = client.post("/interrupt", {"exec_id": f"slow-{number}"})
        assert (status, answer["interrupted"]) == (200, True)
        how[number] = answer["how"]
    assert set(how.values()) <= {"queued", "signal"}
    assert "queued" in how.values()
    for number in how:
        assert slow[number].result(30)["error"]["ename"] == "KeyboardInterrupt"
    assert not any(execution.done() for execution in slow[: MANY - 8])

    go.raise_()
    for execution in slow[: MANY - 8]:
        reply = execution.result(60)
        assert reply["error"] is None
        assert text_of(reply) == "done\n"
    assert len(client.get("/states")[1]["states"]) == 1 + MANY - 8


def test_first_come_first_served(make_server: Callable[..., Server], tmp_path: Path) -> None:
    client = make_server(pool_size=1).client
    started, go = Flag(tmp_path), Flag(tmp_path)
    order = tmp_path / "order"
    first = background(client.execute, f"{started.raising}\n{go.waiting}")
    started.wait()
    line = []
    for number in range(6):
        code = f"with open({str(order)!r}, 'a') as file: print({number}, file=file)"
        line.append(background(client.execute, code, exec_id=f"line-{number}"))
        until(
            lambda number=number: any(  # type: ignore[misc]
                e["exec_id"] == f"line-{number}" for e in client.get("/health")[1]["executions"]
            ),
            f"execution {number} stands in line",
        )
    go.raise_()
    for execution in [first, *line]:
        assert execution.result(60)["error"] is None
    assert order.read_text().split() == ["0", "1", "2", "3", "4", "5"]


def test_an_idle_server_ends_at_once_and_a_busy_one_too(
    make_server: Callable[..., Server], tmp_path: Path
) -> None:
    server = make_server(pool_size=2)
    started = Flag(tmp_path), Flag(tmp_path)
    busy = [background(server.client.execute, f"{flag.raising}\nwhile True: pass") for flag in started]
    for flag in started:
        flag.wait()
    waiting = [background(server.client.execute, "1") for _number in range(3)]
    assert server.stop(timeout=5) == 0
    server.check_gone()
    for execution in [*busy, *waiting]:
        # Each client gets an answer or a closed connection; none is left hanging.
        error = execution.exception(30)
        assert error is not None or execution.result()["error"]["ename"] == "ServerShutdown"
    assert server.stderr == ""


def test_a_server_that_stands_still_loses_no_output(
    make_server: Callable[..., Server], tmp_path: Path
) -> None:
    server = make_server(pool_size=1)
    begun, go, written = Flag(tmp_path), Flag(tmp_path), Flag(tmp_path)
    code = (
        f"import sys\n{begun.raising}\n{go.waiting}\n"
        "for _ in range(20_000): sys.stdout.write('0' * 100); sys.stdout.flush()\n"
        f"{written.raising}\nprint('END')"
    )
    running = background(server.client.execute, code)
    begun.wait()
    os.kill(server.pid, signal.SIGSTOP)
    try:
        go.raise_()
        written.wait(120)
    finally:
        os.kill(server.pid, signal.SIGCONT)
    reply = running.result(60)
    text = text_of(reply)
    assert reply["error"] is None
    assert (len(text), text[-4:]) == (2_000_004, "END\n")
