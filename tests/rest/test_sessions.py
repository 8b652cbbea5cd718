"""Sessions over HTTP: statuses and shapes; what they do is tested with the engine."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridge.rest.openapi import SCHEMAS
from tests.support import Client, text_of

STATE_FIELDS = {"saved", "restored", "skipped", "failed", "engine", "error", "defs", "largest"}


@pytest.fixture
def session(client: Client) -> Iterator[str]:
    status, reply = client.post("/sessions")
    assert status == 201
    yield reply["session_id"]
    assert client.delete(f"/sessions/{reply['session_id']}") == (200, {"deleted": reply["session_id"]})


def test_a_session_over_http(client: Client, session: str) -> None:
    path = f"/sessions/{session}"
    body = {"code": "a = input()\nprint(a)", "exec_id": uuid.uuid4().hex, "stdin": ["line"]}
    status, reply = client.post(f"{path}/execute", body)
    assert (status, reply["error"], text_of(reply)) == (200, None, "line\n")
    assert set(SCHEMAS["Execution"]["required"]) <= reply.keys()
    for action in ("snapshot", "release", "restore"):
        status, reply = client.post(f"{path}/{action}")
        assert (status, reply["state"].keys(), reply["state"]["error"]) == (200, STATE_FIELDS, None)
    status, described = client.get(path)
    assert described.keys() == set(SCHEMAS["Session"]["required"])
    assert (described["live"], described["running"]) == (True, False)
    assert session in [each["session_id"] for each in client.get("/sessions")[1]["sessions"]]
    status, reply = client.post(f"{path}/save_state", {"new_state_name": "of a session"})
    assert (status, reply) == (200, {"state_name": "of a session"})
    assert text_of(client.run("print(a)", "of a session")) == "line\n"
    status, reply = client.post(f"{path}/pastes", {"text": "kept", "input": "note"})
    assert Path(reply["path"]).name == "note-1.md"
    assert Path(reply["path"]).read_text() == "kept"
    status, reply = client.post(f"{path}/reset")
    assert (status, client.get(path)[1]["state_bytes"]) == (200, None)


def test_what_is_refused(client: Client, session: str) -> None:
    assert client.post("/sessions", {"session_id": session})[0] == 409
    for body in ({"session_id": "a/b"}, {"session_id": ""}, {"session_id": 1}, {"cwd": "/no/such/folder"}):
        assert client.post("/sessions", body)[0] == 400
    assert client.post("/sessions", {"from_state": "missing"})[0] == 404
    for action in ("snapshot", "release", "restore", "reset", "save_state"):
        status, reply = client.post(f"/sessions/missing/{action}")
        assert (status, reply["error"]["code"]) == (404, "SessionNotFound")
    assert client.post("/sessions/missing/execute", {"exec_id": "e"})[0] == 404
    assert client.get("/sessions/missing")[0] == client.delete("/sessions/missing")[0] == 404
    assert client.post(f"/sessions/{session}/pastes", {"text": "x", "input": "../up"})[0] == 400
