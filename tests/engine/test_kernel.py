"""`bridge.Kernel` in process: what states hold, what they cost, and where they run."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bridge import Kernel, Settings
from bridge.errors import Conflict
from tests.concurrency import Flag, background, is_over, until


@pytest.fixture(scope="module")
def kernel(nothing_left_behind: None) -> Iterator[Kernel]:
    """One engine with two kernels for all tests here; each test names its own states."""
    made = Kernel(Settings(ephemeral=True, pool_size=2, hot_states=0))
    try:
        yield made
    finally:
        made.close()


def run(
    kernel: Kernel, code: str, start: str = "initial", new: str | None = None, **terms: Any
) -> dict[str, Any]:
    """The reply of a cell that must go well."""
    reply = kernel.execute(code, f"exec-{new or code}", start, new, **terms)
    assert reply["error"] is None, reply["error"]
    return reply


def printed(reply: dict[str, Any]) -> str:
    return "".join(output.get("text", "") for output in reply["output"])


def digests(kernel: Kernel, name: str) -> dict[str, str]:
    """The content of each unit of a state, by its key."""
    state = kernel.store.find(kernel.workspace, name)
    assert state is not None
    return {key: unit.digest for key, unit in state.manifest.units.items()}


def test_what_a_cell_does_not_touch_is_not_written_again(kernel: Kernel) -> None:
    run(kernel, "import numpy as np\nbig = np.ones(4_000_000)\nwords = ['a'] * 1000", new="t0")
    reply = run(kernel, "n = 1", "t0", "t1")
    assert reply["state"]["saved"] == ["n"]
    assert reply["state"]["bytes"] < 200
    before, after = digests(kernel, "t0"), digests(kernel, "t1")
    assert {key: after[key] for key in before} == before


def test_reading_writes_nothing(kernel: Kernel) -> None:
    run(kernel, "import numpy as np\nbig = np.arange(1_000_000)\nd = {'k': [big, {1, 2}]}", new="r0")
    reply = run(kernel, "print(int(big.sum()), len(d))", "r0", "r1")
    assert reply["accessed_symbols"] == ["big", "d"]
    assert reply["changed_symbols"] == []
    assert reply["state"]["bytes"] == 0
    assert digests(kernel, "r0") == digests(kernel, "r1")


def test_a_change_in_a_large_array_costs_its_chunk(kernel: Kernel) -> None:
    run(kernel, "import numpy as np\nbig = np.arange(8_000_000.0)", new="c0")
    reply = run(kernel, "big[0] += 1", "c0", "c1")
    assert reply["changed_symbols"] == ["big"]
    assert reply["state"]["bytes"] <= 4 * 1024 * 1024 + 1000
    assert printed(run(kernel, "print(big[0], big[-1], big.sum())", "c0", isolation="fresh")) == (
        "0.0 7999999.0 31999996000000.0\n"
    )
    assert printed(run(kernel, "print(big[0], big[-1])", "c1", isolation="fresh")) == "1.0 7999999.0\n"


def test_a_restored_array_owns_its_memory(kernel: Kernel) -> None:
    run(kernel, "import numpy as np\nbig = np.ones((2000, 1000), order='F'); view = big[3:5]", new="o0")
    check = (
        "print(big.flags.owndata, big.base is None, big.flags.f_contiguous, view.base is big)\n"
        "view[0, 0] = 7\nprint(big[3, 0], big.sum())\ndel view\nbig.resize((10, 10))\nprint(big.shape)"
    )
    shown = "True True True True\n7.0 2000006.0\n(10, 10)\n"
    assert printed(run(kernel, check, "o0", isolation="fresh")) == shown
    assert printed(run(kernel, check, "o0")) == shown


def test_a_failed_cell_leaves_no_trace(kernel: Kernel) -> None:
    run(kernel, "rows = [1]; kept = {'a': 1}", new="f0")
    reply = kernel.execute("rows.append(2); kept = None; extra = 3; 1 / 0", "f", "f0", "f1")
    assert reply["error"]["ename"] == "ZeroDivisionError"
    assert reply["state_name"] is None
    assert "f1" not in kernel.list_states()
    for isolation in ("shared", "shared", "fresh"):
        reply = run(kernel, "print(rows, kept, 'extra' in globals())", "f0", isolation=isolation)
        assert printed(reply) == "[1] {'a': 1} False\n"


def test_a_failed_cell_can_be_kept(kernel: Kernel) -> None:
    reply = kernel.execute("half = 1\n1 / 0", "k", "initial", "half-way", keep_on_error=True)
    assert reply["error"]["ename"] == "ZeroDivisionError"
    assert reply["state_name"] == "half-way"
    assert printed(run(kernel, "print(half)", "half-way")) == "1\n"


def test_names_keep_their_order(kernel: Kernel) -> None:
    run(kernel, "zeta = 1\nalpha = [2]\nmu = 3", new="n0")
    run(kernel, "alpha = 0; beta = 4", "n0", "n1")
    show = "print([name for name in globals() if not name.startswith('__')])"
    assert printed(run(kernel, show, "n0", isolation="fresh")) == "['zeta', 'alpha', 'mu']\n"
    assert printed(run(kernel, show, "n1")) == "['zeta', 'alpha', 'mu', 'beta']\n"


def test_hashes_and_fingerprints_are_those_of_another_process(kernel: Kernel) -> None:
    code = (
        "import enum\nclass Mode(enum.Enum): ON = 1\nclass Box:\n    def __init__(self, v): self.v = v\n"
        "def f(a, b=2): return a + b\nb = Box({'x', 'y', 'zz'}); m = Mode.ON; s = {('a', 1), 'b'}; t = 'te' + 'xt'"
    )
    run(kernel, code, new="h0")
    run(kernel, "# the same, elsewhere\n" + code, new="h1", isolation="fresh")
    names = ["Mode", "Box", "f", "b", "m", "s", "t"]
    hashes = kernel.get_symbol_hashes("h0", names)
    assert hashes is not None
    assert all(len(value) == 64 for value in hashes.values())
    assert kernel.get_symbol_hashes("h1", names) == hashes
    assert kernel.get_alias_groups("h0") == kernel.get_alias_groups("h1")


def test_a_hash_told_in_place_is_that_of_the_value_loaded_apart(kernel: Kernel) -> None:
    one = "import numpy as np\nx = [[1], [1], 'a']; y = np.arange(6).reshape(2, 3).copy(); z = y"
    other = "import numpy as np\ns = [1]; x = [s, s, 'a']; y = np.array([[0, 3], [1, 4], [2, 5]]).T.copy('F'); z = y"
    run(kernel, one, new="i0")
    in_place = kernel.get_symbol_hashes("i0", ["x", "y", "z"]), kernel.get_alias_groups("i0")
    run(kernel, other, new="i1")
    for process in kernel.pool.kernels():  # what none has in place is loaded apart
        if process.held is not None:
            process.held.spoil(list(process.held.units))
    apart = kernel.get_symbol_hashes("i1", ["x", "y", "z"]), kernel.get_alias_groups("i1")
    assert in_place[0] == apart[0]
    assert in_place[1] is not None
    assert apart[1] is not None
    found, others = (
        dict(zip(map(tuple, each["groups"]), each["fingerprints"], strict=True))
        for each in (in_place[1], apart[1])
    )
    assert found["y", "z"] == others["y", "z"]


def test_a_hash_runs_no_code_on_the_values_of_a_kernel(kernel: Kernel) -> None:
    counting = (
        "class Counting:\n    n = 0\n    def __getstate__(self):\n        self.n += 1\n        return self.n\n"
        "    def __setstate__(self, n): self.n = n\nc = [Counting()]"
    )
    run(kernel, counting, new="g0")
    before = printed(run(kernel, "print(c[0].n)", "g0"))
    assert kernel.get_symbol_hashes("g0", ["c"]) is not None
    assert kernel.get_alias_groups("g0") is not None
    assert printed(run(kernel, "print(c[0].n)", "g0")) == before


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1", "1.0"),
        ("1", "True"),
        ("[1]", "(1,)"),
        ("{'a': 1, 'b': 2}", "{'b': 2, 'a': 1}"),
        ("'a'", "b'a'"),
        ("0.0", "-0.0"),
    ],
)
def test_unlike_values_have_unlike_hashes(kernel: Kernel, one: str, other: str) -> None:
    name = run(kernel, f"one, other = {one}, {other}")["state_name"]
    hashes = kernel.get_symbol_hashes(name, ["one", "other"])
    assert hashes is not None
    assert hashes["one"] != hashes["other"]


def test_a_combination_of_large_groups_writes_nothing(kernel: Kernel) -> None:
    run(kernel, "import numpy as np\nbig = np.ones(8_000_000); alias = big; other = [1]", new="b0")
    run(kernel, "big = 'small'; mine = [2]", "b0", "b1")
    made = kernel.rebuild_state("b1", "b0", ["big", "alias", "nowhere"], ["mine", "big"], "b2")
    assert made is not None
    assert made["groups"] == [["alias", "big"], ["mine"]]
    check = "print(big is alias, big.shape, mine, 'other' in globals())"
    assert printed(run(kernel, check, "b2")) == "True (8000000,) [2] False\n"


def test_a_combination_of_groups_that_were_looked_at_needs_no_kernel(kernel: Kernel, tmp_path: Path) -> None:
    run(kernel, "import numpy as np\nbig = np.ones(4_000_000); alias = big", new="k0")
    run(kernel, "big = 'small'; mine = [3]", "k0", "k1")
    assert kernel.get_alias_groups("k0") is not None
    assert kernel.get_alias_groups("k1") is not None
    started, go = [Flag(tmp_path), Flag(tmp_path)], Flag(tmp_path)
    busy = [background(run, kernel, f"{each.raising}\n{go.waiting}") for each in started]
    for each in started:
        each.wait()
    before = list(kernel.home.blobs_path.rglob("*"))
    made = background(kernel.rebuild_state, "k1", "k0", ["big", "alias"], ["mine"], "k2").result(20)
    go.raise_()
    for execution in busy:
        execution.result(30)
    assert made is not None
    assert made["groups"] == [["alias", "big"], ["mine"]]
    assert list(kernel.home.blobs_path.rglob("*")) == before


def test_a_group_can_be_split_by_a_combination(kernel: Kernel) -> None:
    run(kernel, "a = [1]; b = a; c = 5", new="p0")
    run(kernel, "a = 'new'", "p0", "p1")
    made = kernel.rebuild_state("p1", "p0", ["b"], ["a"], "p2")
    assert made is not None
    assert made["groups"] == [["a"], ["b"]]
    assert printed(run(kernel, "print(a, b, 'c' in globals())", "p2", isolation="fresh")) == "new [1] False\n"


def test_a_live_value_is_used_where_it_lives(kernel: Kernel) -> None:
    reply = run(
        kernel,
        "import sqlite3\ndb = sqlite3.connect(':memory:')\ndb.execute('create table t (x)')\nn = 1",
        new="l0",
    )
    assert reply["state"]["live"] == ["db"]
    for _ in range(3):
        run(kernel, "other = 1", "initial")
        again = run(kernel, "print(db.execute('select count(*) from t').fetchone(), n)", "l0")
        assert printed(again) == "(0,) 1\n"
        assert again["kernel_id"] == reply["kernel_id"]
    lost = kernel.execute("db", "l", "l0", isolation="fresh")
    assert lost["error"]["ename"] == "NameError"
    assert "Connection" in lost["error"]["evalue"]
    assert "'l0'" in lost["error"]["evalue"]


def test_why_a_live_value_is_absent_is_known_however_many_cells_later(kernel: Kernel) -> None:
    made = run(kernel, "steps = (n for n in range(3)); kept = [1]", "initial", "absent0")
    [pid] = [each["pid"] for each in kernel.status()["kernels"] if each["id"] == made["kernel_id"]]
    os.kill(pid, signal.SIGKILL)
    until(lambda: is_over(pid), "it is dead")
    run(kernel, "kept.append(2)", "absent0", "absent1")
    run(kernel, "kept.append(3)", "absent1", "absent2")
    lost = kernel.execute("steps", "looks", "absent1")
    assert lost["error"]["ename"] == "NameError"
    assert "generator" in lost["error"]["evalue"]


def test_a_variable_called_underscore_stays_after_it_was_shown(kernel: Kernel) -> None:
    state = "initial"
    shown = []
    for number, code in enumerate(("_ = 'mine'", "_", "7 * 6", "_")):
        reply = run(kernel, code, state, f"under{number}")
        state = reply["state_name"]
        shown += [output["data"]["text/plain"] for output in reply["output"]]
    assert shown == ["'mine'", "42", "'mine'"]


def test_a_kernel_with_a_thread_serves_its_own_line_alone(kernel: Kernel) -> None:
    start = (
        "import threading\nstop = threading.Event()\nthreading.Thread(target=stop.wait, daemon=True).start()"
    )
    made_by = run(kernel, start, new="w0")["kernel_id"]
    assert run(kernel, "n = 1", "w0", "w1")["kernel_id"] == made_by
    others = {run(kernel, f"n = {turn}", "initial")["kernel_id"] for turn in range(3)}
    assert made_by not in others


def test_the_answers_for_what_is_missing(kernel: Kernel) -> None:
    assert kernel.get_state("nowhere") is None
    assert kernel.get_symbol_hashes("nowhere", ["x"]) is None
    assert kernel.get_alias_groups("nowhere") is None
    assert kernel.rebuild_state("nowhere", "initial", [], []) is None
    assert kernel.diff("initial", "nowhere") is None
    assert kernel.get_variable("initial", "x") is None
    assert kernel.delete_state("nowhere") is False
    assert kernel.interrupt("nowhere") == {"interrupted": False, "how": None}
    with pytest.raises(ValueError, match="partial"):
        kernel.get_symbol_hashes("initial", [], hash_algo="partial")
    for forbidden in (
        lambda: kernel.delete_state("initial"),
        lambda: kernel.execute("1", "x", "initial", "initial"),
        lambda: kernel.rebuild_state("initial", "initial", [], [], "initial"),
    ):
        with pytest.raises(Conflict, match="initial"):
            forbidden()


def test_aliases_are_read_as_their_states_have_them(kernel: Kernel) -> None:
    run(kernel, "rate = 2\ndef price(n): return n * rate\nbig = list(range(1000))\nx = 'theirs'", new="m0")
    run(kernel, "rate = 100\nx = 'mine'\na = 'hidden'", new="m1")
    code = "a.x += '!'\na.big.append(1)\nprint(a.price(3), a.x, x, rate, len(a.big))"
    reply = kernel.multistate_execute(code, "m", {"a": "m0"}, "m1")
    assert reply["error"] is None
    assert printed(reply) == "6 theirs! mine 100 1001\n"
    assert reply["accessed_symbols"] == ["a", "rate", "x"]
    assert reply["state_name"] is None
    assert printed(run(kernel, "print(a, x, rate)", "m1")) == "hidden mine 100\n"
    assert printed(run(kernel, "print(x, len(big))", "m0")) == "theirs 1000\n"


def test_a_state_of_another_workspace_can_be_executed_from(kernel: Kernel) -> None:
    run(kernel, "here = 1", new="mine")
    other = Kernel(Settings(home=kernel.home.path, pool_size=1))
    try:
        assert other.list_states() == ["initial"]
        reply = other.execute("print(here + 1)", "o", f"{kernel.workspace}:mine", "theirs")
        assert printed(reply) == "2\n"
        assert other.list_states() == ["initial", "theirs"]
        assert f"{other.workspace}:theirs" in kernel.list_states("*")
        assert "theirs" not in kernel.list_states()
    finally:
        other.close()


def test_a_snapshot_keeps_nothing_alive(kernel: Kernel) -> None:
    code = (
        "import sys, weakref\nclass A: pass\na, rows = A(), [1]\nseen = weakref.ref(a)\n"
        "failing = [a, (i for i in [])]\ndel failing"
    )
    start = run(kernel, code)["state_name"]
    reply = run(kernel, "print(sys.getrefcount(rows), sys.getrefcount(a))\ndel a\nprint(seen())", start)
    assert printed(reply) == "2 2\nNone\n"


def test_a_class_that_is_gone_is_gone(kernel: Kernel) -> None:
    start = run(kernel, "class Gone: pass\nclass Told(Gone):\n    def __reduce__(self): return Told, ()\n"
        "held = [Gone(), Told()]")["state_name"]  # fmt: skip
    state = run(kernel, "del held, Gone, Told", run(kernel, "len(held)", start)["state_name"])["state_name"]
    look = "import gc; gc.collect(); print([c.__name__ for c in object.__subclasses__() if c.__name__ == 'Gone'])"
    assert printed(run(kernel, look, state)) == "[]\n"


@pytest.mark.parametrize(
    ("module", "draw", "state"),
    [("random", "gauss(0, 1)", "getstate()"), ("numpy.random", "randn()", "get_state(legacy=False)")],
    ids=["random", "numpy"],
)
def test_the_second_of_a_pair_of_normal_numbers_is_part_of_a_state(
    kernel: Kernel, module: str, draw: str, state: str
) -> None:
    """It is drawn, and put back, without a word of the generator's changing."""
    cells = [f"import {module} as r\nr.seed(1)\nr.{draw}", f"kept = r.{state}\nr.{draw}", f"r.{draw}"]
    put_back = f"r.{state.replace('get', 'set').partition('(')[0]}(kept)"

    def value(reply: dict[str, Any]) -> str:
        return str(reply["output"][0]["data"]["text/plain"])

    states, values = ["initial"], []
    for cell in cells:
        reply = run(kernel, cell, states[-1])
        states.append(reply["state_name"])
        values.append(value(reply))
    again = run(kernel, put_back, states[2])["state_name"]
    for start, expected in ((states[2], values[2]), (states[1], values[1]), (again, values[1])):
        run(kernel, f"{cells[0]}\nr.random()")
        assert value(run(kernel, f"r.{draw}", start)) == expected


def test_the_helper_is_no_part_of_the_notebook(kernel: Kernel) -> None:
    look = (
        "import gc, types\nfor f in gc.get_objects():\n"
        "    if type(f) is types.FunctionType and f.__globals__ is globals() and f.__name__ != '<module>': print(f)"
    )
    assert printed(run(kernel, look)) == ""
    # After what nobody can follow, a value that hides what it holds may hold any function of the notebook's.
    start = run(kernel, "import threading\nglobals()['other'] = [1]\nheld = threading.local()")["state_name"]
    reply = run(kernel, "held.n = 1", start)
    assert reply["accessed_symbols"] == ["held"]


@pytest.mark.parametrize("code", ["d['g']()['x']", "p()", "l[0]('x')", "K.e('x')", "K.g()['x']"])
def test_what_sees_every_name_reads_every_name_whoever_hands_it_over(kernel: Kernel, code: str) -> None:
    setup = (
        "from functools import partial\nx = 5; y = 6; d = {'g': globals}; l = [eval]; p = partial(eval, 'x')\n"
        "class K:\n    e = staticmethod(eval)\n    g = globals"
    )
    reply = run(kernel, code, run(kernel, setup)["state_name"])
    assert {"x", "y"} <= set(reply["accessed_symbols"])


def test_an_object_that_looks_for_names_where_it_is_loaded_finds_them(kernel: Kernel, tmp_path: Path) -> None:
    (tmp_path / "bridge_formula.py").write_text(
        "import sys\n"
        "class Formula:\n"
        "    def __init__(self, name): self.name = name\n"
        "    def __setstate__(self, state):\n"
        "        self.__dict__.update(state)\n"
        "        self.found = sys._getframe(1).f_globals[self.name]\n"
    )
    code = f"import sys\nsys.path.append({str(tmp_path)!r})\nimport bridge_formula\n"
    run(kernel, code + "model = bridge_formula.Formula('double')\ndef double(v): return 2 * v", new="f0")
    reply = run(kernel, "print(model.found(4), model.found is double)", "f0", isolation="fresh")
    assert printed(reply) == "8 True\n"
