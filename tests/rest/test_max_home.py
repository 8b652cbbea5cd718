"""A server that keeps its home under a size, as its clients see it."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

from bridge.store.home import Home
from tests.concurrency import until
from tests.support import Server

STATES = 10
BIG = "import os\nbig = os.urandom(3_000_000)"


def make_old(home: Path) -> None:
    """As if everything in the home had been stored long ago."""
    connection = sqlite3.connect(home / "states.sqlite")
    try:
        connection.execute("UPDATE states SET used = NULL, created = '2020-01-01T00:00:00.000000Z'")
        connection.commit()
    finally:
        connection.close()
    for path in (home / "blobs").rglob("*"):
        os.utime(path, (0, 0))


def test_old_states_go_and_say_so_when_they_are_asked_for(
    tmp_path: Path, make_server: Callable[..., Server]
) -> None:
    home = tmp_path / "home"
    server = make_server(home=home, workspace="w", pool_size=1)
    client = server.client
    at = "initial"
    for number in range(STATES):
        at = client.run(f"{BIG}\nnumber = {number}", at, f"s{number}")["state_name"]
    assert client.post("/states/s0/label", {"label": "first"}) == (200, {"state_name": "first"})
    assert client.post("/states/nothing/label", {"label": "x"})[0] == 404
    assert client.post("/states/s1/label", {"label": "initial"})[0] == 409
    assert server.stop() == 0
    make_old(home)

    client = make_server(home=home, workspace="w", pool_size=1, max_home="16M").client
    names = until(lambda: (found := client.get("/states")[1]["states"])[2] != "s1" and found, "an eviction")
    # Three of 3 MB are left beside the labelled one: 9/10 of 16 MiB are 15 MB, and the log takes its part.
    assert names[:2] == ["initial", "s0"]
    assert names[-2:] == ["s9", "first"]
    assert "s5" not in names
    until(lambda: Home.open(home).size() < 16 << 20, "the space to be given back")

    status, answer = client.get("/states/s1")
    assert status == 404
    assert answer["error"]["code"] == "StateEvicted"
    assert "'s1' was evicted at 20" in answer["error"]["message"]
    error = client.execute("number", "s1")["error"]
    assert error["ename"] == "StateEvicted"
    assert "to keep the home under its size limit" in error["evalue"]
    # What came of evicted ones is whole, and so is the label; the evicted names can be used again.
    assert client.run("number, len(big)", "s9")["output"][0]["data"]["text/plain"] == "(9, 3000000)"
    assert client.run("number, len(big)", "first", "s1")["output"][0]["data"]["text/plain"] == "(0, 3000000)"
    assert client.get("/states/s1")[0] == 200
    log = (home / "logs" / "server.log").read_text()
    assert log.count("to keep the home under") == 1
