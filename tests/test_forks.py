"""Many forks: right whatever they come of, and with nothing left of them."""

from __future__ import annotations

import contextlib
import os
import random
import signal
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from bridge import Kernel, Settings
from tests.concurrency import is_over, until
from tests.support import Server, text_of

FORKS = 1000
STEPS = 300


def run(kernel: Kernel, code: str, state: str, new: str, **terms: object) -> str:
    """What a cell prints, which must not fail."""
    reply = kernel.execute(code, f"exec-{new}", state, new, **terms)  # type: ignore[arg-type]
    assert reply["error"] is None, reply["error"]
    return "".join(output.get("text", "") for output in reply["output"])


def of_a_server() -> set[int]:
    """The processes below this one that have not ended."""
    return {each.pid for each in psutil.Process().children(recursive=True) if not is_over(each.pid)}


@pytest.mark.parametrize("sig", [signal.SIGKILL, signal.SIGTERM])
def test_frozen_processes_end_with_the_server(
    make_server: Callable[..., Server], tmp_path: Path, sig: signal.Signals
) -> None:
    server = make_server(pool_size=1, preload="none", home=tmp_path / "home")
    reply = server.client.run("steps = (n for n in range(9)); next(steps)", "initial", "root", hot=True)
    assert reply["state"]["hot"]
    for turn in range(2):
        assert text_of(server.client.run("next(steps)", "root", f"turn{turn}")) == "1"
    server.stop(sig)
    until(lambda: not list(server.temp.glob("jb-*")), "the sockets' folder is gone", timeout=3)
    server.check_gone()


@pytest.mark.soak
def test_a_thousand_forks_leave_nothing() -> None:
    kernel = Kernel(Settings(ephemeral=True, pool_size=2, preload=()))
    folder = kernel.home.path
    try:
        run(kernel, "steps = (n for n in range(9)); next(steps)", "initial", "root", hot=True)
        for turn in range(20):  # until as many kernels are there as ever will be
            assert run(kernel, "print(next(steps))", "root", f"warm{turn % 2}") == "1\n"
        assert kernel.pool._host is not None
        runtime = kernel.pool._host.folder.path
        descriptors, sockets = len(os.listdir("/proc/self/fd")), len(os.listdir(runtime))
        shared, processes = set(os.listdir("/dev/shm")), len(of_a_server())
        for turn in range(FORKS):
            assert run(kernel, "print(next(steps))", "root", f"turn{turn % 2}") == "1\n"
        until(lambda: len(of_a_server()) <= processes, "no more processes than before")
        until(lambda: len(os.listdir(runtime)) <= sockets, "no more sockets' files than before")
        assert len(os.listdir("/proc/self/fd")) <= descriptors + 8
        assert set(os.listdir("/dev/shm")) <= shared
    finally:
        kernel.close()
    assert of_a_server() == set()
    assert not Path(folder).exists()


@pytest.mark.soak
@pytest.mark.parametrize("seed", [1, 2])
def test_random_branches_from_hot_and_stored_states_show_what_a_plain_line_shows(seed: int) -> None:
    """Each state's line is told by the numbers appended on the way to it, and by how far its generator stood."""
    chance = random.Random(seed)
    kernel = Kernel(Settings(ephemeral=True, pool_size=2, preload=(), hot_states=6))
    lines: dict[str, list[int]] = {"root": []}
    try:
        start = "class Box: pass\nbox = Box(); box.rows = rows = []\nsteps = (n for n in range(10_000))"
        run(kernel, start, "initial", "root", hot=True)
        for number in range(STEPS):
            state = chance.choice(list(lines)[-12:])
            name = f"s{number}"
            terms = {"hot": chance.random() < 0.4, "isolation": chance.choice(["shared", "shared", "fresh"])}
            code = f"rows.append({number}); print(rows, box.rows is rows, isinstance(box, Box))"
            wanted = [*lines[state], number]
            assert run(kernel, code, state, name, **terms) == f"{wanted} True True\n"
            lines[name] = wanted
            reply = kernel.execute("print(next(steps))", f"look-{name}", name, f"look{number % 2}")
            if reply["error"] is None:
                assert reply["output"][0]["text"] == "0\n"
            else:  # it was evicted, and no kernel has it any more
                assert "generator" in reply["error"]["evalue"]
            if chance.random() < 0.1:
                victim = chance.choice([each["pid"] for each in kernel.status()["kernels"] if each["pid"]])
                with contextlib.suppress(ProcessLookupError):  # a spare one that has just been given back
                    os.kill(victim, 9)
    finally:
        kernel.close()
