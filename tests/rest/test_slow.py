"""Answers that take long, without a clock: the work ends when the test says so."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from bridge.errors import ShuttingDown
from bridge.rest.slow import Job, Threads
from tests.concurrency import until

SOON = 30.0


def test_a_quick_call_gives_its_result_or_its_error() -> None:
    job = Job(lambda: {"a": 1})
    assert job.wait(SOON)
    assert job.result() == {"a": 1}

    def fail() -> dict[str, Any]:
        raise ValueError("no")

    job = Job(fail)
    assert job.wait(SOON)
    with pytest.raises(ValueError, match="no"):
        job.result()


def test_a_long_call_is_spaces_and_then_json() -> None:
    done = threading.Event()

    def work() -> dict[str, Any]:
        assert done.wait(SOON)
        return {"é": 1}

    job = Job(work)
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

    body = Job(work).body(0.001)
    assert next(body) == b" "
    done.set()
    assert json.loads(b"".join(body))["error"]["ename"] == ename


def test_a_client_that_leaves_does_not_end_the_call() -> None:
    go, ended = threading.Event(), threading.Event()

    def work() -> dict[str, Any]:
        assert go.wait(SOON)
        ended.set()
        return {}

    body = Job(work).body(0.001)
    next(body)
    body.close()  # type: ignore[attr-defined]
    go.set()
    assert ended.wait(SOON)


def test_a_thread_that_is_done_makes_the_next_call() -> None:
    threads = Threads()
    makers: list[int] = []
    for count in (1, 2):
        threads.run(lambda: makers.append(threading.get_ident()))
        until(lambda count=count: len(makers) == count and threads.idle == 1, "an idle thread")  # type: ignore[misc]
    assert makers[0] == makers[1]


def test_calls_that_wait_for_each_other_have_threads_of_their_own() -> None:
    threads, both = Threads(), threading.Barrier(2)
    met: list[int] = []
    for _ in range(2):
        threads.run(lambda: met.append(both.wait(SOON)))
    until(lambda: len(met) == 2, "both calls")
    assert sorted(met) == [0, 1]
