"""Replies: strict JSON, whatever is in them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bridge.errors import Conflict, KernelDied, ShuttingDown
from bridge.rest.replies import body_of, body_of_status, dump, failed_execution


def strict(data: bytes) -> Any:
    """The value of JSON that any parser takes."""

    def refuse(word: str) -> Any:
        raise AssertionError(f"{word} is not JSON")

    return json.loads(data.decode("utf-8"), parse_constant=refuse)


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ({"é": "😀"}, {"é": "😀"}),
        ({"x": [float("nan"), float("inf"), (-float("inf"), 1.5)]}, {"x": [None, None, [None, 1.5]]}),
        ({"x": "\ud800"}, {"x": "\ud800"}),
        ({"x": "\ud800", "y": float("nan")}, {"x": "\ud800", "y": None}),
        ({"x": "</script>\u2028"}, {"x": "</script>\u2028"}),
    ],
)
def test_a_reply_is_strict_json_in_utf8(value: Any, read: Any) -> None:
    assert strict(dump(value)) == read


def test_text_is_sent_as_text() -> None:
    assert dump({"é": 1}) == '{"é": 1}\n'.encode()


def test_errors_have_one_shape() -> None:
    assert strict(body_of(Conflict("e1 runs"))) == {"error": {"code": "Conflict", "message": "e1 runs"}}
    assert strict(body_of_status(405)) == {
        "error": {"code": "MethodNotAllowed", "message": "Method Not Allowed"}
    }
    assert strict(body_of_status(408, "late")) == {"error": {"code": "RequestTimeout", "message": "late"}}


@pytest.mark.parametrize(
    ("error", "ename", "evalue"),
    [
        (ShuttingDown("ending"), "ServerShutdown", "ending"),
        (KernelDied("signal 9"), "KernelDied", "signal 9"),
        (
            ZeroDivisionError("secret"),
            "InternalServerError",
            "an internal error; the server's log has the details",
        ),
    ],
)
def test_an_execution_that_failed_in_the_server_is_told_as_one(
    error: Exception, ename: str, evalue: str
) -> None:
    reply = failed_execution(error)
    assert reply["error"] == {"ename": ename, "evalue": evalue, "traceback": []}
    assert (reply["output"], reply["state_name"], reply["accessed_symbols"]) == ([], None, [])
