"""Bridge kernels started as a front end starts them, and what they say to one."""

from __future__ import annotations

import contextlib
import os
import queue
import sys
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import KernelManager

WAIT = 60.0
"""Seconds that any one answer may take."""


@dataclass
class Run:
    """What a front end saw of one cell."""

    reply: dict[str, Any]
    messages: list[dict[str, Any]] = field(default_factory=list)

    def text(self, name: str = "stdout") -> str:
        """What one stream brought."""
        return "".join(
            m["content"]["text"]
            for m in self.messages
            if m["msg_type"] == "stream" and m["content"]["name"] == name
        )

    def result(self) -> str | None:
        """The value shown as `Out`."""
        return next(
            (m["content"]["data"]["text/plain"] for m in self.messages if m["msg_type"] == "execute_result"),
            None,
        )

    def errors(self) -> list[str]:
        """The names of the error outputs."""
        return [m["content"]["ename"] for m in self.messages if m["msg_type"] == "error"]


class Notebook:
    """A front end with one kernel; `plain` has ipykernel alone behind it."""

    def __init__(self, manager: KernelManager, env: Mapping[str, str]) -> None:
        self.manager = manager
        self._env = env
        self.runs: defaultdict[str, Run] = defaultdict(lambda: Run({}))
        self._idle: set[str] = set()
        self.client = self._connect()

    def _connect(self) -> BlockingKernelClient:
        client: BlockingKernelClient = self.manager.client()
        client.start_channels()
        client.wait_for_ready(timeout=WAIT)
        return client

    def restart(self) -> None:
        """Restart as JupyterLab does: the process ends and another one begins."""
        self.client.stop_channels()
        self.manager.restart_kernel(now=False, env=dict(self._env))
        self.runs.clear()  # the new client counts its messages anew
        self._idle.clear()
        self.client = self._connect()

    def send(self, code: str, cell_id: str | None = None, **content: Any) -> str:
        """Send a cell; its message id."""
        fields = {
            "code": code,
            "silent": False,
            "store_history": True,
            "user_expressions": {},
            "allow_stdin": True,
            "stop_on_error": True,
            **content,
        }
        message = self.client.session.msg("execute_request", fields)
        if cell_id is not None:
            message["metadata"]["cellId"] = cell_id
        self.client.shell_channel.send(message)
        return str(message["header"]["msg_id"])

    def finish(self, msg_id: str, answer: Callable[[str], str] | None = None) -> Run:
        """All that comes of a cell, to its reply and its idle; what comes of others is kept for theirs."""
        end = time.monotonic() + WAIT
        while not (msg_id in self._idle and self.runs[msg_id].reply):
            assert time.monotonic() < end, self.runs[msg_id]
            self.take("iopub", 0.02)
            self.take("shell", 0)
            prompt = self.take("stdin", 0)
            if prompt is not None and answer is not None:
                self.client.input(answer(prompt["content"]["prompt"]))
        return self.runs[msg_id]

    def take(self, channel: str, timeout: float) -> dict[str, Any] | None:
        """The next message of a channel, noted with what it belongs to; None when there is none."""
        try:
            message: dict[str, Any] = getattr(self.client, f"{channel}_channel").get_msg(timeout=timeout)
        except queue.Empty:
            return None
        parent = str(message["parent_header"].get("msg_id"))
        if channel in ("shell", "control"):
            self.runs[parent].reply = message["content"]
        elif channel == "iopub":
            self.runs[parent].messages.append(message)
            if message["content"].get("execution_state") == "idle":
                self._idle.add(parent)
        return message

    def run(self, code: str, cell_id: str | None = None, **content: Any) -> Run:
        """Run a cell to its end."""
        return self.finish(self.send(code, cell_id, **content))

    def value(self, code: str) -> str:
        """What an expression gives, as text."""
        run = self.run(code)
        assert run.reply["status"] == "ok", run
        return run.result() or run.text()

    def shown(self, code: str) -> str:
        """The text of the first thing that a cell displays."""
        run = self.run(code)
        found = [m["content"]["data"]["text/plain"] for m in run.messages if m["msg_type"] == "display_data"]
        assert found, run
        return str(found[0])

    def ask(self, kind: str, content: dict[str, Any], channel: str = "shell") -> dict[str, Any]:
        """The content of the reply to any other request."""
        message = self.client.session.msg(kind, content)
        getattr(self.client, f"{channel}_channel").send(message)
        asked = self.runs[message["header"]["msg_id"]]
        end = time.monotonic() + WAIT
        while not asked.reply:
            assert time.monotonic() < end, (kind, asked)
            self.take(channel, 0.05)
        return asked.reply

    def close(self) -> None:
        """End the kernel as a front end does."""
        self.client.stop_channels()
        if self.manager.has_kernel:
            self.manager.shutdown_kernel(now=False)
        self.manager.context.term() if self.manager._created_context else None


@contextlib.contextmanager
def notebook(
    home: Path,
    *flags: str,
    plain: bool = False,
    name: str | None = None,
    env: Mapping[str, str] | None = None,
) -> Iterator[Notebook]:
    """A bridge kernel on this home; `name` is the notebook's path. `plain`: ipykernel in its place."""
    argv = [
        sys.executable,
        "-m",
        "ipykernel_launcher" if plain else "bridge.jupyter",
        "-f",
        "{connection_file}",
    ]
    if not plain:
        argv += ["--home", str(home), *flags]
    spec = KernelSpec(argv=argv, display_name="test", language="python", interrupt_mode="message")

    class One(KernelSpecManager):
        def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
            return spec

    variables = {**os.environ, "JPY_PARENT_PID": str(os.getpid()), **(env or {})}
    variables.pop("PYTEST_CURRENT_TEST", None)
    if name is not None:
        variables["JPY_SESSION_NAME"] = name
    file = home / f"connection-{uuid.uuid4().hex}.json"
    manager = KernelManager(kernel_name="test", kernel_spec_manager=One(), connection_file=str(file))
    manager.start_kernel(env=variables)
    made = Notebook(manager, variables)
    try:
        yield made
    finally:
        made.close()
