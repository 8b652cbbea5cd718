"""Sessions when things go wrong around them: a killed server, a full disk, two servers on one home."""

from __future__ import annotations

import contextlib
import http.client
import random
import resource
import signal
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.concurrency import background
from tests.support import Client, Server, text_of

CHECK = "import hashlib\nprint(n, hashlib.sha256(data).hexdigest() == digest)"
BROKEN = (OSError, http.client.HTTPException)


def execute(client: Client, code: str) -> dict[str, Any]:
    status, reply = client.post("/sessions/s/execute", {"code": code, "exec_id": uuid.uuid4().hex})
    assert status == 200, reply
    assert isinstance(reply, dict)
    return reply


def kill_during_releases(make_server: Callable[..., Server], home: Path, rounds: int) -> None:
    """In each round the server is killed somewhere in a release: the file is the old one or the new one, whole."""
    chance = random.Random(7)
    server = make_server(home=home, pool_size=1)
    assert server.client.post("/sessions", {"session_id": "s"})[0] == 201
    execute(server.client, "n = 0\nimport hashlib, os\ndata = os.urandom(4_000_000)\n")
    for number in range(1, rounds + 1):
        code = f"n = {number}\nimport hashlib, os\ndata = os.urandom(4_000_000)\n"
        reply = execute(server.client, code + "digest = hashlib.sha256(data).hexdigest()")
        assert reply["error"] is None
        assert server.client.post("/sessions/s/snapshot")[1]["state"]["error"] is None
        # A failing cell changes the namespace without a save of its own: the release is to write it.
        execute(server.client, f"n = {number} + 0.5\n1 / 0")
        release = background(server.client.post, "/sessions/s/release")
        for _ in range(chance.randrange(8)):
            server.client.get("/health")  # a while that the machine's speed decides, not a clock
        server.stop(signal.SIGKILL)
        with contextlib.suppress(*BROKEN):
            release.result(30)
        server.discard()
        server = make_server(home=home, pool_size=1)
        shown = text_of(execute(server.client, CHECK))
        assert shown in (f"{number} True\n", f"{number}.5 True\n")


def test_a_server_killed_while_it_releases_loses_no_file(
    make_server: Callable[..., Server], tmp_path: Path
) -> None:
    kill_during_releases(make_server, tmp_path / "home", 2)


@pytest.mark.soak
def test_a_server_killed_many_times_while_it_releases_loses_no_file(
    make_server: Callable[..., Server], tmp_path: Path
) -> None:
    kill_during_releases(make_server, tmp_path / "home", 40)


def test_a_full_disk_leaves_the_old_file_and_the_kernel(
    make_server: Callable[..., Server], tmp_path: Path
) -> None:
    """The limit on the size of files stands for a disk that is full: the write fails midway."""
    server = make_server(home=tmp_path / "home", pool_size=1)
    client = server.client
    client.post("/sessions", {"session_id": "s"})
    execute(client, "n = 1")
    assert client.post("/sessions/s/snapshot")[1]["state"]["error"] is None
    execute(client, "data = b'x' * 5_000_000\n1 / 0")
    no_limit = resource.prlimit(server.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (2_000_000, no_limit[1]))
    state = client.post("/sessions/s/release")[1]["state"]
    assert "cannot be written" in state["error"]
    assert client.get("/sessions/s")[1]["live"]  # what it holds would be lost
    folder = tmp_path / "home" / "sessions"
    assert [path.name for path in folder.iterdir()] == ["s.state"]
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, no_limit)
    assert client.post("/sessions/s/release")[1]["state"]["saved"] == ["n", "data"]
    assert text_of(execute(client, "print(n, len(data))")) == "1 5000000\n"


def test_two_servers_on_one_home(make_server: Callable[..., Server], tmp_path: Path) -> None:
    home = tmp_path / "home"
    one, other = make_server(home=home, pool_size=1).client, make_server(home=home, pool_size=1).client
    assert one.post("/sessions", {"session_id": "s"})[0] == 201
    assert other.post("/sessions", {"session_id": "s"})[0] == 409
    execute(one, "n = 1")
    for action in ("execute", "restore", "reset"):
        status, reply = other.post(f"/sessions/s/{action}", {"exec_id": "e"})
        assert (status, reply["error"]["code"]) == (409, "Conflict"), action
    assert other.delete("/sessions/s")[0] == 409
    assert one.post("/sessions/s/release")[0] == 200
    assert text_of(execute(other, "print(n)\nn = 2")) == "1\n"
    assert other.post("/sessions/s/release")[0] == 200
    assert text_of(execute(one, "print(n)")) == "2\n"
