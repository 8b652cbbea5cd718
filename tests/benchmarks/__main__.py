"""Whole workloads on our server, on a bare ipykernel and on the public peer: one run, one table.

    make bench          or          .venv/bin/python -m tests.benchmarks [--json FILE] [--only GROUP]

The bare kernel and ours run in turns, so that whatever else the machine does meets both; the peer, which copies all
that there is at every cell and so empties the machine's caches, takes its rounds of the same cells after theirs. Times
are medians in milliseconds, those of loops the means of the medians under several hash seeds. The peer comes from the
package index, into an environment of its own.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import functools
import json
import mmap
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

from tests.benchmarks import bench_forks, workloads
from tests.benchmarks.bench_bridge import timed
from tests.benchmarks.sides import PEER, Bare, Ours, Peer, Side, memory_of, rest
from tests.concurrency import Flag, background
from tests.environments import environment

SIDES = ("bare", "peer", "ours")
_GB = 1e9
_AT_HAND = 256 << 20  # bytes of memory that no cell of a line takes all of


@dataclass(frozen=True)
class Row:
    """One line of the table: the figures of the sides that have one, in `unit`, and our bar.

    A bar is a ratio to the bare figure ("x 1.3"), an amount over it ("+ 100"), or a figure ("<= 500").
    """

    what: str
    figures: Mapping[str, float]
    bar: str = ""
    unit: str = "ms"

    def is_met(self) -> bool | None:
        """Whether our figure keeps to the bar; None where there is none."""
        if not self.bar:
            return None
        kind, amount = self.bar.split()
        ours = self.figures["ours"]
        if kind == "<=":
            return ours <= float(amount)
        bare = self.figures["bare"]
        return ours <= (bare * float(amount) if kind == "x" else bare + float(amount))

    def text(self) -> str:
        """The row in Markdown."""
        places = 1 if self.unit == "ms" else 2
        ours, bare = self.figures["ours"], self.figures.get("bare")
        shown = [f"{self.figures[side]:,.{places}f}" if side in self.figures else "–" for side in SIDES]
        over = "" if bare is None else f"× {ours / bare:.2f}, {ours - bare:+,.{places}f}"
        bar = self.bar.replace("x", "×").replace("<=", "≤") + (
            "" if self.is_met() in (True, None) else ", missed"
        )
        what = self.what if self.unit == "ms" else f"{self.what}, {self.unit}"
        return f"| {' | '.join((what, *shown, over, bar))} |"


HEAD = (
    "| median per cell, ms | bare ipykernel | snapshot-kernel 0.2.1 | ours | ours to bare | bar |\n"
    "|---|--:|--:|--:|--:|--:|"
)

Sides = dict[str, Side]
Starts = dict[str, Callable[[], Side]]


@contextlib.contextmanager
def started(start: Starts) -> Iterator[Sides]:
    """All sides, answering, and at rest after their first cell."""
    with contextlib.ExitStack() as stack:
        sides = {}
        for name, make in start.items():
            sides[name] = make()
            stack.callback(sides[name].close)
            sides[name].answer()
            sides[name].execute(workloads.TINY, "initial")
        for side in sides.values():
            rest(side.process)
        yield sides


def cells(start: Starts) -> Iterator[Row]:
    """The medians of each line of cells."""
    with started(start) as sides:
        for workload in workloads.CHAINS:
            touch_memory()
            yield Row(workload.what, line(sides, workload), workload.bar)


def line(sides: Sides, workload: workloads.Workload) -> dict[str, float]:
    """The median of each side for a line of cells; all sides forget it afterwards."""
    states = {name: side.execute(workload.setup, "initial") for name, side in sides.items()}
    taken: dict[str, list[float]] = {name: [] for name in sides}
    for number, name in in_turn(list(sides), workload):
        if workload.bar.startswith("+"):  # cells that take new memory
            touch_memory(_AT_HAND)
        begin = time.perf_counter()
        states[name] = sides[name].execute(workload.cell.format(n=number), states[name])
        taken[name].append((time.perf_counter() - begin) * 1000)
    reset(sides)
    # The first round is the first look at new data: it is not what a cell costs from then on.
    return {name: statistics.median(times[1:]) for name, times in taken.items()}


def loops(start: Starts) -> Iterator[Row]:
    """The means, over several hash seeds, of the medians of each loop."""
    found: dict[workloads.Workload, list[dict[str, float]]] = {each: [] for each in workloads.LOOPS}
    usual = os.environ["PYTHONHASHSEED"]
    for seed in workloads.SEEDS:
        os.environ["PYTHONHASHSEED"] = str(seed)
        with started(start) as sides:
            for workload, medians in found.items():
                medians.append(line(sides, workload))
    os.environ["PYTHONHASHSEED"] = usual
    for workload, medians in found.items():
        means = {side: statistics.mean(each[side] for each in medians) for side in start}
        yield Row(workload.what, means, workload.bar)


def branches(start: Starts) -> Iterator[Row]:
    """The median of a cell of one of several lines from one state, which take turns; the bare kernel has one line."""
    cell = workloads.BRANCH
    with started(start) as sides:
        for count in (4, 8):
            medians = {}
            for name, side in sides.items():
                lines, times = [side.execute(workloads.ARRAY, "initial")] * count, []
                for number in range(4 * count):
                    begin = time.perf_counter()
                    lines[number % count] = side.execute(cell.format(n=number), lines[number % count])
                    times.append((time.perf_counter() - begin) * 1000)
                medians[name] = statistics.median(times)
            reset(sides)
            what = f"one of {count} branches from the 512 MB state, switch and cell"
            yield Row(what, medians, workloads.BRANCH_BAR)


def touch_memory(limit: int = 4 << 30) -> None:
    """Have up to so many bytes of the machine's free memory at hand.

    A virtual machine gets its pages one by one, and may give back those that were free for some seconds. What they cost
    would meet whichever side allocates next.
    """
    size = min(limit, psutil.virtual_memory().available // 4)
    mmap.mmap(
        -1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_POPULATE", 0)
    ).close()


def in_turn(names: list[str], workload: workloads.Workload) -> Iterator[tuple[int, str]]:
    """The numbers of the rounds, and whose turn it is: the peer's after all those of the others.

    These begin forwards and backwards in turns, so that what one does to the caches meets the other alike. Where they
    are compared by a ratio they have thrice as many rounds; the peer keeps a copy of everything for each of its own.
    """
    others = [name for name in names if name != "peer"]
    for number in range(workload.rounds * (3 if workload.bar.startswith("x") else 1)):
        yield from ((number, name) for name in others[:: -1 if number % 2 else 1])
    yield from ((number, "peer") for number in range(workload.rounds) if "peer" in names)


def reset(sides: Sides) -> None:
    """Let all sides forget."""
    for side in sides.values():
        side.reset()


def starting(start: Starts) -> Iterator[Row]:
    """From a side's start to its first answers; medians of three starts."""
    taken: dict[str, list[list[float]]] = {name: [] for name in start}
    for _turn in range(3):
        for name, make in start.items():
            begin = time.perf_counter()
            side = make()
            try:
                steps = (
                    side.answer,
                    lambda side=side: side.execute(workloads.TINY, "initial"),
                    lambda side=side: side.execute(workloads.PANDAS, "initial"),
                )
                taken[name].append([timed(step) and (time.perf_counter() - begin) * 1000 for step in steps])
            finally:
                side.close()
    bars = {"first answer": "<= 500", "first cell": "<= 1500", "first pandas cell": ""}
    for number, (what, bar) in enumerate(bars.items()):
        medians = {name: statistics.median(turn[number] for turn in turns) for name, turns in taken.items()}
        yield Row(f"start to {what}", medians, bar)


def memory(start: Starts) -> Iterator[Row]:
    """What the processes and files of each side take after 14 states of the 512 MB array."""
    sizes, files = {}, {}
    for name, make in start.items():
        side = make()
        try:
            side.answer()
            state = "initial"
            for cell in workloads.MEMORY:
                state = side.execute(cell, state)
            sizes[name], files[name] = memory_of(side.process) / _GB, side.disk() / _GB
        finally:
            side.close()
    yield Row("memory of all processes after 14 states of the 512 MB array", sizes, "<= 1.2", "GB")
    yield Row("disk after them", {"ours": files["ours"]}, "<= 1.1", "GB")

    readers = {"bare": memory_of_readers(1), "ours": memory_of_readers(8)}
    yield Row(
        "eight kernels that have read all of one such state, beside one of ours", readers, "+ 0.9", "GB"
    )


def memory_of_readers(count: int) -> float:
    """GB of a server's processes while so many kernels have read all of the array of one state."""
    ours = Ours(pool_size=count)
    with tempfile.TemporaryDirectory() as folder, contextlib.closing(ours):
        ours.answer()
        state = ours.execute(workloads.ARRAY, "initial")
        go, flags = Flag(Path(folder)), [Flag(Path(folder)) for _kernel in range(count)]
        client = ours.server.client
        codes = [f"{workloads.READ}\n{flag.raising}\n{go.waiting}" for flag in flags]
        running = [background(client.run, code, state) for code in codes]
        for flag in flags:
            flag.wait()
        size = memory_of(ours.process) / _GB
        go.raise_()
        for each in running:
            each.result(60)
    return size


def queries(start: Starts) -> Iterator[Row]:
    """Alias groups and hashes, asked for the first time and again."""
    with started({name: make for name, make in start.items() if name != "bare"}) as sides:
        for what, (setup, names) in workloads.QUERIES.items():
            states = {name: side.execute(setup, "initial") for name, side in sides.items()}
            asks: dict[str, dict[str, Any]] = {"/alias_groups": {}, "/symbol_hashes": {"symbols": names}}
            for path, fields in asks.items():
                for when in ("first", "again"):
                    taken = {}
                    for name, side in sides.items():
                        body = {"state_name": states[name], **fields}
                        taken[name] = timed(functools.partial(side.ask, "POST", path, body))
                    yield Row(f"{path} of {what}, {when}", taken)
            reset(sides)


GROUPS = {
    "cells": cells,
    "loops": loops,
    "branches": branches,
    "start": starting,
    "memory": memory,
    "queries": queries,
}


def main() -> None:
    """Print the table, and write the figures to a file when one is named."""
    parser = argparse.ArgumentParser(prog="tests.benchmarks", description=__doc__.partition("\n")[0])
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the figures here too")
    parser.add_argument("--only", choices=(*GROUPS, "forks"), help="measure this group of rows alone")
    options = parser.parse_args()
    os.environ.setdefault(
        "PYTHONHASHSEED", "0"
    )  # for all sides: it decides how fast a namespace's names are found
    machine = f"{os.cpu_count()} cores, Python {platform.python_version()}, {datetime.date.today()}"
    print(f"{machine}, load {os.getloadavg()[0]:.1f}\n", flush=True)
    if options.only != "forks":
        print(HEAD, flush=True)
    found, forks = [], []
    with tempfile.TemporaryDirectory() as folder:
        environment(Path(folder), PEER)
        start: Starts = {"bare": Bare, "peer": functools.partial(Peer, Path(folder)), "ours": Ours}
        for name, group in GROUPS.items():
            for row in group(start) if options.only in (None, name) else ():
                print(row.text(), flush=True)
                found.append({**asdict(row), "met": row.is_met()})
    if options.only in (None, "forks"):
        print()
        forks = [asdict(row) for row in bench_forks.main()]
    if options.json is not None:
        options.json.write_text(json.dumps({"machine": machine, "rows": found, "forks": forks}, indent=1))


if __name__ == "__main__":
    main()
