"""Bodies: how they are read, parsed and checked, as tables."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from bridge.errors import BadRequest, BodyTooLarge, BridgeError, UnsupportedMedia
from bridge.rest.body import (
    FLAG,
    MAPPING,
    NAME,
    SECONDS,
    TEXT,
    TEXTS,
    Field,
    Kind,
    choice,
    parse_body,
    parse_query,
    read_body,
)
from bridge.rest.server import ChunkedBody

FIELDS = (
    Field("code", TEXT, "", default=""),
    Field("exec_id", TEXT, "", required=True),
    Field("timeout", SECONDS, ""),
)


def parsed(body: Any, content_type: str | None = "application/json") -> dict[str, Any]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return parse_body(data, content_type, FIELDS)


def test_every_declared_field_is_there_and_no_other() -> None:
    assert parsed({"exec_id": "e", "more": 1}) == {"code": "", "exec_id": "e", "timeout": None}
    assert parsed({"exec_id": "e", "code": None, "timeout": 0.5})["timeout"] == 0.5


@pytest.mark.parametrize(
    "content_type",
    ["application/json", "Application/JSON", "application/json; charset=utf-8", " application/json ;x=y"],
)
def test_json_is_json_however_it_is_spelled(content_type: str) -> None:
    assert parsed({"exec_id": "e"}, content_type)["exec_id"] == "e"


@pytest.mark.parametrize(
    ("body", "content_type", "error", "says"),
    [
        ({"exec_id": "e"}, None, UnsupportedMedia, "application/json"),
        ({"exec_id": "e"}, "text/plain", UnsupportedMedia, "application/json"),
        ({"exec_id": "e"}, "application/x-www-form-urlencoded", UnsupportedMedia, "application/json"),
        ({"exec_id": "e"}, "application/jsonx", UnsupportedMedia, "application/json"),
        ([], "application/json", BadRequest, "object"),
        ("text", "application/json", BadRequest, "object"),
        (None, "application/json", BadRequest, "object"),
        (b"{", "application/json", BadRequest, "JSON"),
        (b"{'a': 1}", "application/json", BadRequest, "JSON"),
        (b'{"exec_id": "e", "timeout": NaN}', "application/json", BadRequest, "NaN"),
        (b'{"exec_id": "e", "timeout": Infinity}', "application/json", BadRequest, "Infinity"),
        (b'{"exec_id": "\xff"}', "application/json", BadRequest, "UTF-8"),
        ('{"exec_id": "e"}'.encode("utf-16"), "application/json", BadRequest, "UTF-8"),
        (b"[" * 100_000, "application/json", BadRequest, "JSON"),
        (b'{"timeout": ' + b"1" * 5000 + b"}", "application/json", BadRequest, "JSON"),
        (b"", "application/json", BadRequest, "`exec_id` is missing"),
        (b" \n", None, BadRequest, "`exec_id` is missing"),
        ({}, "application/json", BadRequest, "`exec_id` is missing"),
        ({"exec_id": None}, "application/json", BadRequest, "`exec_id` is missing"),
        ({"exec_id": 5}, "application/json", BadRequest, "`exec_id` must be a string"),
        ({"exec_id": "e", "code": 5}, "application/json", BadRequest, "`code` must be a string"),
        ({"exec_id": "e", "code": ["1"]}, "application/json", BadRequest, "`code` must be a string"),
        ({"exec_id": "\ud800"}, "application/json", BadRequest, "`exec_id` must be a string"),
        ({"exec_id": "e", "timeout": "1"}, "application/json", BadRequest, "`timeout` must be a number"),
        (b'{"exec_id": "e", "timeout": 1e999}', "application/json", BadRequest, "`timeout` must be a number"),
    ],
)
def test_a_wrong_body_is_refused(body: Any, content_type: str, error: type[BridgeError], says: str) -> None:
    with pytest.raises(error, match=says):
        parsed(body, content_type)


def test_an_empty_body_will_do_where_nothing_is_required() -> None:
    assert parse_body(b"", None, ()) == {}
    assert parse_body(b"", "text/plain", (Field("force", FLAG, "", default=False),)) == {"force": False}
    with pytest.raises(UnsupportedMedia):
        parse_body(b"{}", "text/plain", ())


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (TEXT, ["", "é", "\x00"], [1, True, [], {}, "\udc80"]),
        (NAME, ["a", "a" * 255, "\x00", "é" * 255], ["", "a" * 256, 1, "\udc80"]),
        (FLAG, [True, False], [0, 1, "true", []]),
        (SECONDS, [1, 0.001, 1e6], [0, -1, True, "1", float("inf"), float("nan"), 1e10]),
        (TEXTS, [[], ["a", ""]], ["a", [1], [["a"]], {"a": "b"}, ["\udc80"]]),
        (MAPPING, [{}, {"a": "b"}], [[], "a", {"a": 1}, {"a": None}, {"a": ["b"]}, {"\udc80": "a"}]),
        (choice("shared", "fresh"), ["shared", "fresh"], ["", "Fresh", 1, ["fresh"], {"fresh": 1}]),
    ],
)
def test_kinds(kind: Kind, good: list[Any], bad: list[Any]) -> None:
    field = Field("f", kind, "")
    assert [field.check(value) for value in good] == good
    for value in bad:
        with pytest.raises(BadRequest, match="`f` must be"):
            field.check(value)


@pytest.mark.parametrize(
    ("query", "value"),
    [
        ("", False),
        ("detail=1", True),
        ("detail=true", True),
        ("detail", True),
        ("detail=0", False),
        ("detail=False", False),
    ],
)
def test_a_flag_in_a_query(query: str, value: bool) -> None:
    assert parse_query(query, [Field("detail", FLAG, "", default=False)]) == {"detail": value}


def test_wrong_parameters_are_named() -> None:
    with pytest.raises(BadRequest, match="`detail` must be true or false"):
        parse_query("detail=maybe", [Field("detail", FLAG, "")])
    with pytest.raises(BadRequest, match="`a` is missing"):
        parse_query("b=1", [Field("a", TEXT, "", required=True)])
    assert parse_query("a=x%2Fy", [Field("a", TEXT, "", required=True)]) == {"a": "x/y"}


class Counting(io.BytesIO):
    """A stream that tells how much was taken from it."""

    taken = 0

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        self.taken += len(data)
        return data


def environ(data: bytes, length: str | None = None, *, chunked: bool = False) -> dict[str, Any]:
    made: dict[str, Any] = {"wsgi.input": Counting(data), "wsgi.input_terminated": chunked}
    if length is not None:
        made["CONTENT_LENGTH"] = length
    return made


def test_a_body_is_read_to_its_length_and_not_beyond() -> None:
    assert read_body(environ(b"abcdef", "3"), 10) == b"abc"
    assert read_body(environ(b"abcdef", ""), 10) == b""
    assert read_body(environ(b"abcdef"), 10) == b""
    assert read_body(environ(b"a" * 3_000_000, "3000000"), 3_000_000) == b"a" * 3_000_000
    assert read_body(environ(b"abcdef", chunked=True), 6) == b"abcdef"


def test_a_declared_length_over_the_limit_is_refused_unread() -> None:
    sent = environ(b"a" * 11, "11")
    with pytest.raises(BodyTooLarge, match="limit of 10 bytes"):
        read_body(sent, 10)
    assert sent["wsgi.input"].taken == 0


def test_an_undeclared_length_is_read_no_further_than_the_limit() -> None:
    sent = environ(b"a" * 1000, chunked=True)
    with pytest.raises(BodyTooLarge):
        read_body(sent, 10)
    assert sent["wsgi.input"].taken == 11


@pytest.mark.parametrize(
    ("data", "length", "says"),
    [
        (b"abc", "4", "ended"),
        (b"", "-1", "Content-Length"),
        (b"", "x", "Content-Length"),
        (b"", "٣", "Content-Length"),
    ],
)
def test_a_wrong_length_is_refused(data: bytes, length: str, says: str) -> None:
    with pytest.raises(BadRequest, match=says):
        read_body(environ(data, length), 10)


@pytest.mark.parametrize(
    ("sent", "body"),
    [
        (b"0\r\n\r\n", b""),
        (b"3\r\nabc\r\n0\r\n\r\n", b"abc"),
        (b"3;x=y\r\nabc\r\nA\r\n0123456789\r\n0\r\nTrailer: 1\r\n\r\n", b"abc0123456789"),
    ],
)
def test_chunks_are_joined(sent: bytes, body: bytes) -> None:
    rest = io.BytesIO(sent + b"GET /next")
    assert read_body({"wsgi.input": ChunkedBody(rest), "wsgi.input_terminated": True}, 100) == body
    assert rest.read() == b"GET /next"


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"3",
        b"x\r\nabc\r\n",
        b"-3\r\nabc\r\n",
        b"3\r\nabcd\r\n0\r\n\r\n",
        b"3\r\nab",
        b"3\r\nabc\r\n",
        b"\r\nabc",
    ],
)
def test_malformed_chunks_are_a_bad_request(sent: bytes) -> None:
    with pytest.raises(BadRequest):
        read_body({"wsgi.input": ChunkedBody(io.BytesIO(sent)), "wsgi.input_terminated": True}, 100)


def test_a_huge_chunk_is_not_read_whole() -> None:
    source = Counting(b"FFFFFFF\r\n" + b"a" * 1000)
    with pytest.raises(BodyTooLarge):
        read_body({"wsgi.input": ChunkedBody(source), "wsgi.input_terminated": True}, 10)
    assert source.taken <= 100
