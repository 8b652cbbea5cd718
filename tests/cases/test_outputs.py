"""The rows of `outputs`, and those that take more than cells and what they show."""

from __future__ import annotations

import json
import os
import re
import socket
import urllib.parse
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.cases.outputs import ANYTHING, CASES, Showing
from tests.concurrency import Flag, background, until
from tests.support import Client, Server


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_exactly_what_is_shown_comes_back(client: Client, case: Showing) -> None:
    state = "initial"
    for cell, expected in zip(case.cells, case.expected, strict=True):
        reply = client.execute(cell, state)
        state = reply["state_name"] or state
        for output in reply["output"]:
            nbformat.validate(output, "output", version=4)
        found = [short(output) for output in reply["output"]]
        assert len(found) == len(expected), (cell, found)
        for (kind, text), (wanted, wanted_text) in zip(found, expected, strict=True):
            assert kind == wanted, (cell, found)
            assert text == wanted_text or wanted_text == ANYTHING, (cell, found)


def short(output: dict[str, Any]) -> tuple[str, str]:
    """An output as the rows of `outputs` write it."""
    kind = output["output_type"]
    if kind == "stream":
        return output["name"], output["text"]
    if kind == "error":
        return "error", output["ename"]
    data = output["data"]
    for mime in data:
        if mime.startswith("image/"):
            assert "text/plain" in data
            return "image", mime
    if "application/json" in data:
        return "application/json", str(data["application/json"])
    return ("result" if kind == "execute_result" else "display"), data["text/plain"]


def streams(reply: dict[str, Any]) -> dict[str, str]:
    """The text of each stream."""
    found: dict[str, str] = {}
    for output in reply["output"]:
        if output["output_type"] == "stream":
            found[output["name"]] = found.get(output["name"], "") + output["text"]
    return found


def test_o04_each_stream_keeps_its_order(client: Client) -> None:
    reply = client.run("import sys\nprint('e1', file=sys.stderr); print('o1'); print('e2', file=sys.stderr)")
    assert streams(reply) == {"stdout": "o1\n", "stderr": "e1\ne2\n"}


def test_o05_a_client_that_reads_late_loses_nothing(server: Server, client: Client) -> None:
    body = {
        "code": "import sys\nfor i in range(6_000): sys.stdout.write('0' * 100); sys.stdout.flush()\n"
        "print('END')",
        "exec_id": "o05",
        "state_name": "initial",
        "new_state_name": "o05",
    }
    address = urllib.parse.urlsplit(server.url)
    assert address.hostname is not None
    assert address.port is not None
    data = json.dumps(body).encode()
    with socket.socket() as line:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        line.settimeout(60)
        line.connect((address.hostname, address.port))
        head = (
            f"POST /execute HTTP/1.1\r\nHost: {address.netloc}\r\nAuthorization: Bearer {server.token}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\nConnection: close\r\n\r\n"
        )
        line.sendall(head.encode() + data)
        # Only once the state is there, hence the whole output has been made, is anything read.
        until(lambda: "o05" in client.get("/states")[1]["states"], "the cell's end", 60)
        answer = b""
        while piece := line.recv(1 << 16):
            answer += piece
    text = re.search(rb'"text": ?"(0+\\nEND\\n|0+END\\n)"', answer)
    assert text is not None, answer[:500]
    assert text.group(1) == b"0" * 600_000 + b"END\\n"


def test_o06_a_huge_print_is_cut_with_its_true_size(client: Client) -> None:
    reply = client.run("print('x' * 50_000_000)")
    [output] = reply["output"]
    assert output["text"].startswith("x" * 10_000_000)
    assert len(output["text"]) < 10_000_200
    assert "50000001" in output["text"][10_000_000:].replace(",", "")
    assert [short(o) for o in client.run("1 + 1", reply["state_name"])["output"]] == [("result", "2")]


def test_o07_what_a_thread_prints_late_is_in_no_other_cell(make_server: Any, tmp_path: Path) -> None:
    client = make_server(pool_size=1).client
    go, done = Flag(tmp_path), Flag(tmp_path)
    code = "\n".join(
        ["import threading", "def late():"]
        + ["    " + line for line in go.waiting.splitlines()]
        + ["    print('late', flush=True)", "    " + done.raising, "threading.Thread(target=late).start()"]
    )
    state = client.run(code)["state_name"]
    for start in (state, "initial"):
        # In the state after it, then in a line that never had the thread.
        second = client.run(f"{go.raising}\n{done.waiting}\nprint('second')", start)
        assert streams(second) == {"stdout": "second\n"}


def test_o08_what_workers_print_comes_in_whole_lines(client: Client) -> None:
    reply = client.run(
        "from concurrent.futures import ProcessPoolExecutor\nimport multiprocessing\n"
        "def sq(k): print('child'); return k * k\n"
        "with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context('fork')) as ex:\n"
        "    print(list(ex.map(sq, [1, 2])))"
    )
    text = streams(reply)
    assert sorted(text["stdout"].splitlines()) == ["[1, 4]", "child", "child"]
    assert "Error" not in text.get("stderr", "")


def test_what_a_child_process_prints_is_the_cells(client: Client) -> None:
    reply = client.run(
        "import os, subprocess, sys\nprint('before', flush=True)\n"
        "subprocess.run([sys.executable, '-c', 'import sys; print(1); print(2, file=sys.stderr)'])\n"
        "os.write(1, b'raw\\n'); None"
    )
    text = streams(reply)
    assert sorted(text["stdout"].split()) == ["1", "before", "raw"]
    assert text["stderr"] == "2\n"


def test_o11_input_reads_the_lines_that_were_sent(client: Client) -> None:
    reply = client.run("name = input('who? ')\nprint('hi', name)", stdin=["Bo"])
    assert streams(reply)["stdout"].endswith("hi Bo\n")
    failed = client.execute("input('who? ')")
    assert failed["error"]["ename"] == "EOFError"
    failed = client.execute("a = input(); b = input()", stdin=["one"])
    assert failed["error"]["ename"] == "EOFError"


def test_o12_the_names_bound_by_magics_are_reported(client: Client) -> None:
    first = client.run("%%time\nv = 41")
    assert first["modified_symbols"] == ["v"]
    second = client.run("files = !echo hi", first["state_name"])
    assert second["modified_symbols"] == ["files"]
    third = client.run("print(v + 1, list(files))", second["state_name"])
    assert third["accessed_symbols"] == ["files", "v"]


def test_o14_replies_are_strict_json(client: Client) -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} in a reply")

    body = {
        "code": "bundle = {'application/json': {'x': float('nan'), 'y': [float('inf')]}}\n"
        "display(bundle, raw=True)\nfloat('nan')",
        "exec_id": "o14",
        "state_name": "initial",
    }
    reply = client.request("POST", "/execute", body)
    parsed = json.loads(reply.body, parse_constant=refuse)
    assert [output["output_type"] for output in parsed["output"]] == ["display_data", "execute_result"]


def test_o16_no_output_is_ever_missed(client: Client) -> None:
    for _turn in range(200):
        reply = client.run("print('x')")
        assert reply["output"] == [{"output_type": "stream", "name": "stdout", "text": "x\n"}]


def test_an_interrupt_reaches_a_cell_that_waits_for_input_no_longer(client: Client, tmp_path: Path) -> None:
    """`input()` in a loop that eats EOFError can still be stopped."""
    ready = Flag(tmp_path)
    code = f"{ready.raising}\nwhile True:\n    try: input()\n    except EOFError: pass"
    running = background(client.execute, code, exec_id="eats")
    ready.wait()
    assert client.post("/interrupt", {"exec_id": "eats"})[1]["interrupted"] is True
    assert running.result(60)["error"]["ename"] == "KeyboardInterrupt"
    assert os.path.exists(ready.path)
