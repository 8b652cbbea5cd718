"""Whole notebooks: run in one plain kernel, and cell by cell from the state before, must show the same.

The rule: a cell executed from its predecessor's state shows what it shows in a plain kernel that ran all the cells
before it, in the kernel that other lines have used in between ("shared"), in one that never ran anything ("fresh"),
and in a fork of the process that the state before was left in ("hot"). Text is compared exactly, pictures byte for
byte. In forks nothing may be missing, not even what no serialiser holds.

The plain kernel gets the hash seed of the server's home and its display options. The execution count is compared
up to a notebook's first failing cell (a failing cell leaves no state, so it does not advance ours).
"""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import bare
from tests.bare import DISPLAY_OPTIONS, bare_kernel
from tests.cases import restoring
from tests.programs import Program
from tests.programs.definitions import CLASSES, FUNCTIONS, SHARING
from tests.programs.interactive import INTERACTIVE
from tests.programs.live import LIVE
from tests.programs.stubborn import REPLACED, SHARED_MEMORY, STUBBORN
from tests.programs.surroundings import HISTORY, LIBRARIES, PROCESS
from tests.support import Client, Server

HASH_SEED = "20240229"
INSTALLED = tuple(
    case for case in restoring.CASES if all(importlib.util.find_spec(name) is not None for name in case.needs)
)
CASES = Program(
    "cases",
    tuple(cell for case in INSTALLED for cell in (*case.setup, case.check)),
    files=True,  # fresh kernels: `tests/cases/test_restoring.py` has them
)
PROGRAMS = (
    *(PROCESS, LIBRARIES, HISTORY, CLASSES, FUNCTIONS, SHARING),
    *(STUBBORN, SHARED_MEMORY, REPLACED, INTERACTIVE, CASES),
)

OTHER_LINE = """
import ast, decimal, gc, logging, os, random, sys, textwrap, warnings
os.chdir("/"); os.environ["STAGE"] = "another"; sys.path.append("/another")
random.seed(1); decimal.getcontext().prec = 3; warnings.simplefilter("error")
logging.getLogger("cells").setLevel(50); textwrap.shorten = None; sys.setrecursionlimit(3000)
class Broken(ast.NodeTransformer):
    def visit_Constant(self, node): return ast.copy_location(ast.Constant("another"), node)
ip = get_ipython()
ip.ast_transformers.append(Broken()); ip.events.register("post_run_cell", lambda result: print("another"))
ip.register_magic_function(lambda line: "another", magic_name="hello")
ip.alias_manager.define_alias("listed", "another")
ip.input_transformers_cleanup.append(lambda lines: ["'another'"]); ip.ast_node_interactivity = "none"
gc.disable(); logging.disable(50)
if "numpy" in sys.modules:
    import numpy as np
    np.random.seed(1); np.set_printoptions(precision=1); np.seterr(all="ignore")
if "pandas" in sys.modules:
    sys.modules["pandas"].set_option("display.precision", 3, "display.max_rows", 2)
if "matplotlib" in sys.modules:
    sys.modules["matplotlib"].rcParams["figure.dpi"] = 33
a = x = Node = Row = box = up = "another"
class V: n = "another"
def helper(n): return "another"
"another"
"""
"""A cell of another line that changes whatever it can."""


@pytest.fixture(scope="module")
def client(nothing_left_behind: None) -> Iterator[Client]:
    """A server with one kernel for all lines, and the hash seed that the plain kernels get too."""
    server = Server(pool_size=1, hot_states=0, env={"PYTHONHASHSEED": HASH_SEED})
    try:
        yield server.ready().client
    finally:
        server.close()


@pytest.fixture(scope="module")
def hot(nothing_left_behind: None) -> Iterator[Client]:
    """A server that keeps states as processes, with the same hash seed."""
    server = Server(pool_size=1, env={"PYTHONHASHSEED": HASH_SEED})
    try:
        yield server.ready().client
    finally:
        server.close()


@pytest.mark.parametrize(
    "program",
    [
        program if program in (LIVE, INTERACTIVE) else pytest.param(program, marks=pytest.mark.soak)
        for program in (LIVE, *PROGRAMS)
    ],
    ids=lambda program: program.id,
)
def test_every_cell_in_a_fork_of_the_state_before_shows_what_it_shows_in_a_plain_kernel(
    hot: Client, program: Program, tmp_path: Path
) -> None:
    expected = in_a_plain_kernel(program, tmp_path / "plain")
    line = Line(hot, program, tmp_path / "states", isolation="fresh", hot=True)
    if program is LIVE:  # first: a state that is not hot tells why what follows differs
        assert all(why is None for why in line.why), line.why
    problems = compare(program, "in a fork", line.outputs, expected)
    assert not problems, "\n\n".join(problems)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.id)
def test_every_cell_shows_what_it_shows_in_a_plain_kernel(
    client: Client, program: Program, tmp_path: Path
) -> None:
    for name in program.needs:
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"the notebook needs {name}, which is not installed here")
    expected = in_a_plain_kernel(program, tmp_path / "plain")
    line = Line(client, program, tmp_path / "states")
    problems = compare(program, "in the shared kernel", line.outputs, expected)
    for number in range(len(program.cells) - 1, -1, -1):
        again = line.again(number)
        if again != line.outputs[number]:
            problems.append(told(program, number, "a second time", again, line.outputs[number]))
    for number in program.fresh:
        again = line.again(number, isolation="fresh")
        if comparable(again) != comparable(expected[number]):
            problems.append(told(program, number, "in a fresh kernel", again, expected[number]))
    assert not problems, "\n\n".join(problems)


@pytest.mark.soak
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.id)
def test_a_line_of_fresh_kernels_shows_what_a_plain_kernel_shows(
    client: Client, program: Program, tmp_path: Path
) -> None:
    expected = in_a_plain_kernel(program, tmp_path / "plain")
    line = Line(client, program, tmp_path / "states", isolation="fresh")
    problems = compare(program, "in fresh kernels", line.outputs, expected)
    assert not problems, "\n\n".join(problems)


def in_a_plain_kernel(program: Program, folder: Path) -> list[list[dict[str, Any]]]:
    """What each cell shows in one plain kernel that works in `folder`."""
    folder.mkdir()
    with bare_kernel(env={"PYTHONHASHSEED": HASH_SEED}) as kernel:
        # A pause after each cell, through a `time.sleep` that the cell may have replaced; ours makes none.
        kernel.run("get_ipython().kernel._execute_sleep = 0", silent=True)
        if "pandas" in program.needs:
            kernel.run(DISPLAY_OPTIONS, silent=True)
        if program.files:
            kernel.run(f"%cd -q {folder}")
        return [kernel.run(cell) for cell in program.cells]


class Line:
    """A notebook run cell by cell from the state before; another line uses the kernel between any two."""

    def __init__(
        self, client: Client, program: Program, folder: Path, isolation: str = "shared", hot: bool = False
    ) -> None:
        self.why: list[str | None] = []  # what kept each state from being hot
        folder.mkdir()
        self.client = client
        self.program = program
        self.starts: list[str] = []
        self.outputs: list[list[dict[str, Any]]] = []
        state = client.run(f"%cd -q {folder}")["state_name"] if program.files else "initial"
        for cell in program.cells:
            if isolation == "shared":
                client.run(OTHER_LINE, new="other")
            reply = client.execute(cell, state, isolation=isolation, hot=hot)
            if hot and reply["state"] is not None:
                self.why.append(reply["state"]["why"])
            self.starts.append(state)
            self.outputs.append(reply["output"])
            state = reply["state_name"] or state

    def again(self, number: int, isolation: str = "shared") -> list[dict[str, Any]]:
        """What a cell shows when it is executed once more from the state it was executed from."""
        outputs: list[dict[str, Any]] = self.client.execute(
            self.program.cells[number], self.starts[number], isolation=isolation
        )["output"]
        return outputs


def compare(
    program: Program, where: str, outputs: list[list[dict[str, Any]]], expected: list[list[dict[str, Any]]]
) -> list[str]:
    """What differs, told cell by cell; counts are compared up to the first cell that fails."""
    problems, counted = [], True
    for number, (got, wanted) in enumerate(zip(outputs, expected, strict=True)):
        same = comparable(got) == comparable(wanted)
        if not same or (counted and counts(got) != counts(wanted)):
            problems.append(told(program, number, where, got, wanted))
        counted = counted and not any(output["output_type"] == "error" for output in wanted)
    return problems


def comparable(outputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Outputs without what two plain kernels differ in too: addresses, and the names of cells' source files."""
    plain = json.dumps(bare.comparable(outputs), sort_keys=True)
    found: list[dict[str, Any]] = json.loads(re.sub(r"/[^\s\"]*ipykernel_\d+/\d+\.py", "<cell>", plain))
    return found


def counts(outputs: list[dict[str, Any]]) -> list[int]:
    """The execution counts that stand in these outputs."""
    return [output["execution_count"] for output in outputs if "execution_count" in output]


def told(program: Program, number: int, where: str, got: Any, wanted: Any) -> str:
    """One difference, as the test's message shows it."""
    cell = program.cells[number]
    return f"--- {program.id}[{number}] {where}:\n{cell}\n  shows   {got!r:.1500}\n  must be {wanted!r:.1500}"
