"""Cells in a real kernel: output, input, our own requests, interrupts and deaths."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

import psutil
import pytest

from bridge.errors import KernelDied, KernelTimeout
from bridge.pool import KernelProcess
from tests.concurrency import left_of
from tests.pool.helpers import BOUND, ECHO, Cell, eventually, run

SPIN = "print('running', flush=True)\nwhile True: pass"
DEAF = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
CLUNG = DEAF + "print('running')\ninput()\nimport itertools; sum(itertools.repeat(1, 10**11))"
"""One C call that neither looks for signals nor lets another thread of the process run.

(The input comes after the output on its way, which the kernel's own thread could not send any more.)
"""


def test_a_cell_gives_its_messages_its_reply_and_its_end(kernel: KernelProcess) -> None:
    cell = run(kernel, "print('out'); 6 * 7", metadata={"mine": 1})
    kinds = [message["msg_type"] for message in cell.messages]
    assert kinds == ["status", "execute_input", "stream", "execute_result", "status"]
    assert cell.messages[-1]["content"] == {"execution_state": "idle"}
    assert cell.execution.reply is not None
    assert cell.execution.reply["status"] == "ok"
    assert cell.execution.died is None


def test_the_metadata_reaches_the_kernel(kernel: KernelProcess) -> None:
    code = "print(get_ipython().kernel.get_parent('shell')['metadata']['mine'])"
    assert run(kernel, code, metadata={"mine": "this"}).text == "this\n"


def test_a_failing_cell_aborts_nothing_behind_it(kernel: KernelProcess) -> None:
    failing, next_one = Cell(kernel, "1 / 0"), Cell(kernel, "print('runs')")
    assert failing.end().error == "ZeroDivisionError"
    assert next_one.end().text == "runs\n"


def test_k11_messages_go_to_the_cell_they_belong_to(kernel: KernelProcess) -> None:
    cells = [Cell(kernel, f"print({number})") for number in range(20)]
    assert [cell.end().text for cell in cells] == [f"{number}\n" for number in range(20)]


def test_nothing_is_lost_in_a_flood(kernel: KernelProcess) -> None:
    # The kernel's own end drops what is beyond 1,000 messages that wait; the helper lifts that, here the test does.
    lift = "import zmq; t = get_ipython().kernel.iopub_thread; t.schedule(lambda: t.socket.setsockopt(zmq.SNDHWM, 0))"
    run(kernel, lift)
    code = "import sys\nfor _ in range(20_000): sys.stdout.write('0' * 100); sys.stdout.flush()\nprint('END')"
    text = run(kernel, code).text
    assert (len(text), text[-4:]) == (2_000_004, "END\n")


def test_a_listener_that_fails_disturbs_nobody(
    kernel: KernelProcess, caplog: pytest.LogCaptureFixture
) -> None:
    def listen(message: dict[str, Any]) -> None:
        raise LookupError("deaf")

    failing = kernel.execute("1", metadata={}, on_iopub=listen, on_input=lambda *_: None)
    assert failing.wait(BOUND)
    assert "deaf" in caplog.text
    assert run(kernel, "print('fine')").text == "fine\n"


# -- input ---------------------------------------------------------------------------------------------------


def test_input_lines_reach_their_cell_until_they_run_out(kernel: KernelProcess) -> None:
    cell = run(kernel, "print(input('who? '))\nimport getpass; print(getpass.getpass('key? '))", ["Bo", "k"])
    assert cell.text == "Bo\nk\n"
    assert cell.prompts == [("who? ", False), ("key? ", True)]
    assert run(kernel, "input()").error == "EOFError"


def test_an_input_source_that_fails_ends_the_input(
    kernel: KernelProcess, caplog: pytest.LogCaptureFixture
) -> None:
    def source(prompt: str, password: bool) -> str | None:
        raise LookupError("dry")

    execution = kernel.execute("input()", metadata={}, on_iopub=lambda message: None, on_input=source)
    assert execution.wait(BOUND)
    assert (execution.reply or {})["ename"] == "EOFError"
    assert "dry" in caplog.text


def test_an_input_that_nobody_answers_can_be_interrupted(kernel: KernelProcess) -> None:
    asked, answer = threading.Event(), threading.Event()

    def source(prompt: str, password: bool) -> str | None:
        asked.set()
        answer.wait(BOUND)
        return "late"

    execution = kernel.execute("input()", metadata={}, on_iopub=lambda message: None, on_input=source)
    assert asked.wait(BOUND)
    kernel.interrupt()
    assert execution.wait(BOUND)
    answer.set()
    assert (execution.reply or {})["ename"] == "KeyboardInterrupt"
    assert run(kernel, "print(input())", ["mine"]).text == "mine\n"


# -- requests of our own -------------------------------------------------------------------------------------


def test_a_request_carries_content_and_buffers_both_ways(kernel: KernelProcess) -> None:
    run(kernel, ECHO, silent=True, store_history=False)
    content, buffers = kernel.request(
        {"x": [1, "é"]}, [b"raw", memoryview(b"12345678" * 50_000)], timeout=BOUND
    )
    assert content == {"echo": {"x": [1, "é"]}}
    assert [bytes(buffer) for buffer in buffers] == [b"raw", b"12345678" * 50_000]


def test_a_request_that_nobody_answers_times_out(kernel: KernelProcess) -> None:
    cell = Cell(kernel, SPIN).until("running")
    with pytest.raises(KernelTimeout, match="bridge_request"):
        kernel.request({}, timeout=0.05)
    kernel.interrupt()
    assert cell.end().error == "KeyboardInterrupt"


def test_a_request_learns_of_the_kernels_death(kernel: KernelProcess) -> None:
    Cell(kernel, SPIN).until("running")
    threading.Timer(0.1, kernel.kill).start()
    with pytest.raises(KernelDied, match="SIGKILL"):
        kernel.request({}, timeout=BOUND)


# -- interrupts and deaths -----------------------------------------------------------------------------------

AWAIT = "import asyncio\nprint('running', flush=True)\nawait asyncio.Event().wait()"


@pytest.mark.parametrize(
    ("code", "names"),
    [
        (SPIN, {"KeyboardInterrupt"}),
        ("print('running', flush=True)\nimport time; time.sleep(600)", {"KeyboardInterrupt"}),
        (AWAIT, {"KeyboardInterrupt", "CancelledError"}),
    ],
)
def test_an_interrupt_ends_the_cell_and_not_the_kernel(
    code: str, names: set[str], kernel: KernelProcess
) -> None:
    cell = Cell(kernel, code).until("running")
    kernel.interrupt()
    assert cell.end().error in names
    assert run(kernel, "print('next')").text == "next\n"


def test_an_interrupt_right_after_the_sending_counts(kernel: KernelProcess) -> None:
    for _ in range(20):
        cell = Cell(kernel, "import time; time.sleep(600)")
        kernel.interrupt()
        assert cell.end().error == "KeyboardInterrupt"


def test_a_silent_cell_is_interrupted_too(kernel: KernelProcess) -> None:
    cell = Cell(kernel, SPIN, silent=True, store_history=False).until("running")
    kernel.interrupt()
    assert cell.end().error == "KeyboardInterrupt"


def test_an_interrupt_at_the_end_of_a_cell_spares_the_next(kernel: KernelProcess) -> None:
    for _ in range(20):
        cell = Cell(kernel, "1")
        assert cell.execution.wait(BOUND)
        kernel.interrupt()
        assert run(kernel, "2").error is None


def test_an_interrupt_reaches_the_cells_own_children(kernel: KernelProcess) -> None:
    cell = Cell(kernel, "%%bash\nsleep 600 & sleep 600")
    eventually(lambda: len(group_of(kernel)) == 3, "the shell and both its commands run")
    kernel.interrupt()
    cell.end()
    eventually(lambda: group_of(kernel) == [], "none of them is left")


def test_an_interrupt_spares_workers_and_what_ran_before(kernel: KernelProcess) -> None:
    deaf = "import subprocess\nsubprocess.Popen(['bash', '-c', 'trap \"\" INT; {}'])\n"
    run(kernel, deaf.format("sleep 600 &"))
    eventually(lambda: [p.name() for p in group_of(kernel)] == ["sleep"], "an orphan of an earlier cell")
    cell = Cell(kernel, deaf.format("sleep 600; true") + "import time; time.sleep(600)")
    eventually(lambda: len(group_of(kernel)) == 3, "a worker of this cell, and its child")
    kernel.interrupt()
    assert cell.end().error == "KeyboardInterrupt"
    spared = group_of(kernel)
    assert len(spared) == 3
    doomed = Cell(kernel, "%%bash\nsleep 600 & sleep 600")
    eventually(lambda: len(group_of(kernel)) == 6, "the next cell's shell and both its commands run")
    kernel.interrupt()
    doomed.end()
    eventually(lambda: group_of(kernel) == spared, "only the next cell's are gone")


def group_of(kernel: KernelProcess) -> list[psutil.Process]:
    """What runs in the kernel's process group beside the kernel itself, oldest first."""
    found = []
    for process in psutil.process_iter():
        try:
            if os.getpgid(process.pid) == kernel.pid != process.pid:
                found.append((process.create_time(), process.pid, process, process.status()))
        except (ProcessLookupError, psutil.NoSuchProcess):
            continue
    return [process for *_, process, status in sorted(found) if status != psutil.STATUS_ZOMBIE]


def test_interrupts_of_an_idle_kernel_hit_nothing(kernel: KernelProcess) -> None:
    for _ in range(20):
        kernel.interrupt()
        assert run(kernel, "1").error is None


def test_what_no_interrupt_ends_is_killed(kernel: KernelProcess) -> None:
    cell = Cell(kernel, CLUNG, ["go"]).until("running")
    kernel.interrupt()
    assert not cell.execution.wait(0.2)
    kernel.kill()
    assert cell.end().execution.died == "signal 9 (SIGKILL)"
    assert (kernel.alive, kernel.exit_reason) == (False, "signal 9 (SIGKILL)")


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import os; os._exit(3)", "exit code 3"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "signal 9 (SIGKILL)"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", "signal 15 (SIGTERM)"),
    ],
)
def test_a_death_is_told_with_the_output_before_it(code: str, reason: str, kernel: KernelProcess) -> None:
    # What the kernel's own thread has not sent when the process ends is lost to any client: the cell
    # waits for the answer to an input, which comes after the output on the way.
    cell = Cell(kernel, f"print('bye', flush=True)\ninput()\n{code}", ["go"])
    assert cell.end().execution.died == reason
    assert cell.text == "bye\n"
    assert cell.execution.reply is None
    assert run(kernel, "1").execution.died == reason


def test_a_cell_that_exits_has_its_reply_before_the_death(kernel: KernelProcess) -> None:
    cell = run(kernel, "x = 1\nexit()")
    assert (cell.execution.reply or {}).get("status") == "ok"
    eventually(lambda: not kernel.alive, "the kernel has ended")
    assert kernel.exit_reason == "exit code 0"


def test_what_a_dead_kernel_left_in_its_process_group_dies_too(kernel: KernelProcess) -> None:
    cell = run(kernel, "import subprocess; print(subprocess.Popen(['sleep', '600']).pid)")
    child = psutil.Process(int(cell.text))
    run(kernel, "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    assert left_of([child], BOUND) == []


def test_a_kernel_sees_a_signal_by_name() -> None:
    from bridge.pool.lifecycle import describe_exit

    assert describe_exit(-signal.SIGSEGV) == f"signal {int(signal.SIGSEGV)} (SIGSEGV)"
    assert describe_exit(-99) == "signal 99"
    assert describe_exit(1) == "exit code 1"
