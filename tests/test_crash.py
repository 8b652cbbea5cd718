"""The server killed with SIGKILL at any moment: no state whose name a client was given is lost."""

from __future__ import annotations

import http.client
import random
import signal
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from tests.concurrency import background, until
from tests.support import Client, Server, text_of

BRANCHES = 2
BROKEN = (OSError, http.client.HTTPException)
"""What a client sees of a server that is killed: no connection, or the beginning of a reply."""


def keep_executing(client: Client, branch: int, given: dict[str, int]) -> None:
    """Executes cell after cell, each from the state before it, and notes each name when its reply has come.

    Ends with the connection, which is what the test does to the server.
    """
    state, count = "initial", 0
    while True:
        count += 1
        code = f"import numpy as np\nn = {count}\nbig = np.full(20_000, n)\nwords = ['w'] * n"
        name = f"b{branch}-{count}"
        try:
            reply = client.execute(code, state, name)
        except BROKEN:
            return
        if reply["error"] is not None:  # a reply that was under way when the server went
            return
        given[name] = count
        state = name


def kill_while_executing(
    make_server: Callable[..., Server], home: Path, workspace: str, given: dict[str, int], wanted: int
) -> None:
    """Runs a server, lets each branch get about `wanted` names, and kills it in the middle of the work."""
    server = make_server(home=home, workspace=workspace, pool_size=BRANCHES)
    before = len(given)
    running: list[Future[Any]] = [
        background(keep_executing, server.client, branch, given) for branch in range(BRANCHES)
    ]
    until(lambda: len(given) - before >= wanted or any(r.done() for r in running), f"{wanted} states", 60)
    server.stop(signal.SIGKILL)
    for branch in running:
        branch.result(30)
    until(lambda: not server.processes(), "every kernel of the killed server has ended", 10)


def check_every_state(client: Client, given: dict[str, int]) -> None:
    """Every given name is listed, and a cell run from it finds the values it had."""
    listed = client.get("/states")[1]["states"]
    assert listed[0] == "initial"
    assert set(given) <= set(listed), set(given) - set(listed)
    for name, count in given.items():
        reply = client.run("print(n, int(big.sum()), len(words))", name)
        assert text_of(reply) == f"{count} {20_000 * count} {count}\n", name


@pytest.mark.parametrize("wanted", [1, 5, 12])
def test_no_given_name_is_lost(make_server: Callable[..., Server], tmp_path: Path, wanted: int) -> None:
    given: dict[str, int] = {}
    kill_while_executing(make_server, tmp_path / "home", "crash", given, wanted)
    assert given
    check_every_state(make_server(home=tmp_path / "home", workspace="crash").client, given)


def test_last_opens_the_workspace_that_was_killed(make_server: Callable[..., Server], tmp_path: Path) -> None:
    home = tmp_path / "home"
    first = make_server(home=home, pool_size=1)
    first.client.run("kept = 'safe'", new="mine")
    first.stop(signal.SIGKILL)
    until(lambda: not first.processes(), "every kernel of the killed server has ended", 10)
    second = make_server(home=home, workspace="last", pool_size=1)
    assert second.client.get("/states")[1]["states"] == ["initial", "mine"]
    assert text_of(second.client.run("print(kept)", "mine")) == "safe\n"


def test_a_replaced_state_is_the_old_or_the_new_one(
    make_server: Callable[..., Server], tmp_path: Path
) -> None:
    """One name written over and over: after the kill it holds the last value given, or the one under way."""
    home = tmp_path / "home"
    server = make_server(home=home, workspace="one", pool_size=1)
    seen: list[int] = []

    def overwrite(client: Client) -> None:
        for count in range(10_000):
            try:
                reply = client.execute(f"n = {count}", new="only")
            except BROKEN:
                return
            if reply["error"] is not None:
                return
            seen.append(count)

    running = background(overwrite, server.client)
    until(lambda: len(seen) >= 8 or running.done(), "eight replacements", 60)
    server.stop(signal.SIGKILL)
    running.result(30)
    until(lambda: not server.processes(), "every kernel of the killed server has ended", 10)
    reopened = make_server(home=home, workspace="one", pool_size=1).client
    assert reopened.get("/states")[1]["states"] == ["initial", "only"]
    found = int(text_of(reopened.run("print(n)", "only")))
    assert found in (seen[-1], seen[-1] + 1)


@pytest.mark.soak
def test_no_given_name_is_lost_in_many_rounds(make_server: Callable[..., Server], tmp_path: Path) -> None:
    """The same home killed again and again, each time after another number of executions."""
    home, chance = tmp_path / "home", random.Random(1)
    for turn in range(40):
        given: dict[str, int] = {}
        kill_while_executing(make_server, home, f"round-{turn}", given, chance.randint(1, 40))
        reopened = make_server(home=home, workspace=f"round-{turn}", pool_size=2)
        check_every_state(reopened.client, given)
        reopened.stop()
