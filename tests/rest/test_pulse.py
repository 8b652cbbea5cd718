"""Answers that take long, without a clock: the work ends when the test says so."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from bridge.errors import ShuttingDown
from bridge.rest.pulse import Answer, Pulse
from bridge.rest.replies import dump
from tests.concurrency import background, until

SOON = 30.0
OFTEN = 0.001
HEADERS = [("Content-Type", "application/json")]


class Client:
    """What a WSGI server sends on: the statuses that were begun, and the body so far. `leave` ends the connection."""

    def __init__(self) -> None:
        self.begun: list[tuple[str, Any]] = []
        self.body = b""
        self.gone = False
        self.refused = threading.Event()
        self.answer = Answer(self._start)

    def _start(self, status: str, headers: Any, exc_info: Any = None, /) -> Callable[[bytes], object]:
        self.begun.append((status, headers))
        return self._write

    def _write(self, data: bytes) -> None:
        if self.gone:
            self.refused.set()
            raise BrokenPipeError
        self.body += data

    def beats(self, count: int) -> None:
        until(lambda: len(self.body) >= count, f"{count} signs of life")


@pytest.fixture
def pulse() -> Iterator[Pulse]:
    pulse = Pulse()
    yield pulse
    assert not pulse.kept


def finish(client: Client, reply: dict[str, Any]) -> None:
    """What the application does with a reply."""
    client.answer.start("200 OK", [*HEADERS, ("Content-Length", "9")])
    client.body += dump(reply)


def test_a_quick_call_gives_its_result_or_its_error(pulse: Pulse) -> None:
    client = Client()
    assert pulse.keep(client.answer, HEADERS, SOON, lambda: {"a": 1}) == {"a": 1}
    with pytest.raises(ZeroDivisionError):
        pulse.keep(client.answer, HEADERS, SOON, lambda: {"a": 1 / 0})
    assert client.begun == []
    client.answer.start("400 Bad Request", [("X", "y")])
    assert client.begun == [("400 Bad Request", [("X", "y")])]


def test_a_long_call_is_spaces_and_then_json(pulse: Pulse) -> None:
    client = Client()

    def work() -> dict[str, Any]:
        client.beats(3)
        return {"é": 1}

    finish(client, pulse.keep(client.answer, HEADERS, OFTEN, work))
    assert client.begun == [("200 OK", HEADERS)]
    assert client.body.startswith(b"   ")
    assert json.loads(client.body) == {"é": 1}


@pytest.mark.parametrize(
    ("error", "ename"),
    [(ShuttingDown("ending"), "ServerShutdown"), (RuntimeError("bug"), "InternalServerError")],
)
def test_an_error_after_the_answer_has_begun_is_told_inside_it(
    pulse: Pulse, error: Exception, ename: str
) -> None:
    client = Client()

    def work() -> dict[str, Any]:
        client.beats(1)
        raise error

    reply = pulse.keep(client.answer, HEADERS, OFTEN, work)
    assert reply["error"]["ename"] == ename
    assert client.begun == [("200 OK", HEADERS)]


def test_no_sign_of_life_comes_after_the_applications_start(pulse: Pulse) -> None:
    client = Client()
    client.answer.start("200 OK", HEADERS)
    assert not client.answer.beat(HEADERS)
    assert (client.body, len(client.begun)) == (b"", 1)


def test_a_client_that_leaves_does_not_end_the_call(pulse: Pulse) -> None:
    client = Client()

    def work() -> dict[str, Any]:
        client.beats(1)
        client.gone = True
        assert client.refused.wait(SOON)
        until(lambda: not pulse.kept, "the answer is let go")
        return {"a": 1}

    assert pulse.keep(client.answer, HEADERS, OFTEN, work) == {"a": 1}


def test_each_answer_is_kept_alive_in_its_own_time(pulse: Pulse) -> None:
    slow, quick, done = Client(), Client(), threading.Event()

    def wait() -> dict[str, Any]:
        assert done.wait(SOON)
        return {}

    running = background(pulse.keep, slow.answer, HEADERS, SOON, wait)
    until(lambda: bool(pulse.kept), "the slow one is kept")

    def work() -> dict[str, Any]:
        quick.beats(3)
        return {}

    with contextlib.ExitStack() as stack:
        stack.callback(running.result, SOON)
        stack.callback(done.set)
        pulse.keep(quick.answer, HEADERS, OFTEN, work)
        assert slow.body == b""


def test_its_thread_ends_when_nobody_needs_it_and_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridge.rest.pulse.IDLE", 0.01)
    pulse = Pulse()
    for _ in range(2):
        client = Client()

        def work(client: Client = client) -> dict[str, Any]:
            client.beats(2)
            return {}

        pulse.keep(client.answer, HEADERS, OFTEN, work)
        until(lambda: not pulse.runs, "the thread ends")
