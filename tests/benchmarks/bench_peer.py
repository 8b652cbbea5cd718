"""Whole workloads beside a bare ipykernel and beside the public peer, `snapshot-kernel`: one run, one table.

    .venv/bin/python -m tests.benchmarks.bench_peer [--json FILE]          (or `make bench`)

Each workload is a line of cells, every one from the state that the one before it left; the three sides run in turns.
Times are medians in milliseconds. The peer comes from the package index, into an environment of its own.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import http.client
import json
import socket
import statistics
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bare import BareKernel, bare_kernel
from tests.benchmarks.bench_bridge import Line, timed
from tests.environments import environment
from tests.support import Server

PEER = ("snapshot-kernel==0.2.1", "numpy", "pandas", "setuptools")
TOKEN = "bench"
LISTS = "d = {n: [n] for n in range(300_000)}"
ARRAY = "import numpy as np\na = np.ones(64 * 1024 * 1024)"
FRAME = (
    "import numpy as np, pandas as pd\n"
    "df = pd.DataFrame({c: np.arange(2_000_000) * 1.5 for c in 'abcde'})\n"
    "df['s'] = np.array(['one', 'two', 'three', 'four'])[np.arange(2_000_000) % 4]"
)
FIFTY = (
    f"import numpy as np\n{', '.join(f'a{n}' for n in range(50))} = [np.ones(1 << 20) for _n in range(50)]"
)
POINTS = "class P:\n    def __init__(self, v): self.v = v\nps = [P(n) for n in range(100_000)]"


@dataclass(frozen=True)
class Workload:
    """A cell that sets up, and one that is timed; `{n}` in it is the round's number. `bar` is over the bare cell."""

    what: str
    setup: str
    cell: str
    rounds: int
    bar: str


WORKLOADS = (
    Workload("tiny cell", "x = 0", "x = {n}", 50, "x 1.3"),
    Workload("cell beside an untouched 512 MB array", ARRAY, "x = {n}", 7, "x 1.3"),
    Workload("a[0] += 1 on it", ARRAY, "a[0] += 1", 7, "+ 100 ms"),
    Workload("one of 50 arrays of 8 MB changed", FIFTY, "a{n}[0] += 1", 7, "+ 10 ms"),
    Workload("2M x 6 DataFrame, a column changed", FRAME, "df['c'] = df['c'] + 1", 5, "+ 40 ms"),
    Workload("cell beside an untouched dict of 300,000 lists", LISTS, "x = {n}", 7, "x 1.3"),
    Workload("d[0].append(1) on it", LISTS, "d[0].append(1)", 5, "+ 250 ms"),
    Workload("100,000 instances, one touched", POINTS, "ps[0].v += 1", 5, "+ 250 ms"),
    Workload("a million-turn loop", "t = 0", "for i in range(1_000_000):\n    if i & 1: t += i", 5, "x 1.05"),
)
QUERIES = {"300,000 small lists in a dict": (LISTS, ["d"]), "2M x 6 DataFrame with strings": (FRAME, ["df"])}


class Peer:
    """The peer's server in a process of its own."""

    def __init__(self, folder: Path) -> None:
        python = environment(folder, PEER)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        command = [
            str(python),
            "-m",
            "snapshot_kernel.main",
            "--bind",
            f"127.0.0.1:{self.port}",
            "--token",
            TOKEN,
        ]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self._wait()
        self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)

    def _wait(self) -> None:
        deadline = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                if time.monotonic() > deadline:
                    raise

    def ask(self, path: str, body: dict[str, Any]) -> Any:
        headers = {"Content-Type": "application/json"}
        self.connection.request("POST", f"{path}?token={TOKEN}", json.dumps(body), headers)
        answer = self.connection.getresponse()
        data = answer.read()
        assert answer.status == 200, data
        return json.loads(data)

    def execute(self, code: str, state: str) -> str:
        reply = self.ask("/execute", {"code": code, "exec_id": uuid.uuid4().hex, "state_name": state})
        assert reply["error"] is None, reply["error"]
        return str(reply["state_name"])

    def close(self) -> None:
        self.connection.close()
        self.process.kill()
        self.process.wait()


class Ours:
    """Our server, asked as the peer is."""

    def __init__(self) -> None:
        self.server = Server(pool_size=1)
        self.line = Line(self.server.ready())

    def ask(self, path: str, body: dict[str, Any]) -> Any:
        return self.line.ask("POST", path, body)

    def execute(self, code: str, state: str) -> str:
        return str(self.line.execute(code, state)["state_name"])

    def close(self) -> None:
        self.line.connection.close()
        self.server.close()


def chain(side: Peer | Ours, workload: Workload) -> Callable[[int], float]:
    """Runs the set-up; gives what times the cell of one round."""
    state = side.execute(workload.setup, "initial")

    def step(number: int) -> float:
        nonlocal state
        start = time.perf_counter()
        state = side.execute(workload.cell.format(n=number), state)
        return (time.perf_counter() - start) * 1000

    return step


def measure(workload: Workload, peer: Peer, ours: Ours, bare: BareKernel) -> dict[str, Any]:
    """The medians of one workload."""
    bare.run(workload.setup)
    steps = {
        "bare": lambda number: timed(lambda: bare.run(workload.cell.format(n=number))),
        "peer": chain(peer, workload),
        "ours": chain(ours, workload),
    }
    taken: dict[str, list[float]] = {name: [] for name in steps}
    for number in range(workload.rounds):
        for name, step in steps.items():
            taken[name].append(step(number))
    peer.ask("/reset", {})
    bare.run("%reset -f")
    # The first round is the first look at new data: it is not what a cell costs from then on.
    medians = {name: statistics.median(times[1:]) for name, times in taken.items()}
    return {"what": workload.what, **medians, "bar": workload.bar}


def queries(peer: Peer, ours: Ours) -> Iterator[dict[str, Any]]:
    """Alias groups and hashes, asked for the first time and again."""
    for what, (setup, names) in QUERIES.items():
        sides = {"peer": peer, "ours": ours}
        states = {name: side.execute(setup, "initial") for name, side in sides.items()}
        asks: dict[str, dict[str, Any]] = {"/alias_groups": {}, "/symbol_hashes": {"symbols": names}}
        for path, fields in asks.items():
            for when in ("first", "again"):
                times = {
                    name: timed(functools.partial(side.ask, path, {"state_name": states[name], **fields}))
                    for name, side in sides.items()
                }
                yield {"what": f"{path} of {what}, {when}", "bare": None, **times, "bar": "below the peer"}
        peer.ask("/reset", {})


def rows() -> Iterator[dict[str, Any]]:
    """Every figure, one after the other."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        peer = Peer(folder / "peer")
        stack.callback(peer.close)
        ours = Ours()
        stack.callback(ours.close)
        bare = stack.enter_context(bare_kernel())
        for workload in WORKLOADS:
            yield measure(workload, peer, ours, bare)
        yield from queries(peer, ours)


def main(json_file: str | None = None) -> None:
    """Print the table, and write the figures to a file when one is named."""
    print("| workload | bare ipykernel, ms | snapshot-kernel, ms | ours, ms | ours / bare | bar |")
    print("|---|---|---|---|---|---|", flush=True)
    found = []
    for row in rows():
        found.append(row)
        bare = "" if row["bare"] is None else f"{row['bare']:.1f}"
        over = (
            ""
            if row["bare"] is None
            else f"x {row['ours'] / row['bare']:.2f}, + {row['ours'] - row['bare']:.1f}"
        )
        cells = (row["what"], bare, f"{row['peer']:.1f}", f"{row['ours']:.1f}", over, row["bar"])
        print("|", " | ".join(cells), "|", flush=True)
    if json_file is not None:
        Path(json_file).write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", metavar="FILE", help="write the figures here too")
    main(parser.parse_args().json)
