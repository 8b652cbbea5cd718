"""A real server in a process of its own, and a small client for it: what the tests build upon."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import psutil

ROOT = Path(__file__).resolve().parent.parent
TOKEN = "a-token-for-tests"
MARK = "TEST_SERVER_MARK"
"""Environment variable that every process started (however indirectly) by a test's server carries."""


class Reply(NamedTuple):
    """One whole HTTP answer; `json` is None when the body is not JSON."""

    status: int
    json: Any
    headers: Mapping[str, str]
    body: bytes


class Client:
    """Sends requests with a server's token; every wait is bounded by `timeout` seconds.

    `get`, `post` and `delete` give `(status, json)`; `request` gives a whole `Reply`.
    """

    def __init__(self, url: str, token: str | None = TOKEN, timeout: float = 120) -> None:
        self.url = url
        self.token = token
        self.timeout = timeout

    def get(self, path: str, **query: Any) -> tuple[int, Any]:
        reply = self.request("GET", path, query=query)
        return reply.status, reply.json

    def post(self, path: str, body: Any = None, **query: Any) -> tuple[int, Any]:
        reply = self.request("POST", path, body, query=query)
        return reply.status, reply.json

    def delete(self, path: str, **query: Any) -> tuple[int, Any]:
        reply = self.request("DELETE", path, query=query)
        return reply.status, reply.json

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """One request; a `bytes` body goes as it is, anything else as JSON; `path` is percent-encoded."""
        url = self.url + path
        if query:
            url += "?" + urllib.parse.urlencode(query)
        sent = dict(headers or {})
        if self.token is not None:
            sent.setdefault("Authorization", f"Bearer {self.token}")
        data = body
        if body is not None and not isinstance(body, bytes):
            data = json.dumps(body).encode()
            sent.setdefault("Content-Type", "application/json")
        request = urllib.request.Request(url, data=data, headers=sent, method=method)
        try:
            with urllib.request.urlopen(request, timeout=self.timeout) as answer:
                return _reply(answer.status, dict(answer.headers), answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return _reply(error.code, dict(error.headers), error.read())

    def execute(
        self, code: str, state: str = "initial", new: str | None = None, **fields: Any
    ) -> dict[str, Any]:
        """The execution reply of `code` run from `state`; an `exec_id` is made up unless given."""
        body = {"code": code, "state_name": state, "exec_id": uuid.uuid4().hex, **fields}
        if new is not None:
            body["new_state_name"] = new
        status, reply = self.post("/execute", body)
        assert status == 200, reply
        assert isinstance(reply, dict)
        return reply

    def run(self, code: str, state: str = "initial", new: str | None = None, **fields: Any) -> dict[str, Any]:
        """As `execute`, for a cell that must not fail."""
        reply = self.execute(code, state, new, **fields)
        assert reply["error"] is None, "\n".join((str(reply["error"]), *reply["error"]["traceback"]))
        return reply


def _reply(status: int, headers: Mapping[str, str], body: bytes) -> Reply:
    parsed = None
    with contextlib.suppress(ValueError):
        parsed = json.loads(body)
    return Reply(status, parsed, headers, body)


def quote(name: str) -> str:
    """A state's or variable's name as it stands in a path."""
    return urllib.parse.quote(name, safe="")


def text_of(reply: Mapping[str, Any]) -> str:
    """All that an execution reply shows as text: streams, then results, in their order."""
    parts = []
    for item in reply["output"]:
        if item["output_type"] == "stream":
            parts.append(item["text"])
        elif item["output_type"] in ("execute_result", "display_data"):
            parts.append(item["data"].get("text/plain", ""))
    return "".join(parts)


class Server:
    """A server process with its output, from its start to its proven end.

    Flags are the command line's, with `_` for `-`; True gives a bare flag, None leaves one out. Without a
    `home` the server is ephemeral. `form` "bottle" starts it as `python -m bottle … main:app`; `through` is a
    command that becomes the one after it.
    """

    def __init__(
        self,
        *,
        form: str = "main",
        token: str | None = TOKEN,
        env: Mapping[str, str] | None = None,
        bind: str = "127.0.0.1:0",
        through: Sequence[str] = (),
        **flags: Any,
    ) -> None:
        self.token = token
        self.mark = uuid.uuid4().hex
        self.temp = Path(tempfile.mkdtemp(prefix="br-"))
        flags.setdefault("ephemeral", True if flags.get("home") is None else None)
        self.home: Path | None = flags.get("home")
        self.args = [*through, *command(form, bind, {"token": token, **flags})]
        self.started = time.monotonic()
        self.process = subprocess.Popen(
            self.args,
            cwd=ROOT,
            env={**os.environ, "TMPDIR": str(self.temp), MARK: self.mark, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.pid = self.process.pid
        self._lines: dict[str, list[str]] = {"stdout": [], "stderr": []}
        self._news = threading.Condition()
        self._readers = [
            threading.Thread(target=self._read, args=(name,), daemon=True) for name in ("stdout", "stderr")
        ]
        for reader in self._readers:
            reader.start()
        self.url = ""

    def ready(self, timeout: float = 30) -> Server:
        """Waits for the line that gives the address."""
        found = self.wait_for_line(r"(https?://[^\s/?]+)(?:/\?token=(\S+))?", timeout)
        self.url = found.group(1)
        if self.token is None:
            self.token = found.group(2)
        return self

    @property
    def client(self) -> Client:
        return Client(self.url, self.token)

    @property
    def stdout(self) -> str:
        return "".join(self._lines["stdout"])

    @property
    def stderr(self) -> str:
        return "".join(self._lines["stderr"])

    def wait_for_line(self, pattern: str, timeout: float = 30) -> re.Match[str]:
        """The first match of `pattern` in standard output."""
        deadline = time.monotonic() + timeout
        with self._news:
            while True:
                for line in self._lines["stdout"]:
                    found = re.search(pattern, line)
                    if found:
                        return found
                left = deadline - time.monotonic()
                if left <= 0 or not self._readers[0].is_alive():
                    raise AssertionError(
                        f"{self.args} did not print {pattern!r}; it printed {self.stdout!r}, {self.stderr!r}"
                    )
                self._news.wait(min(left, 0.2))

    def processes(self) -> list[psutil.Process]:
        """Every live process that the server started, however indirectly, and itself."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get(MARK) == self.mark and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    def wait(self, timeout: float = 10) -> int:
        """The exit code, once the process has ended."""
        code = self.process.wait(timeout)
        for reader in self._readers:
            reader.join(timeout)
        return code

    def stop(self, sig: int = signal.SIGTERM, timeout: float = 10) -> int:
        """Ends the server by a signal and gives its exit code; `check_gone` says what must be gone then."""
        if self.process.poll() is None:
            self.process.send_signal(sig)
        return self.wait(timeout)

    def check_gone(self, timeout: float = 3) -> None:
        """Fails unless, within `timeout` seconds, no process and no temporary file of the server is left."""
        deadline = time.monotonic() + timeout
        while (left := self.processes()) and time.monotonic() < deadline:
            psutil.wait_procs(left, timeout=0.05)
        assert not left, f"still there: {[(p.pid, p.cmdline()) for p in left]}"
        files = sorted(str(path) for path in self.temp.rglob("*"))
        assert not files, f"temporary files left: {files}"

    def discard(self) -> None:
        """Ends whatever is still there, by force, so that one failing test does not cost the others."""
        for process in self.processes():
            with contextlib.suppress(psutil.Error):
                process.kill()
        self.process.kill()
        self.wait()
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()
        shutil.rmtree(self.temp, ignore_errors=True)

    def close(self) -> None:
        """Stops the server and fails if it leaves anything behind."""
        try:
            if self.process.poll() is None:
                self.stop()
                self.check_gone()
        finally:
            self.discard()

    def _read(self, name: str) -> None:
        stream = getattr(self.process, name)
        for line in stream:
            with self._news:
                self._lines[name].append(line.decode())
                self._news.notify_all()


def command(form: str, bind: str, flags: Mapping[str, Any]) -> list[str]:
    """The command line that starts a server in one of its two documented forms."""
    given = {
        name.replace("_", "-"): value
        for name, value in flags.items()
        if value is not None and value is not False
    }
    if form == "main":
        words = [f"--{name}" if value is True else f"--{name}={value}" for name, value in given.items()]
        return [sys.executable, "main.py", "--bind", bind, *words]
    assert form == "bottle", form
    words = []
    for name, value in given.items():
        words += ["--param", name if value is True else f"{name}={value}"]
    return [sys.executable, "-m", "bottle", "--bind", bind, "--server", "cheroot", *words, "main:app"]
