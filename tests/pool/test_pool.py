"""Leases of real kernels, their replacement and their end."""

from __future__ import annotations

import json
import math
import os
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from bridge.errors import Interrupted, KernelStartFailed, KernelTimeout, ShuttingDown
from bridge.pool import KernelProcess, Pool, Ticket
from tests.concurrency import left_of
from tests.pool.conftest import MakePool
from tests.pool.helpers import BOUND, Cell, all_warm, eventually, run


def own_processes() -> list[psutil.Process]:
    return list(psutil.Process().children(recursive=True))


def runs(process: psutil.Process) -> bool:
    """Whether a process still runs; one that only waits for a stranger to reap it does not."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def lease_in_thread(pool: Pool, **options: object) -> tuple[threading.Thread, list[object]]:
    """A thread that waits for a kernel; the list gets the kernel or the error."""
    result: list[object] = []

    def work() -> None:
        try:
            result.append(pool.lease(**options))  # type: ignore[arg-type]
        except Exception as error:
            result.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    return thread, result


# -- leasing -------------------------------------------------------------------------------------------------


def test_kernels_are_prepared_once_before_they_are_leased(make_pool: MakePool) -> None:
    prepared: list[str] = []

    def prepare(kernel: KernelProcess) -> None:
        assert not kernel.used
        run(kernel, "marker = 'prepared'")
        prepared.append(kernel.id)

    pool = make_pool(prepare)
    for _ in range(2):
        kernel = pool.lease()
        assert run(kernel, "print(marker)").text == "prepared\n"
        assert kernel.used
        pool.release(kernel)
    assert prepared.count(kernel.id) == 1


def test_size_kernels_and_one_spare_are_kept_warm(make_pool: MakePool) -> None:
    pool = make_pool(size=2)
    eventually(lambda: all_warm(pool.status(), 3), "three kernels are warm")
    ids = [kernel["id"] for kernel in pool.status()]
    assert len(set(ids)) == 3
    assert {kernel["pid"] for kernel in pool.status()} <= {process.pid for process in own_processes()}


def test_a_fresh_lease_is_a_process_nobody_used(make_pool: MakePool) -> None:
    pool = make_pool()
    first = pool.lease()
    run(first, "x = 1")
    pool.release(first)
    second = pool.lease(fresh=True)
    assert second.id != first.id
    assert run(second, "x").error == "NameError"
    pool.release(second)
    assert pool.lease(fresh=True).id not in (first.id, second.id)


def test_the_kernel_of_the_lowest_rank_is_taken_and_an_infinite_one_never(make_pool: MakePool) -> None:
    pool = make_pool()
    held = pool.lease()
    held.held = "S"
    pool.release(held)
    assert pool.lease(rank=lambda kernel: 0.0 if kernel.held == "S" else 1.0) is held
    pool.release(held)
    other = pool.lease(rank=lambda kernel: math.inf if kernel.held == "S" else 1.0)
    assert other is not held


def test_only_waits_for_its_kernel_and_takes_any_after_its_death(make_pool: MakePool) -> None:
    pool = make_pool(size=2)
    wanted = pool.lease()
    thread, result = lease_in_thread(pool, only=wanted.id)
    eventually(lambda: pool.waiting == 1, "the lease waits")
    pool.release(wanted)
    thread.join(BOUND)
    assert result == [wanted]
    thread, result = lease_in_thread(pool, only=wanted.id)
    eventually(lambda: pool.waiting == 1, "the lease waits")
    wanted.kill()
    thread.join(BOUND)
    assert isinstance(result[0], KernelProcess)
    assert result[0].id != wanted.id


def test_leases_are_served_in_the_order_they_came(make_pool: MakePool) -> None:
    pool, order = make_pool(), []
    kernel = pool.lease()

    def work(number: int) -> None:
        leased = pool.lease()
        order.append(number)
        pool.release(leased)

    threads = []
    for number in range(8):
        threads.append(threading.Thread(target=work, args=(number,)))
        threads[-1].start()
        eventually(lambda count=number + 1: pool.waiting == count, "the next one waits")  # type: ignore[misc]
    pool.release(kernel)
    for thread in threads:
        thread.join(BOUND)
    assert order == list(range(8))


def test_twenty_at_once_all_get_their_turn(make_pool: MakePool) -> None:
    pool = make_pool(size=2)

    def work(number: int) -> str:
        kernel = pool.lease()
        try:
            return run(kernel, f"print({number})").text
        finally:
            pool.release(kernel)

    with ThreadPoolExecutor(20) as executor:
        assert sorted(map(int, executor.map(work, range(20)))) == list(range(20))


def test_a_cancel_ends_the_wait_and_passes_the_turn_on(make_pool: MakePool) -> None:
    pool = make_pool()
    kernel, ticket = pool.lease(), Ticket()
    thread, result = lease_in_thread(pool, ticket=ticket)
    eventually(lambda: pool.waiting == 1, "the lease waits")
    ticket.cancel()
    thread.join(BOUND)
    assert isinstance(result[0], Interrupted)
    assert (pool.waiting, ticket.cancelled) == (0, True)
    pool.release(kernel)
    assert pool.lease(timeout=BOUND) is kernel


def test_a_cancel_before_the_lease_counts(make_pool: MakePool) -> None:
    pool, ticket = make_pool(), Ticket()
    ticket.cancel()
    with pytest.raises(Interrupted):
        pool.lease(ticket=ticket)


def test_a_cancel_reaches_a_lease_whose_kernel_is_still_to_start(make_pool: MakePool) -> None:
    released = threading.Event()
    pool, ticket = make_pool(lambda kernel: released.wait(BOUND) and None), Ticket()
    thread, result = lease_in_thread(pool, ticket=ticket)
    eventually(lambda: pool.waiting == 1, "the lease waits")
    ticket.cancel()
    thread.join(BOUND)
    released.set()
    assert isinstance(result[0], Interrupted)


def test_a_lease_may_have_a_bound(make_pool: MakePool) -> None:
    pool = make_pool()
    pool.lease()
    with pytest.raises(KernelTimeout):
        pool.lease(timeout=0.05)
    assert pool.waiting == 0


# -- replacement ---------------------------------------------------------------------------------------------


def test_a_kernel_that_dies_idle_is_replaced(make_pool: MakePool) -> None:
    pool = make_pool()
    eventually(lambda: all_warm(pool.status(), 2), "two kernels are warm")
    before = {kernel["id"] for kernel in pool.status()}
    victim = pool.status()[0]
    psutil.Process(victim["pid"]).kill()
    eventually(lambda: victim["id"] not in {k["id"] for k in pool.status()}, "the death is seen")
    eventually(lambda: all_warm(pool.status(), 2), "two kernels are warm again")
    assert len({kernel["id"] for kernel in pool.status()} - before) == 1


def test_a_kernel_that_is_to_retire_is_ended_at_its_release(make_pool: MakePool, tmp_path: Path) -> None:
    pool, farewell = make_pool(), tmp_path / "farewell"
    kernel = pool.lease()
    process = psutil.Process(kernel.pid)
    run(kernel, f"import atexit, pathlib; atexit.register(pathlib.Path({str(farewell)!r}).touch)")
    kernel.retire = True
    pool.release(kernel)
    assert left_of([process], BOUND) == []
    assert farewell.exists()
    assert pool.lease().id != kernel.id


def test_a_kernel_that_died_leased_is_replaced_after_its_release(make_pool: MakePool) -> None:
    pool = make_pool()
    kernel = pool.lease()
    run(kernel, "import os; os._exit(1)")
    pool.release(kernel)
    assert run(pool.lease(), "print('next')").text == "next\n"


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
def test_ended_kernels_leave_no_descriptors(make_pool: MakePool) -> None:
    pool = make_pool()

    def cycle() -> None:
        kernel = pool.lease(fresh=True)
        kernel.retire = True
        pool.release(kernel)

    def settled() -> int:
        eventually(lambda: all_warm(pool.status(), 2), "only warm kernels are left")
        # zmq closes an ended socket's descriptors a moment after the socket.
        counts: list[int] = []

        def steady() -> bool:
            counts.append(len(os.listdir("/proc/self/fd")))
            return len(counts) > 20 and len(set(counts[-20:])) == 1

        eventually(steady, "the number of descriptors changes no more")
        return counts[-1]

    cycle()
    few = settled()
    for _ in range(5):
        cycle()
    assert settled() <= few


# -- failures ------------------------------------------------------------------------------------------------


def install(folder: Path, code: str) -> None:
    """A kernelspec named `broken` whose process runs this code."""
    (folder / "kernels" / "broken").mkdir(parents=True)
    spec = {"argv": [sys.executable, "-c", code], "display_name": "broken", "language": "python"}
    (folder / "kernels" / "broken" / "kernel.json").write_text(json.dumps(spec))


def test_a_kernel_that_does_not_come_up_is_reported_with_its_own_words(
    make_pool: MakePool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "raise SystemExit('no such magic')")
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    pool = make_pool(kernel_name="broken", size=2)
    with ThreadPoolExecutor(5) as executor:
        errors = list(executor.map(lambda _: lease_in_thread_result(pool), range(5)))
    assert all(isinstance(error, KernelStartFailed) for error in errors)
    assert "exit code 1" in str(errors[0])
    assert "no such magic" in str(errors[0])


def lease_in_thread_result(pool: Pool) -> object:
    try:
        return pool.lease(timeout=BOUND)
    except Exception as error:
        return error


def test_a_kernel_that_stays_silent_is_given_up(
    make_pool: MakePool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "import time; print('hm', flush=True); time.sleep(600)")
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    pool = make_pool(kernel_name="broken", start_timeout=1.0)
    with pytest.raises(KernelStartFailed, match="no answer within 1 s\nhm"):
        pool.lease(timeout=BOUND)


def test_an_unknown_kernelspec_is_reported_to_every_lease(make_pool: MakePool) -> None:
    pool = make_pool(kernel_name="nowhere")
    for _ in range(2):
        with pytest.raises(KernelStartFailed, match="nowhere"):
            pool.lease(timeout=BOUND)


def test_a_kernel_that_cannot_be_prepared_is_a_failed_start(make_pool: MakePool) -> None:
    attempts: list[str] = []

    def prepare(kernel: KernelProcess) -> None:
        attempts.append(kernel.id)
        if len(attempts) == 1:
            raise LookupError("no helper")

    pool = make_pool(prepare)
    with pytest.raises(KernelStartFailed, match="no helper"):
        pool.lease(timeout=BOUND)
    assert pool.lease(timeout=BOUND).id == attempts[1]


def test_a_kernel_that_somebody_kills_as_it_starts_is_started_again(make_pool: MakePool) -> None:
    attempts: list[str] = []

    def prepare(kernel: KernelProcess) -> None:
        attempts.append(kernel.id)
        if len(attempts) == 1:
            assert kernel.pid is not None
            os.kill(kernel.pid, signal.SIGKILL)
            kernel.request({}, timeout=BOUND)

    pool = make_pool(prepare)
    assert pool.lease(timeout=BOUND).id in attempts[1:]


# -- the kernels' surroundings -------------------------------------------------------------------------------


def test_a_kernel_has_its_settings_and_nothing_of_the_servers(
    make_pool: MakePool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BRIDGE_TOKEN", "t-123")
    monkeypatch.setenv("COPY_OF_IT", "t-123")
    assert "PYTEST_CURRENT_TEST" in os.environ
    kernel = make_pool(env={"PYTHONHASHSEED": "7"}, cwd=str(tmp_path)).lease()
    code = "import os, json; print(json.dumps([dict(os.environ), os.getcwd(), os.getppid()]))"
    environment, cwd, parent = json.loads(run(kernel, code).text)
    assert (cwd, parent) == (str(tmp_path), os.getpid())
    assert environment["JPY_PARENT_PID"] == str(os.getpid())
    assert environment["PYTHONHASHSEED"] == "7"
    assert "t-123" not in environment.values()
    assert not [name for name in environment if name.startswith(("PYTEST", "BRIDGE"))]


def test_children_of_a_cell_print_into_the_cell(
    make_pool: MakePool, capfd: pytest.CaptureFixture[str]
) -> None:
    kernel = make_pool().lease()
    cell = run(kernel, "import os; _ = os.system('echo from a child; read x; echo \"[$x]\"')")
    assert cell.text == "from a child\n[]\n"
    assert capfd.readouterr() == ("", "")


def test_kernels_keep_no_history_file(make_pool: MakePool) -> None:
    kernel = make_pool().lease()
    assert run(kernel, "print(get_ipython().history_manager.enabled)").text == "False\n"


# -- shutdown ------------------------------------------------------------------------------------------------

STUBBORN = """
import signal, subprocess
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGINT, signal.SIG_IGN)
print(subprocess.Popen(['sleep', '600']).pid, flush=True)
while True: pass
"""


def test_shutdown_ends_everything_however_stubborn(make_pool: MakePool) -> None:
    before = own_processes()
    threads = set(threading.enumerate())
    pool = make_pool(size=2)
    stubborn, quiet = pool.lease(), pool.lease()
    cell = Cell(stubborn, STUBBORN).until("\n")
    waiting, result = lease_in_thread(pool)
    eventually(lambda: pool.waiting == 1, "the lease waits")
    processes = [process for process in own_processes() if process not in before]
    assert {quiet.pid, stubborn.pid, int(cell.text)} <= {process.pid for process in processes}
    pool.shutdown()
    assert [process for process in processes if runs(process)] == []
    assert set(own_processes()) <= set(before)
    assert cell.execution.wait(0)
    assert cell.execution.died == "signal 9 (SIGKILL)"
    waiting.join(BOUND)
    assert isinstance(result[0], ShuttingDown)
    with pytest.raises(ShuttingDown):
        pool.lease()
    pool.release(stubborn)
    pool.shutdown()
    assert set(threading.enumerate()) <= threads


@pytest.mark.parametrize("moment", ["at once", "starting"])
def test_shutdown_while_kernels_start_leaves_nothing(moment: str, make_pool: MakePool) -> None:
    before = own_processes()
    threads = set(threading.enumerate())
    pool = make_pool(size=2)
    if moment == "starting":
        eventually(lambda: any(kernel["pid"] for kernel in pool.status()), "a process was launched")
    pool.shutdown()
    assert [process for process in own_processes() if process not in before] == []
    assert set(threading.enumerate()) <= threads


def test_two_shutdowns_at_once_both_wait_for_the_end(make_pool: MakePool) -> None:
    pool = make_pool()
    process = psutil.Process(pool.lease().pid)
    ended: list[bool] = []

    def end() -> None:
        pool.shutdown()
        ended.append(not runs(process))

    threads = [threading.Thread(target=end) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(BOUND)
    assert ended == [True, True]
