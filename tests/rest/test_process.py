"""A server process as its starter meets it: its flags, its lines, its signals, its end."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.concurrency import until
from tests.support import ROOT, TOKEN, Client, Server, command

FORMS = ("main", "bottle")
Make = Callable[..., Server]


def refused(form: str, bind: str = "127.0.0.1:0", **flags: Any) -> str:
    """The one line that a start with wrong flags ends in."""
    ran = subprocess.run(command(form, bind, flags), cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 2
    assert ran.stdout == ""
    lines = [line for line in ran.stderr.splitlines() if line.startswith("jupyter-bridge: ")]
    others = set(ran.stderr.splitlines()) - set(lines)
    # Bottle announces its server before it starts it.
    assert not others or (form == "bottle" and "Traceback" not in ran.stderr)
    [line] = lines
    return line


@pytest.mark.parametrize("form", FORMS)
def test_a_few_lines_at_the_start_and_then_silence(make_server: Make, form: str) -> None:
    server = make_server(form=form)
    client = server.client
    assert client.get("/states") == (200, {"states": ["initial"]})
    assert client.get("/nope")[0] == 404
    assert client.run("import sys; print('x' * 100); print('y', file=sys.stderr)")["error"] is None
    assert client.execute("1/0")["error"]["ename"] == "ZeroDivisionError"
    assert server.stop() == 0
    first, second = server.stdout.splitlines()
    assert first.endswith(f" listens on {server.url}")
    assert second.startswith("workspace ")
    assert TOKEN not in server.stdout
    if form == "main":
        assert server.stderr == ""
    else:
        assert server.stderr.startswith("Bottle v")
        assert len(server.stderr.splitlines()) <= 4


def test_verbose_tells_the_log_to_standard_error(make_server: Make) -> None:
    server = make_server(verbose=True)
    server.client.get("/states")
    assert server.stop() == 0
    assert "GET /states 200" in server.stderr
    assert TOKEN not in server.stderr


@pytest.mark.parametrize("form", FORMS)
def test_without_a_token_the_address_to_click_is_printed(make_server: Make, form: str) -> None:
    server = make_server(form=form, token=None)
    assert server.token is not None
    assert len(server.token) >= 32
    assert server.client.get("/states")[0] == 200
    assert Client(server.url, token=None).get("/states")[0] == 401


@pytest.mark.parametrize("form", FORMS)
def test_the_token_stays_between_server_and_client(make_server: Make, tmp_path: Path, form: str) -> None:
    secret = "s3cret-of-this-test"
    server = make_server(form=form, token=None, env={"BRIDGE_TOKEN": secret}, home=tmp_path / "home")
    assert "?token" not in server.stdout
    client = Client(server.url, secret)
    look = f"import os; print([k for k, v in os.environ.items() if {secret[::-1]!r}[::-1] in v])"
    assert client.run(look)["output"][0]["text"] == "[]\n"
    assert client.get("/states", token=secret)[0] == 200
    assert client.get("/nope", token=secret)[0] == 404
    assert client.request("GET", "/states", headers={"Authorization": f"Basic {secret}"}).status == 401
    assert server.stop() == 0
    log = (tmp_path / "home" / "logs" / "server.log").read_text()
    assert "GET /states 200" in log
    assert secret not in log + server.stdout + server.stderr


def test_a_server_on_ipv6_is_met_there(make_server: Make) -> None:
    server = make_server(bind="[::1]:0")
    assert server.url.startswith("http://[::1]:")
    assert server.client.get("/health")[0] == 200


def test_an_address_in_use_is_one_line(server: Server) -> None:
    line = refused("main", server.url.removeprefix("http://"), ephemeral=True, token="t")
    assert "cannot listen" in line
    assert "in use" in line
    assert server.client.get("/states")[0] == 200


@pytest.mark.parametrize("form", FORMS)
def test_a_wrong_flag_is_one_line(form: str) -> None:
    assert "--pool-size must be" in refused(form, pool_size="many")
    assert "--token" in refused(form, token=" ")
    assert "nonsense" in refused(form, nonsense="1")


@pytest.mark.parametrize("form", FORMS)
def test_a_home_that_cannot_be_used_is_one_line(tmp_path: Path, form: str) -> None:
    (tmp_path / "file").touch()
    assert "home" in refused(form, home=tmp_path / "file", token="t")


@pytest.mark.parametrize(
    ("form", "sent"),
    [
        ("main", "SIGTERM"),
        ("main", "SIGINT"),
        ("main", "SIGHUP"),
        ("bottle", "SIGTERM"),
        ("bottle", "SIGINT"),
    ],
)
def test_a_signal_ends_everything(make_server: Make, form: str, sent: str) -> None:
    server = make_server(form=form)
    server.client.run("x = 1")
    assert server.stop(signal.Signals[sent]) == 0
    server.check_gone()


def test_what_the_starter_ignores_stays_ignored(make_server: Make, tmp_path: Path) -> None:
    """A server started by nohup outlives its terminal."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        server = make_server()
    finally:
        signal.signal(signal.SIGHUP, before)
    os.kill(server.pid, signal.SIGHUP)
    assert server.client.get("/states")[0] == 200
    assert server.process.poll() is None


def test_a_starter_that_closes_its_pipes_does_no_harm(tmp_path: Path) -> None:
    log = tmp_path / "home" / "logs" / "server.log"
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    args = command("main", f"127.0.0.1:{port}", {"token": TOKEN, "home": tmp_path / "home"})
    process = subprocess.Popen(args, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    process.stderr.close()
    try:
        until(lambda: log.exists() and "on 127.0.0.1" in log.read_text(), "the server has started")
        client = Client(f"http://127.0.0.1:{port}")
        assert client.run("print('x')")["output"][0]["text"] == "x\n"
    finally:
        process.terminate()
        assert process.wait(10) == 0


@pytest.mark.skipif(
    not hasattr(ctypes.CDLL(None), "tgkill"), reason="this C library cannot signal one thread"
)
@pytest.mark.parametrize("form", FORMS)
def test_a_signal_that_another_thread_gets_ends_the_server_too(make_server: Make, form: str) -> None:
    server = make_server(form=form, pool_size=1)
    threads = [int(name) for name in os.listdir(f"/proc/{server.pid}/task")]
    other = max(thread for thread in threads if thread != server.pid)
    assert ctypes.CDLL(None).tgkill(server.pid, other, signal.SIGTERM) == 0
    assert server.wait() == 0
    server.check_gone()
