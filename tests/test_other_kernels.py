"""The core of the product in kernels of other environments: ipykernel alone, and its oldest supported line.

Every test runs once in each, through `--kernel NAME` and a kernelspec that no one installed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.concurrency import Flag, background
from tests.environments import BARE, OLDEST, environment, kernelspec
from tests.support import Client, Server, text_of

PACKAGES = {"bare": BARE, "oldest": OLDEST}


class Other(NamedTuple):
    """A server whose kernels live in another environment."""

    name: str
    python: Path
    client: Client


@pytest.fixture(scope="module", params=list(PACKAGES))
def other(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, nothing_left_behind: None
) -> Iterator[Other]:
    name: str = request.param
    folder = tmp_path_factory.getbasetemp()
    if hasattr(request.config, "workerinput"):
        folder = folder.parent  # what the workers of one run share
    python = environment(folder / f"environment-{name}", PACKAGES[name])
    jupyter_path = tmp_path_factory.mktemp("jupyter")
    kernelspec(jupyter_path, f"other-{name}", python)
    server = Server(pool_size=2, kernel=f"other-{name}", env={"JUPYTER_PATH": str(jupyter_path)})
    try:
        yield Other(name, python, server.ready().client)
    finally:
        server.close()


def test_the_environment_is_the_one_meant(other: Other) -> None:
    code = (
        "import sys, importlib.util, ipykernel\n"
        "has = [m for m in ('bridge', 'dill', 'numpy', 'xxhash') if importlib.util.find_spec(m)]\n"
        "print(sys.executable, ipykernel.version_info[0], has)"
    )
    reply = other.client.run(code)
    expected = {"bare": "7 []", "oldest": "6 ['dill', 'numpy']"}[other.name]
    assert text_of(reply) == f"{other.python} {expected}\n"
    assert reply["state"]["engine"] == {"bare": "pickle", "oldest": "dill"}[other.name]


CELLS = (
    ("import math\nfrom dataclasses import dataclass\nimport enum", ""),
    ("class Colour(enum.Enum): RED = 1\n@dataclass\nclass Row:\n    v: int\n    c: Colour = Colour.RED", ""),
    ("rows = [Row(1), Row(2)]; first = rows[0]; index = {'rows': rows}", ""),
    ("n = 0\ndef bump():\n    global n\n    n += 1\n    return n\nbump()", "1"),
    ("def make(t=0):\n    def add(k):\n        nonlocal t; t += k\n    return add, (lambda: t)", ""),
    ("add, total = make(); add(5); total()", "5"),
    ("first.v = 7; index['rows'][0].v, first is rows[0], first == Row(7)", "(7, True, True)"),
    ("bump(); add(1); print(n, total(), type(first) is Row, first.c is Colour.RED)", "2 6 True True\n"),
    ("print(f'{math.pi:.3f}'); _", "3.142\n(7, True, True)"),
    ("%%timeit -n1 -r1 -q\npass", ""),
    ("files = !echo hi\nfiles", "['hi']"),
    ("import asyncio\nawait asyncio.sleep(0); 'awaited'", "'awaited'"),
    ("len(In), sorted(Out)", None),
)


def test_a_line_of_cells_gives_the_same_in_every_kernel(other: Other) -> None:
    state, starts = "initial", []
    for code, expected in CELLS:
        reply = other.client.run(code, state)
        assert expected is None or text_of(reply) == expected, code
        starts.append((code, state, reply))
        state = reply["state_name"]
    for code, start, first in reversed(starts):
        assert other.client.run(code, start)["output"] == first["output"], code
    for code, start, first in starts[7], starts[8], starts[-1]:
        again = other.client.run(code, start, isolation="fresh")
        assert again["output"] == first["output"], code
        assert again["execution_count"] == first["execution_count"]


def test_symbols_and_hashes(other: Other) -> None:
    client = other.client
    start = client.run("a = [1]; b = a; c = {'x', 'y'}; d = 2\ndef f(): return d")["state_name"]
    reply = client.run("e = f() + len(b); del c; a.append(3)", start)
    assert reply["accessed_symbols"] == ["a", "b", "d", "f"]
    assert reply["modified_symbols"] == ["e"]
    assert reply["deleted_symbols"] == ["c"]
    assert set(reply["changed_symbols"]) == {"a", "b"}
    after = reply["state_name"]
    _, groups = client.post("/alias_groups", {"state_name": after})
    assert sorted(groups["groups"]) == [["a", "b"], ["d"], ["e"], ["f"]]
    asked = {"symbols": ["a", "b", "d", "nobody"]}
    _, old = client.post("/symbol_hashes", {"state_name": start, **asked})
    _, new = client.post("/symbol_hashes", {"state_name": after, **asked})
    assert old["hashes"]["a"] != new["hashes"]["a"] == new["hashes"]["b"]
    assert old["hashes"]["d"] == new["hashes"]["d"]
    assert new["hashes"]["nobody"] is None


def test_errors_and_interrupts(other: Other, tmp_path: Path) -> None:
    client = other.client
    state = client.run("x = [1]")["state_name"]
    failed = client.execute("x.append(2); 1 / 0", state)
    assert failed["error"]["ename"] == "ZeroDivisionError"
    for number, blocking in enumerate(
        ["import time; time.sleep(60)", "import asyncio; await asyncio.sleep(60)", "while True: pass"]
    ):
        started = Flag(tmp_path)
        code = f"x.append(3)\n{started.raising}\n{blocking}"
        running = background(client.execute, code, state, exec_id=f"stop-{number}")
        started.wait()
        answer = client.post("/interrupt", {"exec_id": f"stop-{number}"})[1]
        assert answer == {"interrupted": True, "how": "signal"}
        reply = running.result(30)
        assert reply["error"]["ename"] == "KeyboardInterrupt"
        assert not reply.get("killed")
    assert text_of(client.run("print(x)", state)) == "[1]\n"


def test_a_timeout_and_a_death(other: Other) -> None:
    client = other.client
    state = client.run("x = 1")["state_name"]
    assert client.execute("while True: pass", state, timeout=1)["error"]["ename"] == "TimeoutError"
    died = client.execute("print('bye', flush=True); import os, time; time.sleep(0.3); os._exit(3)", state)
    assert died["error"]["ename"] == "KernelDied"
    assert text_of(died) == "bye\n"
    assert text_of(client.run("print(x)", state)) == "1\n"


def test_input_streams_and_displays(other: Other) -> None:
    reply = other.client.run(
        "import subprocess, sys\nname = input('who? ')\nprint('hi', name, flush=True)\n"
        "print('warn', file=sys.stderr)\n"
        "h = display('one', display_id=True); h.update('two')\n"
        "subprocess.run([sys.executable, '-c', 'print(5)']); None",
        stdin=["Bo"],
    )
    shown: dict[str, Any] = {}
    for output in reply["output"]:
        key = output.get("name", output["output_type"])
        shown[key] = shown.get(key, "") + output.get("text", output.get("data", {}).get("text/plain", ""))
    assert shown["display_data"] == "'two'"
    assert shown["stdout"].split() == ["who?", "hi", "Bo", "5"] or shown["stdout"].split() == [
        "hi",
        "Bo",
        "5",
    ]
    assert shown["stderr"] == "warn\n"


def test_a_live_value_stays_usable_in_its_kernel(other: Other) -> None:
    client = other.client
    reply = client.run("import threading\nlock = threading.Lock(); gen = (k for k in range(3)); kept = 1")
    assert "gen" in reply["state"]["live"]
    assert text_of(client.run("print(lock.locked(), next(gen), kept)", reply["state_name"])) == "False 0 1\n"
    assert text_of(client.run("print(kept)", reply["state_name"], isolation="fresh")) == "1\n"


def test_states_in_several_kernels_at_once(other: Other, tmp_path: Path) -> None:
    client = other.client
    root = client.run("x = [0]\nclass Box: pass\nbox = Box(); box.x = x")["state_name"]
    here, there = Flag(tmp_path), Flag(tmp_path)
    tail = "print(x, box.x is x, type(box) is Box)"
    left = background(client.execute, f"x.append(1)\n{here.raising}\n{there.waiting}\n{tail}", root)
    right = background(client.execute, f"x.append(2)\n{there.raising}\n{here.waiting}\n{tail}", root)
    assert text_of(left.result(60)) == "[0, 1] True True\n"
    assert text_of(right.result(60)) == "[0, 2] True True\n"


def test_several_states_at_once(other: Other) -> None:
    client = other.client
    one = client.run("w = 1\ndef f(): return w")["state_name"]
    two = client.run("w = 2\ndef f(): return w")["state_name"]
    status, reply = client.post(
        "/multistate_execute",
        {
            "code": "print(a.f(), b.f(), w, a.w)",
            "exec_id": "multi",
            "state_mapping": {"a": one, "b": two},
            "default_state": two,
        },
    )
    assert status == 200
    assert reply["error"] is None
    assert text_of(reply) == "1 2 2 1\n"
    assert reply["state_name"] is None


def test_arrays_keep_their_views(other: Other) -> None:
    if other.name == "bare":
        pytest.skip("there is no NumPy in this environment, which is the point of it")
    client = other.client
    state = client.run("import numpy as np\ngrid = np.arange(1_000_000); win = grid[2:4]")["state_name"]
    for isolation in ("shared", "fresh"):
        reply = client.run("win[0] = 99; print(grid[2], win.base is grid)", state, isolation=isolation)
        assert text_of(reply) == "99 True\n"
