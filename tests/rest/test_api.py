"""Requests to a real server, down to a kernel: what HTTP itself adds to the engine."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from bridge.rest.app import Site, make_app
from bridge.rest.auth import Access
from bridge.rest.server import HttpServer
from bridge.settings import Settings
from tests.concurrency import Flag, background, until
from tests.support import TOKEN, Client, Server, quote, text_of


def fresh(prefix: str = "s") -> str:
    return f"{prefix}-{uuid.uuid4().hex[:8]}"


@pytest.mark.parametrize(
    "odd", ["a/b", "%2F", "a b+c", "é😀", "../x", "x?y#z&w", "variables/x", "new\nline", "'\"\\"]
)
def test_a_state_of_any_name_can_be_asked_for_and_deleted(client: Client, odd: str) -> None:
    name = f"{fresh()}/{odd}"
    assert client.run("x = 41", new=name)["state_name"] == name
    assert name in client.get("/states")[1]["states"]
    status, state = client.get(f"/states/{quote(name)}")
    assert (status, state["name"], state["variables"]["x"]["repr"]) == (200, name, "41")
    status, bundle = client.get(f"/states/{quote(name)}/variables/x")
    assert (status, bundle["data"]["text/plain"]) == (200, "41")
    assert client.run("print(x + 1)", state=name)["output"][0]["text"] == "42\n"
    assert client.delete(f"/states/{quote(name)}") == (200, {"deleted": name})
    assert client.get(f"/states/{quote(name)}")[0] == 404


def test_unknown_states_and_variables_are_404(client: Client) -> None:
    name = fresh()
    client.run("x = 1", new=name)
    asked = [
        client.get("/states/none"),
        client.delete("/states/none"),
        client.get("/states/none/variables/x"),
        client.get(f"/states/{name}/variables/none"),
        client.get("/diff", a=name, b="none"),
        client.get("/diff", a="none", b=name),
        client.post("/symbol_hashes", {"state_name": "none", "symbols": []}),
        client.post("/alias_groups", {"state_name": "none"}),
        client.post(
            "/rebuild_state",
            {"input_state": "none", "source_state": name, "source_vars": [], "input_vars": []},
        ),
    ]
    for status, body in asked:
        assert status == 404
        assert "none" in body["error"]["message"]
    reply = client.execute("1", state="none")
    assert (reply["error"]["ename"], reply["error"]["evalue"]) == ("StateNotFound", "none")


def test_the_initial_state_is_not_to_be_changed(client: Client) -> None:
    assert client.delete("/states/initial")[0] == 409
    body = {"code": "1", "exec_id": fresh(), "state_name": "initial", "new_state_name": "initial"}
    status, answer = client.post("/execute", body)
    assert (status, answer["error"]["code"]) == (409, "Conflict")


def test_an_exec_id_that_runs_is_409(client: Client, tmp_path: Path) -> None:
    started, go, exec_id = Flag(tmp_path), Flag(tmp_path), fresh("e")
    running = background(client.execute, f"{started.raising}\n{go.waiting}", exec_id=exec_id)
    started.wait()
    status, answer = client.post("/execute", {"code": "1", "exec_id": exec_id, "state_name": "initial"})
    assert (status, answer["error"]["code"]) == (409, "Conflict")
    go.raise_()
    assert running.result(60)["error"] is None
    assert client.execute("1", exec_id=exec_id)["error"] is None


def test_a_cell_of_any_sensible_size_is_taken_and_a_huge_body_is_413(client: Client) -> None:
    assert text_of(client.run(f"x = '{'a' * 150_000}'\nlen(x)")) == "150000"
    huge = b'{"code": "' + b"a" * 200_000_000
    headers = {"Content-Type": "application/json"}
    answer = client.request("POST", "/execute", huge, headers=headers)
    assert (answer.status, answer.json["error"]["code"]) == (413, "BodyTooLarge")
    assert "67,108,864" in answer.json["error"]["message"]
    stranger = client.request("POST", "/execute", huge, headers={**headers, "Authorization": "Bearer no"})
    assert stranger.status == 401


def test_health_has_details_for_those_with_the_token(client: Client) -> None:
    status, details = client.get("/health")
    assert status == 200
    assert details["status"] == "ok"
    assert {"version", "workspace", "kernels", "executions"} <= details.keys()
    assert Client(client.url, token=None).get("/health") == (200, {"status": "ok"})


def test_a_client_that_leaves_does_not_end_its_execution(client: Client, tmp_path: Path) -> None:
    started, go, name = Flag(tmp_path), Flag(tmp_path), fresh()
    cell = f"{started.raising}\n{go.waiting}\nx = 1"
    body = {"code": cell, "exec_id": fresh(), "state_name": "initial", "new_state_name": name}
    data = json.dumps(body).encode()
    address = urlsplit(client.url)
    with socket.create_connection((str(address.hostname), address.port or 80)) as connection:
        head = (
            f"POST /execute HTTP/1.1\r\nHost: {address.netloc}\r\nAuthorization: Bearer {TOKEN}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
        )
        connection.sendall(head.encode() + data)
        started.wait()
    go.raise_()
    until(lambda: name in client.get("/states")[1]["states"], "the state has been stored")
    assert client.get(f"/states/{name}")[1]["variables"]["x"]["repr"] == "1"


def test_reset_takes_no_body_or_an_empty_object(make_server: Callable[..., Server]) -> None:
    client = make_server(pool_size=1).client
    bodies: tuple[Any, ...] = (None, b"", {})
    for body in bodies:
        client.run("x = 1", new="s1")
        assert client.post("/reset", body) == (200, {"status": "ok"})
        assert client.get("/states") == (200, {"states": ["initial"]})


@pytest.fixture
def impatient() -> Iterator[tuple[str, int]]:
    """The address of a server, in this process, that gives signs of life a hundred times a second."""
    from bridge.engine import Kernel

    kernel = Kernel(Settings(ephemeral=True, pool_size=1))
    site = Site(kernel, Access(TOKEN.encode()), every=0.01)
    server = HttpServer("127.0.0.1", 0, make_app(lambda: site))
    address = server.listen()
    server.start()
    yield address
    closer = threading.Thread(target=kernel.close)
    closer.start()
    closer.join(10)
    assert server.stop(5)
    assert not closer.is_alive()


def asked(address: tuple[str, int], code: str) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection(*address, timeout=60)
    body = json.dumps({"code": code, "exec_id": "e1", "state_name": "initial", "new_state_name": "s1"})
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json", "Connection": "close"}
    connection.request("POST", "/execute", body, headers)
    return connection.getresponse()


def test_a_long_answer_begins_with_spaces(impatient: tuple[str, int], tmp_path: Path) -> None:
    go = Flag(tmp_path)
    answer = asked(impatient, f"{go.waiting}\nx = 'é'\nx")
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.read(5) == b"     "
    go.raise_()
    reply = json.loads(answer.read())
    assert (reply["error"], reply["state_name"], text_of(reply)) == (None, "s1", "'é'")


def test_a_long_answer_tells_of_a_kernels_death(impatient: tuple[str, int], tmp_path: Path) -> None:
    go = Flag(tmp_path)
    answer = asked(impatient, f"{go.waiting}\nimport os; os._exit(3)")
    assert answer.read(3) == b"   "
    go.raise_()
    reply = json.loads(answer.read())
    assert (answer.status, reply["error"]["ename"], reply["state_name"]) == (200, "KernelDied", None)


def test_a_long_answer_tells_of_the_servers_end(make_server: Callable[..., Server], tmp_path: Path) -> None:
    server = make_server(pool_size=1)
    started, never = Flag(tmp_path), Flag(tmp_path)
    running = background(
        server.client.post,
        "/execute",
        {
            "code": f"{started.raising}\n{never.waiting}",
            "exec_id": "e1",
            "state_name": "initial",
        },
    )
    started.wait()
    assert server.stop() == 0
    status, reply = running.result(30)
    assert (status, reply["error"]["ename"]) == (200, "ServerShutdown")
    server.check_gone()


def test_a_list_of_states_in_pages(client: Client) -> None:
    for number in range(3):
        client.run("x = 1", new=f"page-{number}")
    assert client.get("/states", after="page-0", limit=1) == (200, {"states": ["page-1"]})
    status, answer = client.get("/states", after="page-1", limit=10**30, detail=1)
    assert status == 200
    assert answer["states"][0]["name"] == "page-2"
    assert client.get("/states", limit=0) == (200, {"states": []})
    assert client.get("/states", after="nobody")[0] == 404
    assert client.get("/states", limit="-1")[0] == 400
