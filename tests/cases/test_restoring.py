"""The rows of `restoring`: in the kernel that has moved on, and in one that never ran anything."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cases.restoring import CASES, Restoring
from tests.support import Client, Server, quote, text_of


@pytest.fixture(scope="module")
def one_kernel(nothing_left_behind: None) -> Iterator[Client]:
    """A server whose pool is one kernel: "shared" is then always the kernel that ran what came later."""
    started = Server(pool_size=1, hot_states=0)
    try:
        yield started.ready().client
    finally:
        started.close()


@pytest.mark.parametrize("isolation", ["shared", "fresh"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_restored_state_is_what_was_there(
    one_kernel: Client, case: Restoring, isolation: str, tmp_path: Path
) -> None:
    for module in case.needs:
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{case.id} needs {module}, which is not installed here")
    state = run_all(one_kernel, case.setup, in_folder=tmp_path if case.scratch else None)
    run_all(one_kernel, case.later, start=state)
    reply = one_kernel.run(case.check, state, isolation=isolation)
    assert text_of(reply) == case.expected + "\n"


def run_all(
    client: Client, cells: tuple[str, ...], *, start: str = "initial", in_folder: Path | None = None
) -> str:
    """The state after `cells`, each run from the state after the one before it."""
    if in_folder is not None:
        start = client.run(f"%cd -q {in_folder}", start)["state_name"]
    for cell in cells:
        start = client.run(cell, start)["state_name"]
    return start


def test_looking_at_an_old_class_leaves_the_live_one_alone(one_kernel: Client) -> None:
    case = next(case for case in CASES if case.id == "R02")
    old = run_all(one_kernel, case.setup)
    new = run_all(one_kernel, case.later, start=old)
    status, details = one_kernel.get(f"/states/{quote(old)}")
    assert status == 200
    assert "Cfg" in details["variables"]
    status, _ = one_kernel.get(f"/states/{quote(old)}/variables/Cfg")
    assert status == 200
    status, difference = one_kernel.get("/diff", a=old, b=new)
    assert status == 200
    assert "Cfg" in difference["changed"]
    assert text_of(one_kernel.run("print(Cfg.level, read())", new)) == "9 9\n"


def test_what_cannot_be_saved_is_named_with_its_reason(one_kernel: Client) -> None:
    reply = one_kernel.run("squares = (k * k for k in range(5)); first = next(squares)\nrows = [1, 2, 3]")
    assert reply["state"]["live"] == ["squares"]
    [skipped] = reply["state"]["skipped"]
    assert skipped["name"] == "squares"
    assert "generator" in skipped["reason"]
    assert reply["state"]["saved"] == ["first", "rows"]


def test_a_moved_generator_never_shows_a_wrong_position(one_kernel: Client) -> None:
    old = one_kernel.run("squares = (k * k for k in range(5)); next(squares)")["state_name"]
    one_kernel.run("next(squares); next(squares)", old)
    for isolation in ("shared", "fresh"):
        reply = one_kernel.execute("print(list(squares))", old, isolation=isolation)
        if reply["error"] is None:
            assert text_of(reply) == "[1, 4, 9, 16]\n"
        else:
            assert reply["error"]["ename"] == "NameError"
            assert "squares" in reply["error"]["evalue"]
            assert "generator" in reply["error"]["evalue"]


def test_a_path_to_the_offender_is_given(one_kernel: Client) -> None:
    reply = one_kernel.run(
        "class Svc:\n    def __init__(self): self.parts = {'gen': (k for k in range(3))}\nsvc, other = Svc(), 5"
    )
    assert reply["state"]["live"] == ["svc"]
    [skipped] = reply["state"]["skipped"]
    assert skipped["name"] == "svc"
    assert "svc.parts['gen']" in skipped["reason"]


def test_a_slice_does_not_drag_its_array_into_the_store_twice(one_kernel: Client) -> None:
    reply = one_kernel.run(
        "import numpy as np\nbig = np.arange(1_000_000.0); parts = [big[:10], big[10:20], big]"
    )
    assert 8_000_000 <= reply["state"]["bytes"] < 8_100_000


def test_handlers_are_not_doubled_by_two_restores(one_kernel: Client) -> None:
    state = one_kernel.run(
        "import logging\nlg = logging.getLogger('twice'); lg.addHandler(logging.NullHandler())"
    )["state_name"]
    for _turn in range(2):
        one_kernel.run("lg.addHandler(logging.NullHandler())", state)
        assert text_of(one_kernel.run("print(len(lg.handlers))", state)) == "1\n"
