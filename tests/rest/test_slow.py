"""Answers that take long, without a clock: the work ends when the test says so."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from bridge.errors import ShuttingDown
from bridge.rest.slow import Job

SOON = 30.0


def test_a_quick_call_gives_its_result_or_its_error() -> None:
    job = Job(lambda: {"a": 1}, "test")
    assert job.wait(SOON)
    assert job.result() == {"a": 1}

    def fail() -> dict[str, Any]:
        raise ValueError("no")

    job = Job(fail, "test")
    assert job.wait(SOON)
    with pytest.raises(ValueError, match="no"):
        job.result()


def test_a_long_call_is_spaces_and_then_json() -> None:
    done = threading.Event()

    def work() -> dict[str, Any]:
        assert done.wait(SOON)
        return {"é": 1}

    job = Job(work, "test")
    body = job.body(0.001)
    parts = [next(body), next(body), next(body)]
    assert parts == [b" ", b" ", b" "]
    done.set()
    parts += list(body)
    assert set(parts[:-1]) == {b" "}
    assert json.loads(b"".join(parts)) == {"é": 1}


@pytest.mark.parametrize(
    ("error", "ename"),
    [(ShuttingDown("ending"), "ServerShutdown"), (RuntimeError("bug"), "InternalServerError")],
)
def test_an_error_after_the_answer_has_begun_is_told_inside_it(error: Exception, ename: str) -> None:
    done = threading.Event()

    def work() -> dict[str, Any]:
        assert done.wait(SOON)
        raise error

    body = Job(work, "test").body(0.001)
    assert next(body) == b" "
    done.set()
    assert json.loads(b"".join(body))["error"]["ename"] == ename


def test_a_client_that_leaves_does_not_end_the_call() -> None:
    go, ended = threading.Event(), threading.Event()

    def work() -> dict[str, Any]:
        assert go.wait(SOON)
        ended.set()
        return {}

    body = Job(work, "test").body(0.001)
    next(body)
    body.close()  # type: ignore[attr-defined]
    go.set()
    assert ended.wait(SOON)
