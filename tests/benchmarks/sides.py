"""The three sides of the comparison: a bare ipykernel, the public peer `snapshot-kernel`, and ours.

Each is a process (with those that it starts), and is asked alike: run this cell from that state.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import psutil

from tests.bare import BareKernel, bare_kernel
from tests.benchmarks.bench_bridge import Line, ask
from tests.environments import environment
from tests.support import Server

PEER = ("snapshot-kernel==0.2.1", "numpy", "pandas", "setuptools")
TOKEN = "bench"
START_SECONDS = 60.0
REST_SECONDS = 1.0
"""A side that used a fiftieth of this time, or less, in that time is at rest."""


class Side(Protocol):
    """One side, started and not yet waited for."""

    @property
    def process(self) -> psutil.Process:
        """Its first process, which started the others."""

    def answer(self) -> None:
        """Wait for the first answer to anything."""

    def execute(self, code: str, state: str) -> str:
        """Run a cell that must not fail from a state; the name of the state that it leaves."""

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """The JSON that a request to its REST API gives."""

    def reset(self) -> None:
        """Forget all states."""

    def disk(self) -> int:
        """Bytes of its files."""

    def close(self) -> None:
        """End it."""


class Bare:
    """ipykernel and jupyter_client alone. It has one namespace, whatever state is named."""

    def __init__(self) -> None:
        self._stack = contextlib.ExitStack()
        self._kernel: BareKernel = self._stack.enter_context(bare_kernel())

    def answer(self) -> None:
        """Nothing: what starts a BareKernel has waited for it."""

    def execute(self, code: str, state: str) -> str:
        outputs = self._kernel.run(code, timeout=600)
        assert all(item["output_type"] != "error" for item in outputs), outputs
        return state

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        raise NotImplementedError("a bare kernel has no REST API")

    def reset(self) -> None:
        self._kernel.run("%reset -f")

    @property
    def process(self) -> psutil.Process:
        return psutil.Process(self._kernel.manager.provisioner.pid)  # type: ignore[union-attr]

    def disk(self) -> int:
        return 0

    def close(self) -> None:
        self._stack.close()


class Peer:
    """The peer's server, from an environment of its own in `folder`, which is made once."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        command = [str(environment(folder, PEER)), "-m", "snapshot_kernel.main"]
        command += ["--bind", f"127.0.0.1:{self.port}", "--token", TOKEN]
        self._server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)

    def answer(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                self.ask("GET", "/states")
                return
            except OSError:
                if time.monotonic() > deadline:
                    raise
                self.connection.close()

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        headers = {"Content-Type": "application/json"}
        return ask(self.connection, method, f"{path}?token={TOKEN}", body, headers)

    def execute(self, code: str, state: str) -> str:
        body = {"code": code, "exec_id": uuid.uuid4().hex, "state_name": state}
        reply = self.ask("POST", "/execute", body)
        assert reply["error"] is None, reply["error"]
        return str(reply["state_name"])

    def reset(self) -> None:
        self.ask("POST", "/reset", {})

    @property
    def process(self) -> psutil.Process:
        return psutil.Process(self._server.pid)

    def disk(self) -> int:
        return 0

    def close(self) -> None:
        self.connection.close()
        self._server.kill()
        self._server.wait()


class Ours:
    """Our server as it is by default, its home in a temporary folder; `flags` are the command line's."""

    def __init__(self, **flags: Any) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="bench-")
        self.home = Path(self._folder.name)
        self.server = Server(home=self.home, **flags)

    def answer(self) -> None:
        self.line = Line(self.server.ready())
        self.line.ask("GET", "/states")

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        return self.line.ask(method, path, body)

    def execute(self, code: str, state: str) -> str:
        return str(self.line.execute(code, state)["state_name"])

    def reset(self) -> None:
        self.ask("POST", "/reset")

    @property
    def process(self) -> psutil.Process:
        return psutil.Process(self.server.pid)

    def disk(self) -> int:
        return sum(path.stat().st_blocks * 512 for path in self.home.rglob("*") if path.is_file())

    def close(self) -> None:
        self.line.connection.close()
        self.server.close()
        self._folder.cleanup()


def memory_of(root: psutil.Process) -> int:
    """The proportional set size of a process and all that it started, in bytes."""
    return int(_sum(root, lambda process: process.memory_full_info().pss))


def rest(root: psutil.Process) -> None:
    """Wait until a process and all that it started do nothing: some go on starting after their first answers."""
    deadline, before = time.monotonic() + START_SECONDS, -1.0
    while (used := _sum(root, lambda process: sum(process.cpu_times()[:2]))) - before > REST_SECONDS / 50:
        if time.monotonic() > deadline:
            raise TimeoutError(f"process {root.pid} does not come to rest")
        before = used
        time.sleep(REST_SECONDS)


def _sum(root: psutil.Process, of: Callable[[psutil.Process], float]) -> float:
    total = 0.0
    for process in (root, *root.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            total += of(process)
    return total
