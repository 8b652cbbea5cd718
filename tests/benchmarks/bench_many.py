"""What many states cost: a home of 10,000 of them, and a line of 1,000 cells.

    .venv/bin/python -m tests.benchmarks.bench_many

The two sides of a ratio are measured in turns. The 10,000 states are made by the store itself, as cells would have
made them: each changes one of 50 variables of the one before.
"""

from __future__ import annotations

import contextlib
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from bridge.store.home import Home
from bridge.store.manifest import Manifest, Unit
from bridge.store.store import Store
from tests.benchmarks.bench_bridge import TINY, Line, Row, alternating, print_table, ratio, timed
from tests.support import Server

STATES = 10_000
NAMES = 50
DEPTH = 1000
PAGE = 100


def unit(name: str, number: int) -> Unit:
    """What a cell leaves of a variable: a record as the kernels write them, with a small pickle."""
    record = {
        "roots": [name],
        "nodes": [],
        "refs": [],
        "meta": {name: ["int", str(number)]},
        "engine": "dill",
    }
    return Unit(name, f"{name} {number}", (name,), record, b"pickle of %d" % number, (), 16)


def fill(path: Path, count: int) -> None:
    """A home with a line of so many states in the workspace `old`, every tenth with a blob of its own."""
    home = Home.open(path)
    store = Store(home)
    store.open_workspace("old")
    units = {f"v{number}": unit(f"v{number}", 0) for number in range(NAMES)}
    parent = inputs = None
    for number in range(count):
        name = f"v{number % NAMES}"
        blobs = (store.blobs.put(b"%d" % number * 2000),) if number % 10 == 0 else ()
        made = unit(name, number)
        units[name] = Unit(made.key, made.digest, made.names, made.record, made.data, blobs, made.size)
        state = store.put(
            "old",
            f"s{number}",
            parent=parent,
            code=f"{name} = {number}",
            inputs=inputs,
            info={"execution_count": number + 1, "seed": 1},
            manifest=Manifest(units, tuple(units)),
            cell=f"{name} = {number}",
        )
        parent, inputs = state.id, state.inputs
    store.close()
    home.close()


def start(home: Path, workspace: str) -> tuple[float, float]:
    """Milliseconds from a server's start to its first answer and to its first cell."""
    server = Server(home=home, workspace=workspace, pool_size=1)
    try:
        line = Line(server.ready())
        line.ask("GET", "/states")
        answer = (time.monotonic() - server.started) * 1000
        line.execute(TINY)
        cell = (time.monotonic() - server.started) * 1000
        line.connection.close()
        return answer, cell
    finally:
        server.close()


def beside_many(folder: Path) -> Iterator[Row]:
    """Start, list, execute and delete in a home of many states against an empty one."""
    full, empty = folder / "full", folder / "empty"
    began = time.monotonic()
    fill(full, STATES)
    size = written_back(full)
    yield (
        f"{STATES:,} states of {NAMES} variables, made by the store",
        f"{time.monotonic() - began:.1f} s",
        "",
        f"{size / STATES / 1000:.1f} kB each",
        "",
    )
    starts: list[tuple[list[float], list[float]]] = [([], []), ([], [])]
    for _turn in range(5):
        for taken, (home, space) in zip(starts, ((full, "old"), (empty, "old")), strict=True):
            answer, cell = start(home, space)
            taken[0].append(answer)
            taken[1].append(cell)
    for what, index in (("start to first answer", 0), ("start to first cell", 1)):
        many, none = (statistics.median(side[index]) for side in starts)
        yield ratio(what, many, "an empty home", none, "<= 1.5 x")
    with contextlib.ExitStack() as stack:
        lines = []
        for home in (full, empty):
            server = Server(home=home, workspace="old", pool_size=1)
            stack.callback(server.close)
            lines.append(Line(server.ready()))
            stack.callback(lines[-1].connection.close)
        many, none = lines
        for line in lines:
            line.execute(TINY)
        page = f"/states?limit={PAGE}"
        rest = alternating(100, lambda: many.ask("GET", page), lambda: none.ask("GET", page))
        yield ratio(f"a list of {PAGE} of them", rest[0], "an empty home", rest[1], "<= 1.5 x")
        rest = alternating(100, lambda: many.ask("GET", "/states"), lambda: none.ask("GET", "/states"))
        yield ratio(f"the whole list, {STATES:,} names in it", rest[0], "an empty home", rest[1], "")
        rest = alternating(
            100, lambda: many.execute(TINY, "initial", "t"), lambda: none.execute(TINY, "initial", "t")
        )
        yield ratio("a tiny cell", rest[0], "an empty home", rest[1], "<= 1.5 x")
        rest = alternating(50, delete_one(many), delete_one(none))
        yield ratio("a state stored and deleted", rest[0], "an empty home", rest[1], "<= 1.5 x")
    before = written_back(full)
    home = Home.open(full)
    store = Store(home)
    store.clear("old")
    took = timed(lambda: store.collect(grace=0))
    store.close()
    home.close()
    yield (
        "all of them deleted and their space given back",
        f"{took:.0f} ms",
        f"of {before / 1e6:.1f} MB",
        f"{written_back(full) / 1e6:.2f} MB left",
        "",
    )


def delete_one(line: Line) -> Callable[[], None]:
    """Stores a state and deletes it."""

    def call() -> None:
        line.execute(TINY, "initial", "gone")
        line.ask("DELETE", "/states/gone")

    return call


def long_line(folder: Path, names: int) -> Iterator[Row]:
    """The thousandth cell of a line against its tenth, with so many variables, and what a cell adds to the home."""
    with contextlib.ExitStack() as stack:
        steps = []
        grown = []
        for depth in (DEPTH, 10):  # the short one last: an idle connection is closed by the server
            home = folder / f"line-{names}-{depth}"
            server = Server(home=home, pool_size=1)
            stack.callback(server.close)
            line = Line(server.ready())
            stack.callback(line.connection.close)
            many = line.execute(f"for i in range({names}): globals()[f'v{{i}}'] = i")["state_name"]
            steps.append(stepping(line, many))
            for _cell in range(10):
                steps[-1]()
            before = written_back(home)
            for _cell in range(depth - 10):
                steps[-1]()
            grown.append(written_back(home) - before)
        deep, shallow = alternating(100, *steps)
        yield ratio(f"cell {DEPTH:,} of a line, {names:,} variables", deep, "cell 10", shallow, "about 1 x")
        what = f"growth of the home by a cell that changes one of {names:,} variables"
        yield what, f"{grown[0] / (DEPTH - 10):,.0f} bytes", "", "", ""


def written_back(path: Path) -> int:
    """Bytes of a home whose log has been written back into the database."""
    home = Home.open(path)
    store = Store(home, housekeeping=False)
    store.collect()
    store.close()
    return home.size()


def stepping(line: Line, state: str) -> Callable[[], None]:
    """Runs one cell after the other, each from the state of the one before."""
    at, number = state, 0

    def call() -> None:
        nonlocal at, number
        number += 1
        at = line.execute(f"x = {number}", at)["state_name"]

    return call


def rows() -> Iterator[Row]:
    """Every figure, one after the other."""
    with tempfile.TemporaryDirectory() as name:
        yield from beside_many(Path(name))
        yield from long_line(Path(name), 1)
        yield from long_line(Path(name), 1000)


def main() -> None:
    """Measures and prints the table."""
    print_table(rows())


if __name__ == "__main__":
    main()
