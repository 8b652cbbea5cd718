"""Values that make saving hard: each costs itself alone and is named with the reason."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.concurrency import Flag
from tests.support import Client, Server, text_of


@pytest.fixture(scope="module")
def client(nothing_left_behind: None) -> Iterator[Client]:
    """A server with one kernel: what one test does to it shows in the next."""
    server = Server(pool_size=1, hot_states=0)
    try:
        yield server.ready().client
    finally:
        server.close()


def reasons(reply: dict[str, Any]) -> dict[str, str]:
    """Why each name is not in the stored state."""
    return {item["name"]: item["reason"] for item in reply["state"]["skipped"]}


DEEP = {
    "lists": "deep = []\nfor _n in range(30_000): deep = [deep]",
    "dicts": "deep = {}\nfor _n in range(30_000): deep = {'k': deep}",
    "instances": "class Node: pass\ndeep = None\nfor _n in range(30_000):\n"
    "    node = Node(); node.next = deep; deep = node\ndel node",
    "closures": "deep = lambda: 0\nfor _n in range(30_000): deep = (lambda inner: lambda: inner)(deep)",
}


@pytest.mark.parametrize("kind", DEEP)
def test_a_very_deep_value_is_saved_or_named(client: Client, kind: str) -> None:
    reply = client.run(f"{DEEP[kind]}\nkeep = ['small']; twin = keep", new="deep")
    told = reasons(reply)
    assert set(reply["state"]["saved"]) >= {"keep", "twin"}
    assert "deep" in reply["state"]["saved"] or told["deep"]
    # Later cells from that state do not pay for it, and find what is saved.
    later = client.run("keep.append(1); print(keep, twin is keep)", "deep", "later")
    assert text_of(later) == "['small', 1] True\n"
    fresh = client.execute("print(keep); deep", "deep", isolation="fresh")
    assert text_of(fresh).startswith("['small']\n")
    assert (fresh["error"] is None) == ("deep" not in told)


def test_a_reduce_that_raises_is_named_with_its_own_words(client: Client) -> None:
    code = (
        "class Odd:\n    def __reduce__(self): raise RuntimeError('not today')\n"
        "class Exits:\n    def __reduce__(self): raise SystemExit(3)\n"
        "odd, rows, box = Odd(), [1], {'in': [Odd()]}; ends = Exits(); same = rows"
    )
    reply = client.run(code, new="raises")
    told = reasons(reply)
    assert "not today" in told["odd"]
    assert "box['in'][0]" in told["box"]
    assert "ends" in told
    assert set(reply["state"]["saved"]) >= {"Odd", "Exits", "rows", "same"}
    assert text_of(client.run("print(type(odd) is Odd, same is rows)", "raises")) == "True True\n"
    assert text_of(client.run("print(rows, same is rows)", "raises", isolation="fresh")) == "[1] True\n"


def test_a_state_that_cannot_be_set_again_is_no_lost_state(client: Client) -> None:
    """It pickles well and fails when it is loaded: its name alone is missing then, and says why."""
    code = (
        "class Once:\n    def __init__(self): self.v = 1\n"
        "    def __setstate__(self, state): raise ValueError('only once')\n"
        "class Needs:\n    def __new__(cls, v): return super().__new__(cls)\n"
        "    def __reduce__(self): return (Needs, ())\n"
        "one, needs, rows = Once(), Needs(1), [1]"
    )
    client.run(code, new="once")
    for name in ("one", "needs"):
        reply = client.execute(f"print(rows, Once, Needs)\n{name}", "once", isolation="fresh")
        assert text_of(reply) == "[1] <class '__main__.Once'> <class '__main__.Needs'>\n"
        assert reply["error"]["ename"] == "NameError"
        assert name in reply["error"]["evalue"]


def test_values_that_a_thread_changes_while_they_are_saved(client: Client, tmp_path: Path) -> None:
    stop = Flag(tmp_path)
    code = (
        "import threading, itertools, os\nmoving = {n: [n] for n in range(20_000)}; rows = ['still']\n"
        "def churn():\n    for n in itertools.count(20_000):\n        moving[n] = [n]; del moving[n - 20_000]\n"
        f"        if n % 1000 == 0 and os.path.exists({str(stop.path)!r}): return\n"
        "worker = threading.Thread(target=churn); worker.start()"
    )
    reply = client.run(code, new="moving")
    try:
        assert "rows" in reply["state"]["saved"]
        assert "moving" in reply["state"]["saved"] or reasons(reply)["moving"]
        assert text_of(client.run("print(rows, len(moving) > 10_000)", "moving")) == "['still'] True\n"
        assert text_of(client.run("print(rows)", "moving", isolation="fresh")) == "['still']\n"
    finally:
        stop.raise_()


def test_a_full_disk_costs_the_value_that_did_not_fit(client: Client) -> None:
    """The limit on the size of a file is what a full disk is to a process: writing fails half way."""
    client.run("import resource\nbefore = [1]; small = before", new="before")
    full = (
        "limits = resource.getrlimit(resource.RLIMIT_FSIZE)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, limits[1]))\n"
        "import random\nlarge = random.Random(1).randbytes(5_000_000); before.append(2)"
    )
    reply = client.run(full, "before", "full")
    assert reasons(reply).keys() == {"large"}
    assert "could not be written" in reasons(reply)["large"]
    assert reply["state"]["live"] == ["large"]
    # The kernel has it, the others have the rest.
    back = client.run(
        "resource.setrlimit(resource.RLIMIT_FSIZE, limits); print(len(large), small)", "full", "back"
    )
    assert text_of(back) == "5000000 [1, 2]\n"
    fresh = client.execute("print(small is before, small)\nlarge", "full", isolation="fresh")
    assert text_of(fresh) == "True [1, 2]\n"
    assert fresh["error"]["ename"] == "NameError"
    assert "could not be written" in fresh["error"]["evalue"]
    # Once there is room again the next cell that touches it saves it.
    saved = client.run("large = large + b'!'", "back", "saved")
    assert "large" in saved["state"]["saved"]
    assert text_of(client.run("print(len(large))", "saved", isolation="fresh")) == "5000001\n"


def test_bad_values_in_one_cell_cost_their_neighbours_nothing(client: Client) -> None:
    code = (
        "import threading, socket, sqlite3, sys\n"
        "good = [1]; twin = good; gen = (n for n in range(3)); lock = threading.Lock(); frame = sys._getframe()\n"
        "base = sqlite3.connect(':memory:'); mixed = {'ok': good, 'bad': gen}; event = threading.Event()\n"
        "class Own:\n    kept = good\n    stream = (n for n in 'ab')\nown = Own(); own.fine = [good]"
    )
    reply = client.run(code, new="bad")
    told = reasons(reply)
    assert {"gen", "base", "mixed"} <= told.keys()
    assert "mixed['bad']" in told["mixed"]
    assert "Own.stream" in " ".join(told)
    assert set(reply["state"]["saved"]) >= {"good", "twin", "Own", "own"}
    look = "print(twin is good, Own.kept is good, own.fine[0] is good, type(own) is Own)"
    for isolation in ("shared", "fresh"):
        assert text_of(client.run(look, "bad", isolation=isolation)) == "True True True True\n"


def test_a_folder_that_a_value_removes_at_its_end_outlives_a_switch(client: Client) -> None:
    code = (
        "import os, tempfile\nfolder = tempfile.TemporaryDirectory(); path = os.path.join(folder.name, 'f')\n"
        "with open(path, 'w') as out: print('kept', file=out)"
    )
    state = client.run(code)["state_name"]
    client.run("folder = path = None")
    assert text_of(client.run("with open(path) as file: print(file.read(), end='')", state)) == "kept\n"
    assert text_of(client.run("folder.cleanup(); print(os.path.exists(path))", state)) == "False\n"
