"""Fixtures for every test: a real server, its client, and the proof that nothing is left behind.

server            one server for the whole (xdist) session, ephemeral; treat its states as shared
client            a client of that server
make_server       starts further servers: make_server(pool_size=1, home=path, form="bottle", …)
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.concurrency import left_of
from tests.support import Client, Server


@pytest.fixture(scope="session", autouse=True)
def heard_interrupts() -> None:
    """Tests that run in the background of a shell ignore SIGINT, and so would every server and kernel of theirs."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def nothing_left_behind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Fails the session if a process or a temporary file of ours outlives the tests.

    Temporary files of this process and its children go to a folder with a short name (sockets' paths have
    a limit), which must be empty at the end; pytest's own folder is made before, elsewhere.
    """
    tmp_path_factory.getbasetemp()
    before, temp = os.environ.get("TMPDIR"), tempfile.mkdtemp(prefix="br-")
    os.environ["TMPDIR"] = tempfile.tempdir = temp
    yield
    tempfile.tempdir = None
    if before is None:
        del os.environ["TMPDIR"]
    else:
        os.environ["TMPDIR"] = before
    children = psutil.Process().children(recursive=True)
    alive = left_of(children, 3)
    names = [f"{process.pid} {process.cmdline()}" for process in alive]
    for process in alive:
        process.kill()
    files = sorted(str(path) for path in Path(temp).rglob("*"))
    shutil.rmtree(temp)
    assert not names, f"processes left running: {names}"
    assert not files, f"temporary files left: {files}"


@pytest.fixture(scope="session")
def server(nothing_left_behind: None) -> Iterator[Server]:
    """One server that all tests of a session share; its end must leave nothing."""
    started = Server()
    try:
        yield started.ready()
    finally:
        started.close()


@pytest.fixture
def client(server: Server) -> Client:
    """A client of the shared server."""
    return server.client


@pytest.fixture
def make_server() -> Iterator[Callable[..., Server]]:
    """Starts servers of a test's own; each is stopped at the test's end and must leave nothing."""
    started: list[Server] = []

    def make(*, wait: bool = True, **flags: Any) -> Server:
        made = Server(**flags)
        started.append(made)
        return made.ready() if wait else made

    yield make
    problems = []
    for made in started:
        try:
            made.close()
        except AssertionError as problem:
            problems.append(str(problem))
    assert not problems, problems
