"""Paths and parameters, from the bytes that were sent."""

from __future__ import annotations

import pytest

from bridge.errors import BadRequest
from bridge.rest.url import canonical_path, path_text, query_text, query_values
from tests.support import quote


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("/states", "/states"),
        ("/states?token=x/y", "/states"),
        ("/%73tates/s1", "/states/s1"),
        ("/states/a%2Fb", "/states/a%2Fb"),
        ("/states/a%2fb", "/states/a%2Fb"),
        ("/states/a%252Fb", "/states/a%252Fb"),
        ("/states/a:b", "/states/a%3Ab"),
        ("/states/caf\xc3\xa9", "/states/caf%C3%A9"),
        ("/states/caf%C3%A9", "/states/caf%C3%A9"),
        ("/states/%FF", "/states/%FF"),
        ("/states/a+b", "/states/a%2Bb"),
        ("/", "/"),
    ],
)
def test_one_path_has_one_encoding(uri: str, path: str) -> None:
    assert canonical_path(uri, "/ignored") == path


@pytest.mark.parametrize(
    ("uri", "info", "mounted", "path"),
    [
        (None, "/states/caf\xc3\xa9 1", "", "/states/caf%C3%A9%201"),
        (None, "", "", "/"),
        ("http://localhost/states", "/states", "", "/states"),
        ("/at/states/a%2Fb", "/states/a/b", "/at", "/states/a%2Fb"),
        ("/at", "", "/at", "/"),
    ],
)
def test_other_servers_give_what_they_have(uri: str | None, info: str, mounted: str, path: str) -> None:
    assert canonical_path(uri, info, mounted) == path


@pytest.mark.parametrize("name", ["s1", "a/b", "%2F", "a b+c", "é😀", "..", "x?y#z&", "\x01", "w-1:s"])
def test_a_name_survives_the_way_through_a_path(name: str) -> None:
    _, _, segment = canonical_path(f"/states/{quote(name)}", "").split("/", 2)
    assert "/" not in segment
    assert path_text(segment) == name


def test_a_name_that_is_no_utf8_is_a_bad_request() -> None:
    with pytest.raises(BadRequest, match="%FF"):
        path_text("%FF")


@pytest.mark.parametrize(
    ("query", "values"),
    [
        ("", []),
        ("b=1", []),
        ("a", [b""]),
        ("a=1&a=2", [b"1", b"2"]),
        ("%61=x+y%2B", [b"x y+"]),
        ("a=\xe9", [b"\xe9"]),
        ("a=b=c", [b"b=c"]),
    ],
)
def test_parameters_are_bytes(query: str, values: list[bytes]) -> None:
    assert query_values(query, "a") == values


def test_a_parameters_text_is_its_last_value() -> None:
    assert query_text("a=1&a=%C3%A9", "a") == "é"
    assert query_text("b=1", "a") is None
    with pytest.raises(BadRequest, match="`a`"):
        query_text("a=%FF", "a")
