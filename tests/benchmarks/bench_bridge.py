"""What the product costs, side by side with a plain ipykernel, in one run and one table.

    .venv/bin/python -m tests.benchmarks.bench_bridge

Times are medians in milliseconds. The two sides of a ratio are measured in turns, one round of each, so that
whatever else the machine does meets both. "tiny" is the cell `x = 1`.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import statistics
import tempfile
import time
import urllib.parse
import uuid
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from tests.bare import BareKernel, bare_kernel
from tests.concurrency import Flag, background, until
from tests.support import Client, Server

ROUNDS = 200
TINY = "x = 1"
BIG = "import numpy as np\nbig = np.ones(64 * 1024 * 1024)"  # 512 MB


class Line:
    """One kept-alive connection, as a client that minds its time has it."""

    def __init__(self, server: Server) -> None:
        address = urllib.parse.urlsplit(server.url)
        assert address.hostname is not None
        self.connection = http.client.HTTPConnection(address.hostname, address.port, timeout=120)
        self.headers = {"Authorization": f"Bearer {server.token}", "Content-Type": "application/json"}

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        return ask(self.connection, method, path, body, self.headers)

    def execute(self, code: str, state: str = "initial", new: str | None = None, **fields: Any) -> Any:
        body = {"code": code, "state_name": state, "exec_id": uuid.uuid4().hex, **fields}
        if new is not None:
            body["new_state_name"] = new
        reply = self.ask("POST", "/execute", body)
        assert reply["error"] is None, reply["error"]
        return reply


def ask(
    connection: http.client.HTTPConnection, method: str, path: str, body: Any, headers: dict[str, str]
) -> Any:
    """The JSON of an answer that must be 200, on a connection that is kept."""
    sent = None if body is None else json.dumps(body)
    try:
        connection.request(method, path, sent, headers)
        answer = connection.getresponse()
    except ConnectionError:  # it was idle for longer than the server keeps it
        connection.close()
        connection.request(method, path, sent, headers)
        answer = connection.getresponse()
    data = answer.read()
    assert answer.status == 200, data
    return json.loads(data)


def timed(call: Callable[[], Any]) -> float:
    """Milliseconds that `call` takes."""
    start = time.perf_counter()
    call()
    return (time.perf_counter() - start) * 1000


def alternating(rounds: int, *calls: Callable[[], Any]) -> list[float]:
    """The median of each call, measured in turns after a few rounds of warming up."""
    for _turn in range(min(5, rounds)):
        for call in calls:
            call()
    taken: list[list[float]] = [[] for _call in calls]
    for _turn in range(rounds):
        for times, call in zip(taken, calls, strict=True):
            times.append(timed(call))
    return [statistics.median(times) for times in taken]


Row = tuple[str, str, str, str, str]
"""What is measured, its value, what it is held against, the ratio or difference, the bar."""


def ratio(what: str, value: float, against: str, other: float, bar: str) -> Row:
    return what, f"{value:.2f} ms", f"{against} {other:.2f} ms", f"{value / other:.2f} x", bar


def tiny_against_bare(line: Line, bare: BareKernel) -> Iterator[Row]:
    first = line.execute(TINY)["state_name"]
    rest, plain = alternating(ROUNDS, lambda: line.execute(TINY, first, "t"), lambda: bare.run(TINY))
    yield ratio("tiny cell through REST, snapshot included", rest, "bare jupyter_client", plain, "<= 1.3 x")

    state = first

    def chained() -> None:
        nonlocal state
        state = line.execute(TINY, state)["state_name"]

    rest, plain = alternating(ROUNDS, chained, lambda: bare.run(TINY))
    yield ratio("the same, each from the state before it", rest, "bare jupyter_client", plain, "")


def user_code(line: Line, bare: BareKernel) -> Iterator[Row]:
    loops = {
        "a loop at top level": "for i in range(8_000_000): y = i",
        "a loop in a function": "def g():\n    for i in range(8_000_000): len('x')\ng()",
    }
    for what, code in loops.items():
        rest, plain = alternating(7, lambda code=code: line.execute(code), lambda code=code: bare.run(code))  # type: ignore[misc]
        yield ratio(what, rest, "bare jupyter_client", plain, "<= 1.05 x")


def beside_a_big_array(line: Line) -> Iterator[Row]:
    big = line.execute(BIG)["state_name"]
    empty = line.execute("import numpy as np")["state_name"]
    cell = "y = 2"

    def here(state: str) -> Callable[[], float]:
        """Times a cell from `state` in a kernel that holds it: one cell before, untimed, sees to that."""

        def call() -> float:
            line.execute(cell, state)
            return timed(lambda: line.execute(cell, state))

        return call

    calls = here(big), here(empty)
    taken = [[call() for call in calls] for _turn in range(ROUNDS // 2)]
    with_big, without = (statistics.median(times) for times in zip(*taken, strict=True))
    yield ratio(
        "cell in a state with an untouched 512 MB array", with_big, "an empty state", without, "<= 1.1 x"
    )
    to, fro = alternating(ROUNDS // 4, lambda: line.execute(cell, big), lambda: line.execute(cell, empty))
    yield ratio("the same, two lines in turns: a switch each time", to, "an empty state", fro, "")
    grown = line.execute("big[0] += 1", big)
    size = grown["state"]["bytes"]
    yield "storage growth of `big[0] += 1`", f"{size / 2**20:.1f} MiB", "", "", "<= 16 MiB"


def rebuilding(line: Line) -> Iterator[Row]:
    pair = "import numpy as np\nbig = np.ones(128 * 1024 * 1024); alias = big"  # 1 GB, two names
    source = line.execute(pair)["state_name"]
    entry = line.execute("big = 'small'; mine = [2]", source)["state_name"]
    body = {
        "input_state": entry, "source_state": source, "source_vars": ["big", "alias"], "input_vars": ["mine"],
    }  # fmt: skip
    first = timed(lambda: line.ask("POST", "/rebuild_state", body))
    [again] = alternating(50, lambda: line.ask("POST", "/rebuild_state", body))
    yield "/rebuild_state with a 1 GB group, its fingerprint not known yet", f"{first:.2f} ms", "", "", ""
    yield "the same, known", f"{again:.2f} ms", "", "", "< 20 ms, no kernel"


def first_cell_of_a_branch(line: Line, client: Client, folder: Path) -> Iterator[Row]:
    big = line.execute(BIG)["state_name"]
    started, go = Flag(folder), Flag(folder)
    # The kernel that holds the state is kept busy: the branch begins in the other one, which holds nothing.
    busy = background(client.execute, f"{started.raising}\n{go.waiting}", big)
    started.wait()
    branch, tiny = [], []
    for _turn in range(10):
        line.execute(TINY)
        tiny.append(timed(lambda: line.execute(TINY)))
        branch.append(timed(lambda: line.execute("z = 3", big)))
    line.execute(TINY)
    read = timed(lambda: line.execute("total = float(big.sum())", big))
    go.raise_()
    assert busy.result(60)["error"] is None
    value, other = statistics.median(branch), statistics.median(tiny)
    yield (
        "first cell of a branch of it in another warm kernel",
        f"{value:.2f} ms",
        f"a tiny cell {other:.2f} ms",
        f"+{value - other:.2f} ms",
        "<= 50 ms over",
    )
    yield "the same, reading all 512 MB", f"{read:.2f} ms", "", "", ""


def starting() -> Iterator[Row]:
    answers, executes, bares = [], [], []
    for _turn in range(5):
        server = Server()
        try:
            start = server.started
            line = Line(server.ready())
            line.ask("GET", "/states")
            answers.append((time.monotonic() - start) * 1000)
            line.execute(TINY)
            executes.append((time.monotonic() - start) * 1000)
            line.connection.close()
        finally:
            server.close()
        begin = time.monotonic()
        with bare_kernel() as kernel:
            kernel.run(TINY)
            bares.append((time.monotonic() - begin) * 1000)
    bare = f"bare kernel's first execute {statistics.median(bares):.0f} ms"
    yield "server start to first answer", f"{statistics.median(answers):.0f} ms", "", "", "<= 500 ms"
    yield "server start to first execute", f"{statistics.median(executes):.0f} ms", bare, "", "<= 1500 ms"


def two_at_once(client: Client) -> Iterator[Row]:
    code = "import time\nend = time.process_time() + 2\nwhile time.process_time() < end: pass"
    alone = timed(lambda: client.run(code))

    def both() -> None:
        running = [background(client.run, code) for _branch in range(2)]
        for execution in running:
            execution.result(60)

    yield ratio("two cells of 2 s CPU at once", timed(both), "one alone", alone, "about 1 x on 2 cores")


def answers_under_load(form: str, folder: Path) -> Iterator[Row]:
    server = Server(form=form, pool_size=2)
    try:
        client, line = server.ready().client, Line(server)
        go = Flag(folder)
        slow = [background(client.execute, go.waiting, exec_id=f"slow-{n}") for n in range(64)]
        until(lambda: len(line.ask("GET", "/health")["executions"]) == 64, "64 executions in flight")
        asked: dict[str, Callable[[], Any]] = {
            "/states": lambda: line.ask("GET", "/states"),
            "/health": lambda: line.ask("GET", "/health"),
            "/interrupt": lambda: line.ask("POST", "/interrupt", {"exec_id": "nobody"}),
        }
        for path, ask in asked.items():
            worst = max(timed(ask) for _turn in range(50))
            yield f"{path}, worst of 50, 64 executes waiting ({form})", f"{worst:.1f} ms", "", "", "< 100 ms"
        go.raise_()
        for execution in slow:
            assert execution.result(120)["error"] is None
        line.connection.close()
    finally:
        server.close()


def rows() -> Iterator[Row]:
    """Every figure, one after the other."""
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        yield from starting()
        server = Server(pool_size=2)
        stack.callback(server.close)
        line = Line(server.ready())
        stack.callback(line.connection.close)
        bare = stack.enter_context(bare_kernel())
        yield from tiny_against_bare(line, bare)
        yield from user_code(line, bare)
        yield from beside_a_big_array(line)
        yield from rebuilding(line)
        yield from first_cell_of_a_branch(line, server.client, folder)
        yield from two_at_once(server.client)
        for form in ("main", "bottle"):
            yield from answers_under_load(form, folder)


def print_table(rows: Iterable[Row]) -> None:
    """Prints rows under their titles."""
    table = [("what", "measured", "against", "", "bar"), *rows]
    widths = [max(len(row[column]) for row in table) for column in range(5)]
    for row in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def main() -> None:
    """Measures and prints the table."""
    print_table(rows())


if __name__ == "__main__":
    main()
