"""Hot states: what no serialiser holds, in any number of branches, and what happens when a copy cannot be had."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from bridge import Kernel, Settings
from tests.concurrency import is_over, until

HOLDS_MUCH = """
import io, random, sqlite3, textwrap, threading
def count():
    n = 0
    while True:
        n += 1
        yield n
steps = count(); next(steps); next(steps)
base = sqlite3.connect(":memory:"); base.execute("create table t (x)"); base.execute("insert into t values (7)")
lock = threading.Lock(); lock.acquire()
textwrap.shorten = lambda text, width: "patched"
io.counter = [1]
random.seed(5)
"""
SHOWS_IT = """
rows = [x for x, in base.execute("select x from t")]
print(next(steps), rows, lock.locked(), textwrap.shorten("a b", 9), io.counter, random.random())
base.execute("insert into t values (8)"); io.counter.append(2); lock.release()
"""
SHOWN = "3 [7] True patched [1] 0.6229016948897019\n"


@pytest.fixture(scope="module")
def kernel(nothing_left_behind: None) -> Iterator[Kernel]:
    """One engine with two kernels for all tests here; each test names its own states."""
    made = Kernel(Settings(ephemeral=True, pool_size=2, preload=()))
    try:
        yield made
    finally:
        made.close()


def run(kernel: Kernel, code: str, start: str, new: str | None = None, **terms: Any) -> dict[str, Any]:
    """The reply of a cell that must go well."""
    reply = kernel.execute(code, f"exec-{new or code}", start, new, **terms)
    assert reply["error"] is None, reply["error"]
    return reply


def printed(reply: dict[str, Any]) -> str:
    return "".join(output.get("text", "") for output in reply["output"])


def is_hot(kernel: Kernel, name: str) -> bool:
    described = kernel.get_state(name)
    assert described is not None
    return bool(described["hot"])


def processes(kernel: Kernel) -> list[psutil.Process]:
    """The frozen processes: the starter, and those below it that are no kernels."""
    kernels = {each["pid"] for each in kernel.status()["kernels"]}
    assert kernel.pool._starter is not None
    assert kernel.pool._starter._kernel is not None
    starter = psutil.Process(kernel.pool._starter._kernel.pid)
    found = []
    for process in (starter, *starter.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):  # it ends as it is looked at
            is_template = "IPKernelApp" in " ".join(process.cmdline())
            if is_template and process.pid not in kernels and not is_over(process.pid):
                found.append(process)
    return found


def spare_is_preloaded(kernel: Kernel) -> bool:
    """Whether the kernels that a fresh execution may get came of the starter with its libraries."""
    spare = [each.preloaded for each in list(kernel.pool._leases.idle) if not each.used]
    return bool(spare) and all(spare)


def test_a_state_with_live_values_is_hot_by_itself_and_serves_every_branch(kernel: Kernel) -> None:
    made = run(kernel, HOLDS_MUCH, "initial", "much")
    assert set(made["state"]["live"]) >= {"steps", "base"}
    until(lambda: is_hot(kernel, "much"), "the state is hot")
    branches = [run(kernel, SHOWS_IT, "much", f"much-{turn}") for turn in range(3)]
    assert [printed(branch) for branch in branches] == [SHOWN] * 3
    assert len({branch["kernel_id"] for branch in branches}) == 3
    again = run(kernel, "print(next(steps), io.counter, lock.locked())", "much-1")
    assert printed(again) == "4 [1, 2] False\n"


def test_it_outlives_the_kernel_that_made_it(kernel: Kernel) -> None:
    made = run(kernel, HOLDS_MUCH, "initial", "outlives", hot=True)
    assert made["state"]["hot"] is True
    [pid] = [each["pid"] for each in kernel.status()["kernels"] if each["id"] == made["kernel_id"]]
    os.kill(pid, signal.SIGKILL)
    until(lambda: is_over(pid), "it is dead")
    assert printed(run(kernel, SHOWS_IT, "outlives")) == SHOWN


def test_a_fresh_process_comes_of_it_when_it_ran_nothing_else(kernel: Kernel) -> None:
    run(kernel, HOLDS_MUCH, "initial", "pure", isolation="fresh", hot=True)
    replies = [run(kernel, SHOWS_IT, "pure", isolation="fresh") for _ in range(2)]
    assert [printed(reply) for reply in replies] == [SHOWN] * 2


def test_a_state_whose_process_has_ended_comes_from_the_store_and_says_what_it_lacks(kernel: Kernel) -> None:
    made = run(
        kernel, "kept = [1]; steps = iter([1, 2]); steps = (n for n in steps)", "initial", "ended", hot=True
    )
    hot = kernel._hot.find(kernel.store.find(kernel.workspace, "ended"))  # type: ignore[arg-type]
    assert hot is not None
    os.kill(hot.template.pid, signal.SIGKILL)
    until(lambda: not hot.template.alive, "its end is known")
    [pid] = [each["pid"] for each in kernel.status()["kernels"] if each["id"] == made["kernel_id"]]
    os.kill(pid, signal.SIGKILL)
    until(lambda: is_over(pid), "it is dead")
    reply = kernel.execute("print(kept)\nsteps", "after", "ended")
    assert printed(reply) == "[1]\n"
    assert reply["error"]["ename"] == "NameError"
    assert "generator" in reply["error"]["evalue"]
    assert "'ended'" in reply["error"]["evalue"]


def test_one_that_does_not_answer_costs_time_and_no_reply(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bridge.pool.templates.FORK_SECONDS", 0.5)
    run(kernel, "kept = [1]", "initial", "deaf", hot=True)
    hot = kernel._hot.find(kernel.store.find(kernel.workspace, "deaf"))  # type: ignore[arg-type]
    assert hot is not None
    os.kill(hot.template.pid, signal.SIGSTOP)
    run(kernel, "1", "deaf", "moved")  # the kernel that made it goes on to another state
    assert printed(run(kernel, "print(kept)", "deaf")) == "[1]\n"
    assert not is_hot(kernel, "deaf")
    until(lambda: is_over(hot.template.pid), "it is gone")


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (
            "import threading; stop = threading.Event(); threading.Thread(target=stop.wait, daemon=True).start()",
            "thread",
        ),
        ("import subprocess; child = subprocess.Popen(['sleep', '60'])", "child process"),
        ("import signal; signal.signal(signal.SIGCHLD, lambda number, frame: None)", "SIGCHLD"),
        ("import zmq; context = zmq.Context(); socket = context.socket(zmq.PUB)", "zmq"),
    ],
)
def test_what_a_copy_would_lack_keeps_it_from_being_made(kernel: Kernel, code: str, why: str) -> None:
    reply = run(kernel, code, "initial", f"lacks {why}", isolation="fresh", hot=True)
    assert reply["state"]["hot"] is False
    assert why in reply["state"]["why"]
    described = kernel.get_state(f"lacks {why}")
    assert described is not None
    assert (described["hot"], described["why"]) == (False, reply["state"]["why"])


@pytest.mark.parametrize(
    "code",
    ["import io, sys; sys.stdout = io.StringIO()", "import gc; gc.freeze()", "import os; os.fork = None"],
)
def test_what_a_cell_does_to_its_process_harms_no_copy(kernel: Kernel, code: str) -> None:
    name = f"harm {code}"
    look = "import gc; kept, gc.get_freeze_count() > 0"
    assert run(kernel, f"kept = 7\n{code}", "initial", name, isolation="fresh", hot=True)["state"]["hot"]
    shown = run(kernel, look, name, isolation="fresh")
    assert shown["output"][-1]["data"]["text/plain"] == f"(7, {'freeze' in code})"


def test_its_process_ends_with_the_state(kernel: Kernel) -> None:
    run(kernel, "x = 1", "initial", "doomed", hot=True)
    state = kernel.store.find(kernel.workspace, "doomed")
    assert state is not None
    hot = kernel._hot.find(state)
    assert hot is not None
    kernel.delete_state("doomed")
    until(lambda: is_over(hot.template.pid), "the process is gone")
    run(kernel, "x = 1", "initial", "doomed", hot=True)
    kernel.reset()
    until(lambda: len(processes(kernel)) == 1, "only the starter is left")


def test_a_line_beside_something_large_needs_one_copy_of_it(kernel: Kernel) -> None:
    """The states after the first are forked of its copy and given what differs; one that changed it gets its own."""
    run(kernel, "rows = {n: [n] for n in range(200_000)}; x = 0", "initial", "large0")
    for number in range(1, 5):
        run(kernel, f"x = {number}", f"large{number - 1}", f"large{number}")
    until(lambda: is_hot(kernel, "large0"), "the state is hot")
    assert not any(is_hot(kernel, f"large{number}") for number in range(1, 5))

    pids = [each["pid"] for each in kernel.status()["kernels"] if each["pid"]]
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):  # it was just ending
            os.kill(pid, signal.SIGKILL)
    for pid in pids:
        until(lambda pid=pid: is_over(pid), "it is dead")  # type: ignore[misc]
    reply = run(kernel, "import os; print(x, len(rows), rows[7], os.getppid())", "large3")
    hot = kernel._hot.find(kernel.store.find(kernel.workspace, "large0"))  # type: ignore[arg-type]
    assert hot is not None
    assert printed(reply) == f"3 200000 [7] {hot.template.pid}\n"

    run(kernel, "rows[7].append(8)", "large4", "large5")
    until(lambda: is_hot(kernel, "large5"), "the changed one is hot")
    assert printed(run(kernel, "print(x, rows[7])", "large3")) == "3 [7]\n"


def test_a_kernel_that_refuses_is_asked_more_and_more_seldom(nothing_left_behind: None) -> None:
    kernel = Kernel(Settings(ephemeral=True, pool_size=1, preload=()))
    try:
        threads = "import polars; polars.LazyFrame({'a': range(9)}).sum().collect()"
        made = run(kernel, f"{threads}\nrows = {{n: [n] for n in range(200_000)}}", "initial", "refused0")
        for number in range(1, 10):
            run(kernel, f"x = {number}", f"refused{number - 1}", f"refused{number}")
        thrift = kernel._hot._thrift[made["kernel_id"]]
        assert (thrift.times, thrift.left_out) == (3, 7 - 3)  # asked for states 0, 2 and 6
        for name in ("refused6", "refused8"):
            described = kernel.get_state(name)
            assert described is not None
            assert "native threads" in described["why"]
        # What the store cannot hold is worth each try.
        run(kernel, "steps = (n for n in rows)", "refused9", "refused10")
        until(lambda: thrift.times == 4, "it was asked again")
    finally:
        kernel.close()


def test_a_line_that_changes_something_large_is_copied_seldom_until_somebody_branches(
    nothing_left_behind: None,
) -> None:
    kernel = Kernel(Settings(ephemeral=True, pool_size=2, preload=()))

    def grow(first: int, last: int) -> None:
        for number in range(first, last + 1):
            run(kernel, "rows[0].append(1)", f"grown{number - 1}", f"grown{number}")

    try:
        run(kernel, "rows = {n: [n] for n in range(200_000)}", "initial", "grown0")
        grow(1, 8)
        until(lambda: not kernel._hot._copying, "the last copy is made")
        hot = [number for number in range(9) if is_hot(kernel, f"grown{number}")]
        assert hot == [0, 1, 3, 7]
        described = kernel.get_state("grown8")
        assert described is not None
        assert described["why"] == "nobody used the last copies of its kernel"
        # Whoever goes back finds what was there, and the line from there is copied at once.
        shown = [printed(run(kernel, "print(len(rows[0]))", f"grown{number}")) for number in (2, 7, 2, 5)]
        assert shown == ["3\n", "8\n", "3\n", "6\n"]
        until(lambda: is_hot(kernel, "grown2"), "what is executed from again is hot")
    finally:
        kernel.close()


def test_numexprs_threads_are_no_obstacle(kernel: Kernel) -> None:
    pytest.importorskip("numexpr")
    made = run(
        kernel,
        "import numexpr, numpy as np; a = np.arange(3e6); b = numexpr.evaluate('a * 2')",
        "initial",
        "numexpr",
        hot=True,
    )
    assert made["state"]["hot"], made["state"]["why"]
    look = "print(numexpr.evaluate('a + b')[7], numexpr.evaluate('sum(a)'))"
    shown = {printed(run(kernel, look, "numexpr", isolation="fresh")) for _ in range(2)}
    assert shown | {printed(run(kernel, look, "numexpr"))} == {"21.0 4499998500000.0\n"}


def test_the_least_recently_used_go_first(nothing_left_behind: None) -> None:
    kernel = Kernel(Settings(ephemeral=True, pool_size=1, preload=(), hot_states=2))
    try:
        for name in ("one", "two"):
            run(kernel, "x = 1", "initial", name, hot=True)
        run(kernel, "x", "one")
        run(kernel, "x = 1", "initial", "three", hot=True)
        assert [is_hot(kernel, name) for name in ("one", "two", "three")] == [True, False, True]
        described = kernel.get_state("two")
        assert described is not None
        assert described["why"] == "it was ended for others' sake"
        assert printed(run(kernel, "print(x)", "two")) == "1\n"
    finally:
        kernel.close()


def test_neither_descriptors_nor_frames_pile_up_from_fork_to_fork(kernel: Kernel) -> None:
    count = (
        "import inspect, os, sys, threading\n"
        "print(len(os.listdir('/proc/self/fd')), len(inspect.stack()), len(threading.enumerate()), len(sys.modules))"
    )
    state, seen = "initial", []
    for turn in range(5):
        reply = run(kernel, count, state, f"generation {turn}", isolation="fresh", hot=True)
        assert reply["state"]["hot"]
        seen.append(printed(reply))
        state = f"generation {turn}"
    assert len(set(seen[1:])) == 1, seen


def test_every_fork_is_a_process_of_its_own(kernel: Kernel) -> None:
    run(kernel, "import os, sys, uuid", "initial", "own", hot=True)
    look = "print(os.getpid(), os.getsid(0), os.getpgrp(), uuid.uuid4(), sys.argv[2], os.path.exists(sys.argv[2]))"
    shown = [printed(run(kernel, look, "own", isolation="fresh")).split() for _ in range(2)]
    for pid, session, group, _, _, exists in shown:
        assert pid == session == group
        assert exists == "True"
    assert all(one != other for one, other in zip(shown[0][:5], shown[1][:5], strict=True))


def test_a_cell_that_sets_what_a_library_reads_at_its_import_gets_a_kernel_without_it(
    nothing_left_behind: None,
) -> None:
    kernel = Kernel(Settings(ephemeral=True, pool_size=1, preload=("numpy",)))
    loaded = "print('numpy' in sys.modules, any('numpy' in line for line in open('/proc/self/maps')))"
    try:
        until(lambda: spare_is_preloaded(kernel), "the starter has imported NumPy")
        assert printed(run(kernel, f"import sys\n{loaded}", "initial", isolation="fresh")) == "False True\n"
        setting = "import os, sys; os.environ['OPENBLAS_NUM_THREADS'] = '1'"
        assert printed(run(kernel, f"{setting}\n{loaded}", "initial", "set")) == "False False\n"
        assert printed(run(kernel, f"import numpy\n{loaded}", "set", "later")) == "True True\n"
        assert printed(run(kernel, f"{loaded}", "set", isolation="fresh")) == "False False\n"
    finally:
        kernel.close()


def test_such_a_cell_may_be_the_first_one_of_a_server_just_started(nothing_left_behind: None) -> None:
    for settings in ({"preload": ("json",)}, {"fork": False}):
        kernel = Kernel(Settings(ephemeral=True, pool_size=1, **settings))  # type: ignore[arg-type]
        try:
            code = "import os; os.environ['OMP_NUM_THREADS'] = '1'; print(7)"
            assert printed(run(kernel, code, "initial")) == "7\n"
        finally:
            kernel.close()


def test_libraries_imported_ahead_are_out_of_sight_until_a_cell_imports_them(
    nothing_left_behind: None,
) -> None:
    kernel = Kernel(Settings(ephemeral=True, pool_size=1))
    try:
        until(lambda: spare_is_preloaded(kernel), "the starter has imported its libraries")
        look = (
            "import sys; print(sorted({'numpy', 'numpy.linalg', 'pandas', 'matplotlib'} & set(sys.modules)))"
        )
        assert printed(run(kernel, look, "initial", isolation="fresh")) == "[]\n"
        numpy = run(kernel, f"import numpy\n{look}", "initial", isolation="fresh")
        assert printed(numpy) == "['numpy', 'numpy.linalg']\n"
        plot = "import matplotlib.pyplot as plt; import pandas as pd; pd.Series([1, 2]).plot(); plt.show()"
        shown = run(kernel, f"{look}\n{plot}", "initial", isolation="fresh")
        assert "image/png" in shown["output"][-1]["data"]
        origin = (
            "import numpy; print(numpy.__spec__.loader is numpy.__loader__, type(numpy.__loader__).__name__)"
        )
        assert printed(run(kernel, origin, "initial", isolation="fresh")) == "True SourceFileLoader\n"
    finally:
        kernel.close()


def test_without_forks_every_kernel_starts_by_itself(nothing_left_behind: None) -> None:
    kernel = Kernel(Settings(ephemeral=True, pool_size=1, fork=False))
    try:
        reply = run(kernel, "steps = (n for n in range(3))", "initial", "s", hot=True)
        assert (reply["state"]["hot"], reply["state"]["why"]) == (False, "hot states are switched off")
        assert printed(run(kernel, "print(next(steps))", "s")) == "0\n"
        assert kernel.pool._starter is None
    finally:
        kernel.close()
