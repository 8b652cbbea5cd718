"""Host, Origin and token: the decisions as tables."""

from __future__ import annotations

import pytest

from bridge.errors import Forbidden, Unauthorized
from bridge.rest.auth import Access, host_name, origin_text

ACCESS = Access(
    token="gehe\u00edm+1".encode(),
    hosts=frozenset({"192.168.1.5", "notebooks.lan"}),
    origins=frozenset({"https://ok.test", "http://ok.test:3000"}),
)


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("localhost", "localhost"),
        ("LocalHost:8080", "localhost"),
        ("localhost.", "localhost"),
        ("127.0.0.1:80", "127.0.0.1"),
        ("[::1]", "::1"),
        ("[::1]:8080", "::1"),
        ("a-b_c.test:1", "a-b_c.test"),
        ("", None),
        (":8080", None),
        (".", None),
        ("::1", None),
        ("[nonsense]", None),
        ("[1::2::3]", None),
        ("localhost:port", None),
        ("localhost:123456", None),
        ("user@localhost", None),
        ("localhost/x", None),
        ("local host", None),
        ("localhost\n", None),
    ],
)
def test_a_host_header_gives_a_name_or_nothing(host: str, name: str | None) -> None:
    assert host_name(host) == name


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST:1",
        "127.0.0.1:8080",
        "127.8.9.10",
        "[::1]:8080",
        "192.168.1.5:8080",
        "notebooks.lan",
    ],
)
def test_the_servers_own_names_are_let_in(host: str) -> None:
    ACCESS.check_host(host)


@pytest.mark.parametrize(
    "host",
    [
        None,
        "",
        "evil.test",
        "evil.test:8080",
        "localhost.evil.test",
        "127.0.0.1.evil.test",
        "192.168.1.6",
        "10.0.0.1",
        "0.0.0.0",
        "[::2]",
        "user@localhost",
    ],
)
def test_any_other_host_is_refused(host: str | None) -> None:
    with pytest.raises(Forbidden, match="Host"):
        ACCESS.check_host(host)


@pytest.mark.parametrize("wildcard", ["0.0.0.0", "::"])
def test_a_server_on_every_address_answers_to_addresses_but_not_to_names(wildcard: str) -> None:
    access = Access(b"t", hosts=frozenset({wildcard}))
    access.check_host("10.1.2.3:8080")
    access.check_host("[fe80::1]")
    with pytest.raises(Forbidden):
        access.check_host("evil.test")


@pytest.mark.parametrize(
    ("origin", "text"),
    [
        ("https://OK.test", "https://ok.test"),
        ("https://ok.test/", "https://ok.test"),
        ("http://[::1]:80", "http://[::1]:80"),
        ("null", None),
        ("", None),
        ("ok.test", None),
        ("https://ok.test/page", None),
        ("https://ok.test?x", None),
        ("https://[bad", None),
    ],
)
def test_an_origin_has_one_form(origin: str, text: str | None) -> None:
    assert origin_text(origin) == text


@pytest.mark.parametrize(
    ("origin", "host", "named"),
    [
        (None, "localhost:8080", None),
        ("http://localhost:8080", "localhost:8080", None),
        ("http://LOCALHOST:8080", "LocalHost:8080", None),
        ("https://localhost:8080", "localhost:8080", None),
        ("https://ok.test", "localhost:8080", "https://ok.test"),
        ("http://ok.test:3000", "localhost:8080", "http://ok.test:3000"),
    ],
)
def test_own_and_allowed_origins_are_let_in(origin: str | None, host: str, named: str | None) -> None:
    assert ACCESS.check_origin(origin, host) == named


@pytest.mark.parametrize(
    "origin",
    [
        "https://no.test",
        "http://ok.test",
        "https://ok.test:444",
        "http://localhost:3000",
        "null",
        "",
        "localhost:8080",
    ],
)
def test_a_foreign_origin_is_refused(origin: str) -> None:
    with pytest.raises(Forbidden, match="Origin"):
        ACCESS.check_origin(origin, "localhost:8080")


def test_a_star_allows_every_origin() -> None:
    access = Access(b"t", origins=frozenset({"*"}))
    assert access.check_origin("https://no.test", "localhost") == "https://no.test"
    assert access.check_origin(None, "localhost") is None


GOOD = "gehe\u00edm+1".encode().decode("latin-1")  # as WSGI hands a header over
QUOTED = "gehe%C3%ADm%2B1"


@pytest.mark.parametrize(
    ("query", "authorization"),
    [
        (f"token={QUOTED}", None),
        (f"a=1&token={QUOTED}&b", None),
        (f"%74oken={QUOTED}", None),
        (f"token=wrong&token={QUOTED}", None),
        ("", f"Bearer {GOOD}"),
        ("", f"bearer   {GOOD} "),
        ("", f"token {GOOD}"),
        ("token=wrong", f"Token {GOOD}"),
    ],
)
def test_the_token_is_found_wherever_it_may_stand(query: str, authorization: str | None) -> None:
    assert ACCESS.check_token(query, authorization) is True


@pytest.mark.parametrize(
    ("query", "authorization"),
    [
        ("token=", None),
        ("token", None),
        ("token=wrong", None),
        (f"token={QUOTED}x", None),
        ("token=geheim+1", None),
        ("token=%FF%FE", None),
        ("token=\xff", None),
        ("", "Bearer"),
        ("", "Bearer \xe9"),
        ("", "Bearer gehe\xedm+1"),
        ("", "token x"),
    ],
)
def test_a_wrong_token_is_refused(query: str, authorization: str | None) -> None:
    with pytest.raises(Unauthorized):
        ACCESS.check_token(query, authorization)


@pytest.mark.parametrize(
    ("query", "authorization"),
    [("", None), ("tokens=1", None), ("", ""), ("", "Basic eDp5"), ("", f"{GOOD}")],
)
def test_no_token_is_told_apart_from_a_wrong_one(query: str, authorization: str | None) -> None:
    assert ACCESS.check_token(query, authorization) is False
