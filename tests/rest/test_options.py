"""Flags: what they mean and what is refused, as tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bridge.cli import parser
from bridge.rest.options import FLAGS, UsageError, read_options
from bridge.settings import Settings


def test_without_flags_the_defaults_hold() -> None:
    options = read_options({}, {})
    assert (options.host, options.port) == ("127.0.0.1", 8080)
    assert options.settings == Settings()
    assert options.generated
    assert len(options.token) >= 32
    assert options.token != read_options({}, {}).token


@pytest.mark.parametrize(
    ("environ", "given", "token"),
    [
        ({"BRIDGE_TOKEN": "env"}, {}, "env"),
        ({"BRIDGE_TOKEN": "env"}, {"token": "flag"}, "flag"),
        ({}, {"token": "flag"}, "flag"),
    ],
)
def test_the_token_comes_from_the_flag_or_the_environment(
    environ: dict[str, str], given: dict[str, str], token: str
) -> None:
    options = read_options(given, environ)
    assert (options.token, options.generated) == (token, False)
    assert environ == {}


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:80", "127.0.0.1", 80),
        ("localhost:0", "127.0.0.1", 0),
        ("[::1]:8080", "::1", 8080),
        ("[::1]", "::1", 8080),
        ("0.0.0.0:1", "0.0.0.0", 1),
        ("notebooks.lan", "notebooks.lan", 8080),
    ],
)
def test_where_to_listen(text: str, host: str, port: int) -> None:
    options = read_options({"bind": text}, {})
    assert (options.host, options.port) == (host, port)


@pytest.mark.parametrize(
    ("key", "text", "field", "value"),
    [
        ("pool_size", "3", "pool_size", 3),
        ("timeout", "1.5", "timeout", 1.5),
        ("memory_limit", "4G", "memory_limit", 4 << 30),
        ("memory_limit", "1.5 GiB", "memory_limit", 3 << 29),
        ("memory_limit", "800mb", "memory_limit", 800 << 20),
        ("memory_limit", "2000000000", "memory_limit", 2000000000),
        ("max_output_bytes", "1000", "max_output_bytes", 1000),
        ("display_max_rows", "7", "display_max_rows", 7),
        ("display_max_columns", "8", "display_max_columns", 8),
        ("display_max_colwidth", "9", "display_max_colwidth", 9),
        ("home", "/a/b", "home", Path("/a/b")),
        ("home", "~/b", "home", Path.home() / "b"),
        ("workspace", "last", "workspace", "last"),
        ("kernel", "python3", "kernel_name", "python3"),
        ("ephemeral", True, "ephemeral", True),
        ("ephemeral", "true", "ephemeral", True),
        ("ephemeral", "0", "ephemeral", False),
        ("verbose", True, "verbose", True),
    ],
)
def test_a_flag_becomes_a_setting(key: str, text: Any, field: str, value: Any) -> None:
    assert getattr(read_options({key: text}, {}).settings, field) == value


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("bind", ""),
        ("bind", ":8080"),
        ("bind", "::1:8080"),
        ("bind", "127.0.0.1:65536"),
        ("bind", "127.0.0.1:x"),
        ("bind", "http://127.0.0.1"),
        ("token", ""),
        ("token", True),
        ("pool_size", "0"),
        ("pool_size", "-1"),
        ("pool_size", "1.5"),
        ("pool_size", "many"),
        ("pool_size", "1" * 30),
        ("timeout", "0"),
        ("timeout", "nan"),
        ("timeout", "inf"),
        ("timeout", "soon"),
        ("memory_limit", "much"),
        ("memory_limit", "-4G"),
        ("memory_limit", "4X"),
        ("memory_limit", "1K"),
        ("memory_limit", ""),
        ("memory_limit", True),
        ("max_output_bytes", "10MB"),
        ("home", ""),
        ("workspace", ""),
        ("workspace", "a:b"),
        ("workspace", "*"),
        ("workspace", "a" * 256),
        ("kernel", "no-such-kernel"),
        ("ephemeral", "perhaps"),
        ("allow_host", "http://a"),
        ("allow_host", ""),
        ("allow_origin", "ok.test"),
        ("allow_origin", "https://ok.test/page"),
    ],
)
def test_a_wrong_value_is_one_line_that_names_the_flag(key: str, text: Any) -> None:
    with pytest.raises(UsageError) as caught:
        read_options({key: text}, {})
    message = str(caught.value)
    assert message.startswith(f"--{key.replace('_', '-')} ")
    assert "\n" not in message


def test_a_home_cannot_be_ephemeral_too() -> None:
    with pytest.raises(UsageError, match="--home and --ephemeral"):
        read_options({"home": "/a", "ephemeral": True}, {})


def test_names_and_origins_may_be_several() -> None:
    options = read_options(
        {
            "bind": "0.0.0.0:1",
            "allow_host": ["A.test", "b.test:90,[::2]"],
            "allow_origin": "https://A.test/,*",
        },
        {},
    )
    assert options.allow_hosts == ("a.test", "b.test", "::2")
    assert options.allow_origins == ("https://a.test", "*")
    access = options.access("10.0.0.1")
    assert access.hosts == {"0.0.0.0", "10.0.0.1", "a.test", "b.test", "::2"}
    assert access.token == options.token.encode()


def test_the_help_explains_every_flag() -> None:
    words = " ".join(parser().format_help().split())
    for flag in FLAGS:
        assert f"--{flag.name}" in words
        assert flag.help in words


@pytest.mark.parametrize("text", ["0", "-1", "31536001", "soon", "1.5", ""])
def test_a_retention_out_of_range_is_one_clear_line(text: str) -> None:
    with pytest.raises(UsageError, match="BRIDGE_STATE_EXPIRY_SECONDS must be a whole number"):
        read_options({}, {"BRIDGE_STATE_EXPIRY_SECONDS": text})


def test_the_retention_comes_from_the_environment() -> None:
    assert read_options({}, {}).settings.retention == 1209600
    assert read_options({}, {"ALBEDO_STATE_EXPIRY_SECONDS": "60"}).settings.retention == 60
    both = {"ALBEDO_STATE_EXPIRY_SECONDS": "60", "BRIDGE_STATE_EXPIRY_SECONDS": "31536000"}
    assert read_options({}, both).settings.retention == 31536000


@pytest.mark.parametrize("text", ["", "0", "-1", "soon", "nan", "inf"])
def test_an_idle_time_that_is_none_is_one_clear_line(text: str) -> None:
    with pytest.raises(UsageError, match="BRIDGE_IDLE_SECONDS must be a number of seconds above 0"):
        read_options({}, {"BRIDGE_IDLE_SECONDS": text})


def test_the_idle_time_comes_from_the_environment() -> None:
    assert read_options({}, {}).settings.idle_seconds == 600
    assert read_options({}, {"BRIDGE_IDLE_SECONDS": "2.5"}).settings.idle_seconds == 2.5
