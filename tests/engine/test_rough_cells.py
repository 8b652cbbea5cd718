"""Cells that break what they run in: told honestly, and never felt by another line of states."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bridge import Kernel
from bridge.errors import Conflict


def run(
    kernel: Kernel, code: str, start: str = "initial", new: str | None = None, **terms: Any
) -> dict[str, Any]:
    reply = kernel.execute(code, "rough", start, new, **terms)
    assert reply["error"] is None, reply["error"]
    return reply


def printed(reply: dict[str, Any]) -> str:
    return "".join(output.get("text", "") for output in reply["output"])


def test_a_cell_is_never_run_twice(kernel: Kernel, tmp_path: Path) -> None:
    for code in (
        "import ctypes; ctypes.string_at(0)",
        "import os; os.abort()",
        "import os; os.closerange(3, 60)",
    ):
        mark = tmp_path / "mark"
        mark.write_text("")
        reply = kernel.execute(
            f"with open({str(mark)!r}, 'a') as f: f.write('r')\n{code}", "twice", "initial", timeout=20
        )
        assert reply["error"]["ename"] in ("KernelDied", "TimeoutError")
        assert mark.read_text() == "r"


def test_a_patched_library_does_not_reach_the_helper(kernel: Kernel) -> None:
    code = "import json, pickle\nx = 1\njson.dumps = json.loads = pickle.dumps = pickle.Pickler = None"
    state = run(kernel, code)["state_name"]
    assert printed(run(kernel, "print(x, json.dumps)", state)) == "1 None\n"
    assert (
        printed(run(kernel, "import json, pickle\nprint(json.dumps([1]), len(pickle.dumps(1)) > 0)"))
        == "[1] True\n"
    )


def test_a_cell_whose_snapshot_fails_is_no_success(kernel: Kernel) -> None:
    state = run(kernel, "a = 1; b = 2")["state_name"]
    reply = kernel.execute(
        "c = 3; get_ipython().events.callbacks['post_run_cell'].clear()", "no snapshot", state, "lost"
    )
    assert reply["error"]["ename"] == "SnapshotFailed"
    assert reply["state_name"] is None
    assert reply["accessed_symbols"] == ["a", "b"]
    assert printed(run(kernel, "print(a, b, 'c' in globals())", state)) == "1 2 False\n"


@pytest.mark.parametrize(
    "code",
    [
        "import sys; sys.stdout.close()",
        "import sys; [sys.modules.pop(name) for name in list(sys.modules) if 'bridge' in name]",
        "import sys, textwrap; del sys.modules['textwrap']",
        "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)",
        "import sys; sys.setrecursionlimit(80)",
        "import gc; gc.disable()",
        "import builtins; builtins.extra = 1; In = 3; _ = 4",
        "%reset -f",
        "get_ipython().reset()",
    ],
)
def test_what_a_cell_breaks_is_its_own(kernel: Kernel, code: str) -> None:
    state = run(kernel, "class C:\n    n = 1\nc = C()")["state_name"]
    run(kernel, code, state)
    check = (
        "import textwrap\nprint(c.n, isinstance(c, C), textwrap.shorten('a b', 9))\n"
        "print([name for name in globals() if not name.startswith('__')])"
    )
    assert printed(run(kernel, check, state)) == "1 True a b\n['C', 'c', 'textwrap']\n"


@pytest.mark.parametrize("code", ["%reset -f", "%reset -f in out", "get_ipython().reset()"])
def test_a_reset_leaves_no_name_of_ipythons(kernel: Kernel, code: str) -> None:
    state = run(kernel, code, run(kernel, "kept = 1")["state_name"])["state_name"]
    details = kernel.get_state(state)
    assert details is not None
    assert set(details["variables"]) <= {"kept"}
    assert details["live"] == []
    assert run(kernel, "In, Out, _, get_ipython, exit, open", state)["error"] is None


@pytest.mark.parametrize(
    "code",
    [
        "!sleep 20",
        "%%bash\nsleep 20",
        "import time\ntry: time.sleep(20)\nexcept KeyboardInterrupt: pass",
        "import time\nwhile True:\n    try: time.sleep(20)\n    except BaseException: pass",
        "import asyncio\nawait asyncio.sleep(20)",
    ],
)
def test_a_cell_out_of_time_is_a_timeout_whatever_it_makes_of_it(kernel: Kernel, code: str) -> None:
    reply = kernel.execute(code, "late", "initial", "late", timeout=0.5)
    assert reply["error"]["ename"] == "TimeoutError"
    assert reply["state_name"] is None
    assert [output["output_type"] for output in reply["output"]].count("error") == 1
    assert "late" not in kernel.list_states()


def test_a_change_in_a_closure_is_a_change_of_its_function(kernel: Kernel) -> None:
    code = (
        "def counter():\n    n = 0\n    def add():\n        nonlocal n\n        n += 1\n        return n\n"
        "    return add\nadd = counter()"
    )
    before = run(kernel, code)["state_name"]
    reply = run(kernel, "add()", before)
    assert reply["changed_symbols"] == ["add"]
    assert kernel.diff(before, reply["state_name"]) == {"added": [], "removed": [], "changed": ["add"]}


def test_both_streams_keep_the_order_of_writing(kernel: Kernel) -> None:
    code = "import sys\nfor k in range(3):\n    print('e', k, file=sys.stderr)\n    print('o', k)"
    shown = [(output["name"], output["text"]) for output in run(kernel, code)["output"]]
    assert shown == [pair for k in range(3) for pair in (("stderr", f"e {k}\n"), ("stdout", f"o {k}\n"))]


def test_what_is_written_past_python_is_the_output_of_its_cell(kernel: Kernel) -> None:
    """A thread of ipykernel's reads it from a pipe, and lost the race with the reply in a tenth of the cells."""
    for number in range(40):
        wanted = {"stdout": f"out {number}\n", "stderr": f"err {number}\n"}
        outputs = run(
            kernel,
            f"import os\nfor k, t in (1, 'out'), (2, 'err'):\n    _ = os.write(k, b'%s {number}\\n' % t.encode())",
        )
        assert {output["name"]: output["text"] for output in outputs["output"]} == wanted


def test_an_object_that_lies_about_everything_costs_only_itself(kernel: Kernel) -> None:
    code = "class L:\n    def __getattribute__(self, name): raise ValueError(name)\nl = L(); ok = 5"
    reply = run(kernel, code)
    assert reply["state"]["live"] == ["l"]
    assert "ok" in reply["state"]["saved"]
    assert printed(run(kernel, "print(ok, type(l).__name__)", reply["state_name"])) == "5 L\n"


def test_code_nested_too_deeply_for_the_kernel_ends(kernel: Kernel) -> None:
    reply = kernel.execute("+".join(["1"] * 3000), "deep", "initial", "deep")
    assert reply["error"] is not None
    assert reply["state_name"] is None
    assert printed(run(kernel, "print('next')")) == "next\n"


def test_an_endless_display_is_cut_short(kernel: Kernel) -> None:
    code = "class Slow:\n    def __repr__(self):\n        while True: pass\ns = Slow(); n = 3"
    state = run(kernel, code)["state_name"]
    shown = kernel.get_variable(state, "s")
    assert shown is not None
    assert "takes longer than 2 s" in shown["data"]["text/plain"]
    details = kernel.get_state(state)
    assert details is not None
    assert "takes longer than 2 s" in details["variables"]["s"]["repr"]
    assert details["variables"]["n"] == {"type": "int", "repr": "3"}


def test_the_own_workspace_before_a_name_changes_nothing(kernel: Kernel) -> None:
    own = f"{kernel.workspace}:"
    run(kernel, "n = 1", own + "initial", own + "prefixed")
    assert "prefixed" in kernel.list_states()
    with pytest.raises(Conflict):
        kernel.delete_state(own + "initial")
    with pytest.raises(Conflict):
        kernel.execute("1", "x", "initial", own + "initial")
    assert kernel.delete_state(own + "prefixed")
    assert "prefixed" not in kernel.list_states()
