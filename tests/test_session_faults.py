"""Sessions when things go wrong around them: a killed server, a full disk, two servers on one home."""

from __future__ import annotations

import contextlib
import http.client
import random
import signal
import subprocess
import uuid
from collections.abc import Callable, Iterator
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
    kill_during_releases(make_server, tmp_path / "home", 1)


@pytest.mark.soak
def test_a_server_killed_many_times_while_it_releases_loses_no_file(
    make_server: Callable[..., Server], tmp_path: Path
) -> None:
    kill_during_releases(make_server, tmp_path / "home", 40)


@pytest.fixture
def small_disk(tmp_path: Path) -> list[str]:
    """A command that runs the one after it where `tmp_path/small` is a disk of its own, of 12 MiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = f'mount -t tmpfs -o size=12m none {folder} && exec "$@"'
    through = ["unshare", "-rm", "sh", "-c", mount, "sh"]
    try:
        tried = subprocess.run([*through, "true"], capture_output=True, text=True, timeout=30, check=False)
    except OSError as error:
        pytest.skip(f"no file system of one's own: {error}")
    if tried.returncode:
        pytest.skip(f"no file system of one's own: {tried.stderr.strip()}")
    return through


@contextlib.contextmanager
def filled(folder: Path) -> Iterator[None]:
    """Not a byte is free on the folder's disk during the block."""
    path = folder / "fill"
    with open(path, "wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(4096)):
            pass
    try:
        yield
    finally:
        path.unlink()


def test_a_full_disk_loses_nothing_that_was_kept(
    make_server: Callable[..., Server], tmp_path: Path, small_disk: list[str]
) -> None:
    """Neither state files nor states; what a cell shows comes back though nothing can be stored; and it goes on."""
    server = make_server(home=tmp_path / "small" / "home", pool_size=1, through=small_disk)
    client, disk = server.client, Path(f"/proc/{server.pid}/root{tmp_path}/small")
    sessions = disk / "home" / "sessions"
    client.run("import os\nkept = os.urandom(2_000_000)\nn = 1", new="old")
    too_large = client.run("large = os.urandom(20_000_000)\nn = 2", "old", "new")["state"]
    assert (too_large["saved"], too_large["live"]) == (["n"], ["large"])
    assert "No space left" in too_large["skipped"][0]["reason"]
    assert client.delete("/states/new")[0] == 200
    client.post("/sessions", {"session_id": "s"})
    execute(client, "n = 1")
    assert client.post("/sessions/s/snapshot")[1]["state"]["error"] is None
    before = (sessions / "s.state").read_bytes()
    with filled(disk):
        reply = execute(client, "data = b'x' * 300_000\nprint(n)")
        assert text_of(reply) == "1\n"
        assert "no room left on the disk" in reply["state"]["error"]
        state = client.post("/sessions/s/release")[1]["state"]
        assert "s.state cannot be written: No space left" in state["error"]
        assert client.get("/sessions/s")[1]["live"]  # what it holds would be lost
        assert [path.name for path in sessions.iterdir()] == ["s.state"]
        assert (sessions / "s.state").read_bytes() == before
        status, refused = client.post("/execute", {"code": "n = 3", "state_name": "old", "exec_id": "full"})
        assert (status, refused["error"]["code"]) == (500, "StoreError")
        assert "no room left on the disk" in refused["error"]["message"]
        assert client.get("/states")[1] == {"states": ["initial", "old"]}
        assert client.get("/states/old/variables/n")[1]["data"]["text/plain"] == "1"
    assert client.post("/sessions/s/release")[1]["state"]["saved"] == ["n", "data"]
    assert text_of(execute(client, "print(n, len(data))")) == "1 300000\n"
    assert text_of(client.run("print(n, len(kept))", "old", "next")) == "1 2000000\n"
    assert server.stderr == ""


def test_two_servers_on_one_home(make_server: Callable[..., Server], tmp_path: Path) -> None:
    home = tmp_path / "home"
    one, other = make_server(home=home, pool_size=1).client, make_server(home=home, pool_size=1).client
    assert one.post("/sessions", {"session_id": "s"})[0] == 201
    assert other.post("/sessions", {"session_id": "s"})[0] == 409
    execute(one, "n = 1")
    for action in ("execute", "restore", "reset", "release"):
        status, reply = other.post(f"/sessions/s/{action}", {"exec_id": "e"})
        assert (status, reply["error"]["code"]) == (409, "Conflict"), action
    assert other.delete("/sessions/s")[0] == 409
    assert one.post("/sessions/s/release")[0] == 200
    assert text_of(execute(other, "print(n)\nn = 2")) == "1\n"
    assert other.post("/sessions/s/release")[0] == 200
    assert text_of(execute(one, "print(n)")) == "2\n"
