"""The process itself: restart, shutdown, resume, and what is left when it or its parent is killed."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.concurrency import left_of
from tests.jupyter.kernels import Notebook, notebook
from tests.support import ROOT, Server

GONE_SECONDS = 3.0


def processes(nb: Notebook) -> list[psutil.Process]:
    """The bridge kernel, the real kernels and what else it has started."""
    own = psutil.Process(nb.manager.provisioner.pid)  # type: ignore[union-attr]
    return [own, *own.children(recursive=True)]


def begin_a_loop(nb: Notebook) -> None:
    """Have a cell under way that ends for nobody."""
    msg_id = nb.send(
        "print('begun', flush=True)\nwhile True:\n    try:\n        while True: pass\n    except BaseException: pass"
    )
    while not nb.runs[msg_id].text():
        nb.take("iopub", 0.5)


def test_a_notebook_is_restarted_left_and_opened_again(tmp_path: Path) -> None:
    with notebook(tmp_path, name="/work/a.ipynb") as nb:
        nb.run("x = 41")
        nb.run("def f(): return x + 1")
        nb.restart()
        assert nb.run("x").errors() == ["NameError"]
        assert "s2  [2] def f(): return x + 1" in nb.shown("%states")
        assert "to s2" in nb.run("%checkout last").text()
        assert nb.value("f()") == "42"
        nb.run("x = 1")
        old = processes(nb)
        nb.manager.shutdown_kernel(now=False)
        assert left_of(old, GONE_SECONDS) == []
    with notebook(tmp_path, "--resume", name="/work/a.ipynb") as nb:
        run = nb.run("f(), In[2]")
        assert (run.result(), run.reply["execution_count"]) == ("(2, 'def f(): return x + 1')", 6)


def test_a_server_and_two_notebooks_share_one_home(
    tmp_path: Path, make_server: Callable[..., Server]
) -> None:
    client = make_server(home=tmp_path, pool_size=1).client
    with notebook(tmp_path, name="/work/a.ipynb") as one, notebook(tmp_path, name="/work/b.ipynb") as two:
        ids = [nb.send(f"x = {value}", f"cell-{value}") for nb, value in ((one, 1), (two, 2))]
        assert [nb.finish(each).reply["status"] for nb, each in zip((one, two), ids, strict=True)] == [
            "ok"
        ] * 2
        one.run("%label mine")
        assert client.run("x", "/work/a.ipynb:mine")["output"][0]["data"]["text/plain"] == "1"
        assert client.run("x", "/work/b.ipynb:s1")["output"][0]["data"]["text/plain"] == "2"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_signal_leaves_no_process(tmp_path: Path, number: signal.Signals) -> None:
    with notebook(tmp_path) as nb:
        begin_a_loop(nb)
        all_of_it = processes(nb)
        all_of_it[0].send_signal(number)
        assert left_of(all_of_it, GONE_SECONDS) == []


def test_a_killed_front_end_leaves_no_process(tmp_path: Path) -> None:
    code = (
        "import pathlib, sys\nfrom tests.jupyter.kernels import notebook\n"
        f"with notebook(pathlib.Path({str(tmp_path)!r})) as nb:\n"
        "    print(nb.run('1').reply['status'], nb.manager.provisioner.pid, flush=True)\n    sys.stdin.read()\n"
    )
    front = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert front.stdin is not None
    assert front.stdout is not None
    with front.stdin, front.stdout:
        status, pid = front.stdout.readline().split()
        assert status == "ok"
        own = psutil.Process(int(pid))
        all_of_it = [own, *own.children(recursive=True)]
        front.kill()
        front.wait(10)
        assert left_of(all_of_it, GONE_SECONDS) == []


def test_exit_ends_the_kernel_as_it_ends_ipykernel(tmp_path: Path) -> None:
    with notebook(tmp_path) as nb:
        own = psutil.Process(nb.manager.provisioner.pid)  # type: ignore[union-attr]
        nb.run("exit()")
        assert left_of([own], 10) == []
