"""Sessions of one engine: one continuous namespace, whatever becomes of its kernels."""

from __future__ import annotations

import os
import pickle
import signal
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bridge import Kernel, Settings
from bridge.engine import sessions
from bridge.errors import BadRequest, Conflict, SessionNotFound, StateNotFound
from tests.concurrency import is_over, until
from tests.golden import make_sessions
from tests.support import text_of

SOON = 30.0


@pytest.fixture
def session(kernel: Kernel) -> Iterator[str]:
    """A new session's id; the session is deleted at the end."""
    session_id = kernel.sessions.create()["session_id"]
    yield session_id
    kernel.sessions.delete(session_id)


def execute(kernel: Kernel, session_id: str, code: str, **terms: Any) -> dict[str, Any]:
    return kernel.sessions.execute(session_id, code, uuid.uuid4().hex, **terms)


def run(kernel: Kernel, session_id: str, code: str, **terms: Any) -> str:
    """What a cell that must not fail shows."""
    reply = execute(kernel, session_id, code, **terms)
    assert reply["error"] is None, reply["error"]
    return text_of(reply)


def released(kernel: Kernel, session_id: str) -> dict[str, Any]:
    """The state reply of a release that must not fail."""
    state = kernel.sessions.release(session_id)["state"]
    assert state["error"] is None
    assert not kernel.sessions.describe(session_id)["live"]
    assert isinstance(state, dict)
    return state


def test_the_whole_story(kernel: Kernel, session: str, tmp_path: Path) -> None:
    big = "def big():\n" + "    # fill\n" * 4000 + "    return 1"
    code = (
        f"import math\nimport os as system\nsystem.chdir({str(tmp_path)!r})\n"
        "def area(r):\n    return math.pi * r * r + offset\n"
        "class Box:\n    def __init__(self, n): self.n = n\n"
        "offset = 2\nbox = Box(7)\nrebound = 1\nblob = b'x' * 9_000_000\n"
    )
    begun = execute(kernel, session, code)
    assert (begun["error"], begun["execution_count"], begun["state_name"]) == (None, 1, None)
    assert {"math", "area", "Box", "offset"} <= set(begun["modified_symbols"])
    run(kernel, session, "def rebound(): return 'old'\nif True:\n    rebound = 'new'")
    run(kernel, session, big)
    first = released(kernel, session)
    assert {"big", "blob"} == {item["name"] for item in first["skipped"]}
    assert all("larger than" in item["reason"] for item in first["skipped"])
    assert first["defs"] == ["math", "system", "area", "Box"]
    failing = execute(kernel, session, "def survivor(): return 's'\n1 / 0\ndef never(): pass")
    assert failing["error"]["ename"] == "ZeroDivisionError"
    assert failing["execution_count"] == 4  # it counts on
    assert set(failing["state"]["restored"]) == {*first["defs"], "offset", "box", "rebound"}
    assert failing["state"]["failed"] == []
    second = released(kernel, session)
    assert second["defs"] == ["math", "system", "area", "Box", "survivor"]
    ended = execute(
        kernel,
        session,
        "print(area(0), box.n, isinstance(box, Box), rebound, survivor(), system.getcwd())\n"
        "print([name for name in ('big', 'blob', 'never') if name in globals()])\n"
        "print(area.__globals__ is globals())",
    )
    assert text_of(ended) == f"2.0 7 True new s {tmp_path}\n[]\nTrue\n"
    assert {"area", "box", "Box", "rebound", "survivor", "system"} <= set(ended["accessed_symbols"])


def test_a_crash_brings_back_the_last_saved_state_and_says_so(kernel: Kernel, session: str) -> None:
    run(kernel, session, "n = 1\ndef f(): return n")
    assert kernel.sessions.snapshot(session)["state"]["saved"] == ["n", "f"]
    died = execute(kernel, session, "n = 2\nimport os, signal\nos.kill(os.getpid(), signal.SIGKILL)")
    assert died["error"]["ename"] == "KernelDied"
    after = execute(kernel, session, "print(f())")
    assert text_of(after) == "1\n"
    assert "kernel was reset" in after["notice"]
    assert "SIGKILL" in after["notice"]
    assert after["state"]["restored"] == ["n", "f"]
    assert execute(kernel, session, "1")["notice"] is None


def test_a_kernel_that_dies_between_cells_is_noticed(kernel: Kernel, session: str) -> None:
    pid = int(run(kernel, session, "import os\nm = 3\nprint(os.getpid())"))
    kernel.sessions.snapshot(session)
    os.kill(pid, signal.SIGKILL)
    until(lambda: is_over(pid), "the end of the kernel")
    after = execute(kernel, session, "print(m)")
    assert text_of(after) == "3\n"
    assert "kernel was reset" in after["notice"]


def test_what_belongs_to_a_cell_under_way_is_refused(kernel: Kernel, session: str, tmp_path: Path) -> None:
    fifo = tmp_path / "go"
    os.mkfifo(fifo)
    replies: list[dict[str, Any]] = []
    code = f"x = open({str(fifo)!r}).read()\nprint(x)"
    thread = threading.Thread(target=lambda: replies.append(execute(kernel, session, code)))
    thread.start()
    with open(fifo, "w") as gate:  # opens when the cell has begun to read
        assert kernel.sessions.describe(session)["running"]
        for action in (
            kernel.sessions.snapshot,
            kernel.sessions.release,
            kernel.sessions.restore,
            kernel.sessions.reset,
            kernel.sessions.delete,
        ):
            with pytest.raises(Conflict, match="running"):
                action(session)
        gate.write("through")
    thread.join(SOON)
    assert text_of(replies[0]) == "through\n"
    assert not kernel.sessions.describe(session)["running"]


def test_restore_goes_back_and_reset_forgets(kernel: Kernel, session: str) -> None:
    run(kernel, session, "a = 1")
    kernel.sessions.snapshot(session)
    execute(kernel, session, "a = 2\nraise ValueError")
    assert kernel.sessions.restore(session)["state"]["restored"] == ["a"]
    kernel.sessions.files.state_path(session).unlink()
    assert (
        kernel.sessions.restore(session)["state"]["error"] == "no saved state"
    )  # and nothing is thrown away
    assert run(kernel, session, "print(a)") == "1\n"
    kernel.sessions.reset(session)
    assert kernel.sessions.describe(session)["state_bytes"] is None
    after = execute(kernel, session, "print('a' in globals())")
    assert (text_of(after), after["notice"], after["state"]["error"]) == ("False\n", None, None)


def test_a_state_becomes_a_session_and_a_session_a_state(kernel: Kernel, session: str) -> None:
    run(kernel, session, "class Box: pass\nbox = Box()\ndef twice(n): return 2 * n * unit\nunit = 3")
    released(kernel, session)
    run(kernel, session, "later = twice(1)")
    assert kernel.sessions.save_state(session, "from session") == {"state_name": "from session"}
    check = "import inspect\nprint(twice(2), isinstance(box, Box), later, inspect.getsource(twice))"
    shown = "12 True 6 def twice(n): return 2 * n * unit\n\n"
    reply = kernel.execute(check, "check", "from session", "checked")
    assert text_of(reply) == shown
    # Once more after a further cell: what is unchanged is not stored again, and nothing is lost.
    run(kernel, session, "unit = 1")
    kernel.sessions.save_state(session, "second")
    assert kernel.diff("from session", "second") == {"added": [], "removed": [], "changed": ["unit"]}
    other = kernel.sessions.create("other", from_state="from session")
    assert set(other["state"]["saved"]) == {"Box", "box", "twice", "unit", "later"}
    assert other["state"]["defs"] == ["Box", "twice"]
    try:
        released(kernel, "other")
        assert run(kernel, "other", "print(twice(2), isinstance(box, Box), later)") == "12 True 6\n"
    finally:
        kernel.sessions.delete("other")
    with pytest.raises(StateNotFound):
        kernel.sessions.create("none", from_state="missing")
    with pytest.raises(SessionNotFound):
        kernel.sessions.describe("none")


def test_names_and_folders_are_checked(kernel: Kernel, session: str, tmp_path: Path) -> None:
    with pytest.raises(Conflict):
        kernel.sessions.create(session)
    for name in ("a b", "../up", "x" * 65, "ä"):
        with pytest.raises(BadRequest):
            kernel.sessions.create(name)
    with pytest.raises(BadRequest, match="cwd"):
        kernel.sessions.create("nowhere", cwd=str(tmp_path / "missing"))
    kernel.sessions.create("placed", cwd=str(tmp_path))
    try:
        assert run(kernel, "placed", "import os\nprint(os.getcwd())") == f"{tmp_path}\n"
    finally:
        kernel.sessions.delete("placed")
    for action in (kernel.sessions.release, kernel.sessions.snapshot, kernel.sessions.delete):
        with pytest.raises(SessionNotFound):
            action("placed")


def test_sessions_do_not_starve_cells_without_one(kernel: Kernel, session: str) -> None:
    """The pool has one kernel: a live session is beside it."""
    run(kernel, session, "x = 1")
    assert kernel.sessions.describe(session)["live"]
    reply = kernel.execute("print('x' in globals())", "stateless", "initial")
    assert text_of(reply) == "False\n"


@pytest.mark.parametrize(
    ("file", "check", "shown"),
    [
        ("oldest.state", make_sessions.OLDEST_CHECK, make_sessions.OLDEST_SHOWN),
        ("version-1.state", make_sessions.CHECK, make_sessions.SHOWN),
        ("classes.state", make_sessions.CLASS_CHECK, make_sessions.CLASS_SHOWN),
    ],
    ids=["oldest", "version 1", "classes"],
)
def test_files_of_earlier_versions_load(
    kernel: Kernel, session: str, file: str, check: str, shown: str
) -> None:
    data = (make_sessions.FOLDER / file).read_bytes()
    kernel.sessions.files.write_state(session, data)
    reply = execute(kernel, session, check)
    assert (reply["state"]["failed"], reply["state"]["error"]) == ([], None)
    assert text_of(reply) == shown
    # It goes on from there in the format of today.
    assert released(kernel, session)["skipped"] == []
    assert run(kernel, session, check) == shown


def test_a_file_that_cannot_be_read_is_told_and_kept(kernel: Kernel, session: str) -> None:
    path = kernel.sessions.files.state_path(session)
    kept = path.with_suffix(".damaged")
    run(kernel, session, "a = 1")
    released(kernel, session)
    whole = path.read_bytes()
    for damage, told in ((whole[:-20], "damaged"), (b"PK a zip", "damaged"), (None, "cannot be read")):
        path.unlink()
        if damage is None:
            path.mkdir()
            kept.unlink()
        else:
            path.write_bytes(damage)
        reply = execute(kernel, session, "b = 2\nprint('a' in globals())")
        assert text_of(reply) == "False\n"
        assert told in reply["state"]["error"]
        assert "kernel was reset" in reply["notice"]
        released(kernel, session)
        assert kept.is_dir() if damage is None else kept.read_bytes() == damage
    assert run(kernel, session, "print(b)") == "2\n"
    kept.rmdir()


def test_an_expired_session_starts_empty_and_says_so(kernel: Kernel, session: str) -> None:
    run(kernel, session, "a = 1")
    released(kernel, session)
    kernel.sessions.files.state_path(session).unlink()
    reply = execute(kernel, session, "print('a' in globals())")
    assert text_of(reply) == "False\n"
    assert reply["state"]["error"] == "no saved state"
    assert "kernel was reset" in reply["notice"]
    assert execute(kernel, session, "1")["notice"] is None


def test_what_fails_to_come_back_is_named(kernel: Kernel, session: str, tmp_path: Path) -> None:
    """A definition that fails does not stop later ones; source wins over a value of the same name."""
    content = {
        "cwd": str(tmp_path / "gone"),
        "names": {"broken": b"no pickle", "twice": pickle.dumps("a value"), "fine": pickle.dumps(3)},
        "definitions": {
            "missing": "import no_such_module_here as missing",
            "bad": "def bad(x=1 / 0): ...",
            "twice": "def twice(n): return 2 * n",
        },
    }
    kernel.sessions.files.write_state(session, pickle.dumps(content))
    reply = execute(kernel, session, "print(twice(fine))")
    assert text_of(reply) == "6\n"
    state = reply["state"]
    assert [item["name"] for item in state["failed"]] == ["working directory", "broken", "missing", "bad"]
    assert state["defs"] == ["twice"]
    assert set(state["restored"]) == {"twice", "fine"}
    assert released(kernel, session)["defs"] == ["twice"]


ROUND_TRIPS: dict[str, tuple[tuple[str, ...], str, str, list[str]]] = {
    "values and definitions that need each other": (
        (
            "class Box:\n    def __init__(self, n): self.n = n\nbox = Box(1)",
            "def uses(b=box): return b.n\nboxes = [box]",
            "ring = []\ndef link(to=ring): return to\nring.append(link)",
        ),
        "print(uses(), isinstance(box, Box), isinstance(boxes[0], Box), link() is ring, ring[0]() is ring)",
        "1 True True True True\n",
        ["ring"],
    ),
    "an instance of a class in the body of the next one of its name": (
        ("class Old:\n    v = 1\nold = Old()\nOld.peer = old", "class Old:\n    v = 2\n    peer = old"),
        "print(old.v, type(old).peer is old, Old.peer is old, Old.v, isinstance(old, Old))",
        "1 True True 2 False\n",
        [],
    ),
    "a circle through the body of a class, and one in the class itself": (
        (
            "class Base:\n    v = 1\n    def me(self): return __class__\nbase = Base()",
            "class Sub(Base):\n    peer = base\n    def me(self): return super().me()",
            "base.sub = Sub()\nSub.twin = Sub()",
        ),
        "own = type(base.sub)\nprint(base.v, Sub.peer is base, type(own.twin) is own, own.peer is base)\n"
        "print(type(base) in own.__mro__, base.sub.me() is type(base), Sub().me() is Base)",
        "1 True True True\nTrue True True\n",
        ["base"],
    ),
    "classes that no source tells are one for all their instances": (
        (
            "import enum\nfrom collections import namedtuple\nfrom dataclasses import dataclass, field",
            "Point = namedtuple('Point', 'x y', defaults=[5])\nColour = enum.Enum('Colour', 'RED BLUE')",
            "if True:\n    @dataclass(order=True)\n    class Item:\n        n: int = 0\n"
            "        tags: list = field(default_factory=list)\n"
            "    class Mode(enum.IntFlag):\n        READ = 1\n        WRITE = 2\n"
            "class Named(Point):\n    tag = 'named'",
            "p = Point(1)\nq = Named(2, 3)\nred = Colour.RED\nitems = [Item(1, ['a']), Item(2)]\nmode = Mode(3)\n"
            "Point.origin = Point(0, 0)",
        ),
        "print(type(p) is Point, p, isinstance(q, Named), isinstance(q, Point), q, type(Point.origin) is Point)\n"
        "print(red is Colour.RED, len(Colour), mode is Mode.READ | Mode.WRITE, Mode(2) is Mode.WRITE)\n"
        "print(max(items) == Item(2), items, Item())",
        "True Point(x=1, y=5) True True Named(x=2, y=3) True\nTrue 2 True True\n"
        "True [Item(n=1, tags=['a']), Item(n=2, tags=[])] Item(n=0, tags=[])\n",
        [],
    ),
    "abstract and slotted classes, an alias of a class, type variables": (
        (
            "import abc, typing\nT = typing.TypeVar('T')\nUid = typing.NewType('Uid', int)",
            "class Stack(typing.Generic[T]):\n    def top(self) -> T: ...\n"
            "if True:\n    class Shape(abc.ABC):\n        @abc.abstractmethod\n        def area(self): ...\n"
            "    class Square(Shape):\n        __slots__ = ('side', 'next')\n"
            "        def area(self): return self.side ** 2",
            "square = Square()\nsquare.side, square.next = 3, square\nKind = Square\nuids = [Uid]",
        ),
        "print(type(square) is Square is Kind, square.area(), square.next is square, isinstance(square, Shape))\n"
        "print(sorted(Shape.__abstractmethods__), Stack.__parameters__[0] is T, Uid(3), uids[0] is Uid)",
        "True 9 True True\n['area'] True 3 True\n",
        [],
    ),
    "functions that no source tells come back by value": (
        ("if True:\n    def hidden(): return scale + 1\ndouble = lambda n: n * scale\nscale = 10",),
        "scale = 20\nprint(hidden(), double(2), hidden.__globals__ is globals())\nscale = 10",
        "21 40 True\n",
        [],
    ),
}


@pytest.fixture(scope="module")
def came_back(kernel: Kernel) -> Iterator[tuple[str, set[str]]]:
    """A session in which the cells of all round trips ran before its release, and what failed at its return."""
    session_id = kernel.sessions.create()["session_id"]
    for cells, check, shown, _ in ROUND_TRIPS.values():
        for cell in cells:
            run(kernel, session_id, cell)
        assert run(kernel, session_id, check) == shown
    state = released(kernel, session_id)
    assert (state["skipped"], state["engine"]) == ([], "dill")
    assert {"hidden", "double", "Point", "Item", "T"}.isdisjoint(state["defs"])
    state = execute(kernel, session_id, "")["state"]
    yield session_id, {item["name"] for item in state["failed"]} & set(state["restored"])
    kernel.sessions.delete(session_id)


@pytest.mark.parametrize("trip", ROUND_TRIPS)
def test_what_comes_back(kernel: Kernel, came_back: tuple[str, set[str]], trip: str) -> None:
    """Before the release and after the return a check shows the same; a copy in a circle is told of as failed."""
    session_id, copied = came_back
    _, check, shown, failed = ROUND_TRIPS[trip]
    assert run(kernel, session_id, check) == shown
    assert copied >= set(failed)


def test_nothing_but_copies_in_circles_failed(came_back: tuple[str, set[str]]) -> None:
    assert came_back[1] == {name for *_, failed in ROUND_TRIPS.values() for name in failed}


def test_a_failed_cell_in_a_real_kernel_leaves_what_came_before(kernel: Kernel, session: str) -> None:
    cells = (
        "def a1(): ...\nasync def slow(): raise ValueError\nawait slow()\ndef never(): ...",
        "def a2(): ...\nprint('x')\n%run no_such_file.py\ndef never(): ...",
        "def fail(n):\n    if n: raise KeyError(n)\nfail(0)\ndef a3(): ...\nfail(1)\ndef never(): ...",
        "def a4(): ...\nreturn 5\ndef never(): ...",
        "def syntax error",
    )
    for cell in cells:
        assert execute(kernel, session, cell)["error"] is not None
    assert set(released(kernel, session)["defs"]) == {"a1", "slow", "a2", "fail", "a3", "a4"}


def test_k19_a_release_names_the_processes_that_outlive_it(kernel: Kernel, session: str) -> None:
    code = (
        "import subprocess\nown = subprocess.Popen(['sleep', '60'])\n"
        "detached = subprocess.Popen(['sleep', '61'], start_new_session=True)\nprint(detached.pid)"
    )
    pid = int(run(kernel, session, code))
    try:
        reply = kernel.sessions.release(session)["state"]
        assert reply["processes"] == [{"pid": pid, "command": "sleep 61"}]
    finally:
        os.kill(pid, signal.SIGKILL)
    assert "processes" not in kernel.sessions.release(session)["state"]


def test_k17_the_idle_are_released_and_come_back_and_the_busy_are_left_alone(
    kernel: Kernel, session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel.sessions, "_idle_seconds", 0.2)
    longer = "import time; a = 1; time.sleep(0.5); print(a)"
    assert run(kernel, session, longer) == "1\n"
    until(lambda: not kernel.sessions.describe(session)["live"], "the release")
    assert kernel.sessions.describe(session)["state_bytes"] > 0
    assert run(kernel, session, "print(a)") == "1\n"


def test_only_so_many_are_live(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "MAX_LIVE", 2)
    names = ("one", "two", "three")
    for name in names:
        kernel.sessions.create(name)
        run(kernel, name, f"who = {name!r}")
    live = {
        each["session_id"]: each["live"] for each in kernel.sessions.list() if each["session_id"] in names
    }
    assert live == {"one": False, "two": True, "three": True}
    assert run(kernel, "one", "print(who)") == "one\n"
    for name in names:
        kernel.sessions.delete(name)


def test_the_end_of_the_engine_saves_what_is_not_saved(tmp_path: Path) -> None:
    kernel = Kernel(Settings(home=tmp_path, pool_size=1))
    try:
        kernel.sessions.create("s")
        execute(kernel, "s", "a = 1\nraise ValueError")  # no background save after a failure
        path = kernel.sessions.files.state_path("s")
        assert not path.exists()
    finally:
        kernel.close()
    assert pickle.loads(pickle.loads(path.read_bytes())["names"]["a"]) == 1
