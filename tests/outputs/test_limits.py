"""Sizes: what is cut, what is dropped, and that memory stays bounded."""

from __future__ import annotations

import base64
import tracemalloc
from collections.abc import Iterable
from typing import Any

import pytest

from bridge.outputs import MARKER, Collector, Event, Limits
from tests.outputs.helpers import (
    Message,
    brief,
    bundle,
    clear,
    collect,
    display,
    err,
    error,
    message,
    out,
    update,
)

SMALL = Limits(text=100, image=300, stream=50)
PLAIN = {"text/plain": "P"}


@pytest.mark.parametrize(("length", "expected"), [(100, "A" * 100), (101, "A" * 100 + "\n... [truncated]")])
@pytest.mark.parametrize("kind", ["display_data", "execute_result"])
def test_plain_text_is_cut(kind: str, length: int, expected: str) -> None:
    [output] = collect([display("A" * length, kind=kind)], SMALL)
    assert output["data"] == {"text/plain": expected}


def test_the_default_limit_is_a_million_characters() -> None:
    [whole, cut] = collect([display("A" * 1_000_000), display("A" * 1_000_001)])
    assert whole["data"]["text/plain"] == "A" * 1_000_000
    assert cut["data"]["text/plain"] == "A" * 1_000_000 + MARKER


RICH = ["text/html", "text/markdown", "text/latex", "image/svg+xml", "application/pdf", "text/x-new"]


@pytest.mark.parametrize("mime", RICH)
def test_rich_text_over_the_limit_is_dropped(mime: str) -> None:
    meta = {mime: {"isolated": True}, "other": 1}
    [kept, gone] = collect(
        [bundle({**PLAIN, mime: "h" * 100}, meta), bundle({**PLAIN, mime: "h" * 101}, meta)], SMALL
    )
    assert (kept["data"], kept["metadata"]) == ({**PLAIN, mime: "h" * 100}, meta)
    assert (gone["data"], gone["metadata"]) == (PLAIN, {"other": 1})


@pytest.mark.parametrize("encode", [base64.b64encode, base64.encodebytes])
@pytest.mark.parametrize(("size", "kept"), [(300, True), (301, False), (299, True)])
def test_an_image_counts_as_its_bytes(encode: Any, size: int, kept: bool) -> None:
    [output] = collect([bundle({**PLAIN, "image/png": encode(b"i" * size).decode()})], SMALL)
    assert ("image/png" in output["data"]) is kept


@pytest.mark.parametrize(("items", "kept"), [(33, True), (34, False)])  # "[0, 0, ...]" is 3n characters
def test_json_counts_as_its_text(items: int, kept: bool) -> None:
    [output] = collect([bundle({**PLAIN, "application/json": [0] * items})], SMALL)
    assert ("application/json" in output["data"]) is kept


def test_json_nested_too_deeply_is_dropped() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    [output] = collect([bundle({**PLAIN, "application/json": deep}, {"deep": deep})])
    assert (output["data"], output["metadata"]) == (PLAIN, {})


def test_a_display_of_which_nothing_is_left_says_so() -> None:
    [output] = collect([bundle({"text/html": "h" * 1234, "image/png": "A" * 4000})], SMALL)
    assert output["data"] == {
        "text/plain": "... [dropped: text/html, 1,234 characters]\n... [dropped: image/png, 3,000 bytes]"
    }


def test_updates_errors_and_metadata_are_held_to_the_limit_too() -> None:
    [shown, failed] = collect(
        [
            display("a", "k"),
            update("A" * 101, "k"),
            error("E" * 101, "v" * 101, ["t" * 101, "last"]),
        ],
        SMALL,
    )
    assert shown["data"]["text/plain"] == "A" * 100 + MARKER
    assert failed["evalue"] == "v" * 100 + MARKER
    assert failed["traceback"] == ["t" * 100 + MARKER, "last"]
    [output] = collect([bundle(PLAIN, {"big": "m" * 100})], SMALL)
    assert output["metadata"] == {}


MARK = "\n... [truncated: {} characters in all]"


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        pytest.param([out("x" * 50)], ["o:" + "x" * 50], id="up to the limit"),
        pytest.param([out("x" * 51)], ["o:" + "x" * 50 + MARK.format(51)], id="one over"),
        pytest.param([out("x" * 40)] * 50, ["o:" + "x" * 50 + MARK.format("2,000")], id="the true size"),
        pytest.param(
            [out("x" * 40), err("y" * 5), out("z" * 10), err("w")],
            ["o:" + "x" * 40, "e:yyyyy", "o:zzzzz" + MARK.format(56)],
            id="both streams together",
        ),
        pytest.param([out("x" * 50), err("y")], ["o:" + "x" * 50, "e:" + MARK.format(51)], id="on the edge"),
        pytest.param(
            [out("x" * 51), display("d")], ["o:" + "x" * 50 + MARK.format(51), "d:d"], id="displays go on"
        ),
        pytest.param([out("x" * 99), clear(), out("y" * 50)], ["o:" + "y" * 50], id="a clear gives it back"),
        pytest.param([out("\r" + "x" * 40)] * 9, ["o:" + "x" * 40], id="what was overwritten does not count"),
        pytest.param(
            [out("ab\rx" + "y" * 60)], ["o:x" + "y" * 49 + MARK.format(61)], id="an edited line is cut"
        ),
        pytest.param(
            [out("x" * 47 + "\x1b[31mred")], ["o:" + "x" * 47 + MARK.format(55)], id="not inside a colour"
        ),
    ],
)
def test_stream_limit(messages: list[Message], expected: list[str]) -> None:
    assert brief(collect(messages, SMALL)) == expected


def test_the_true_size_of_an_edited_message_counts_all_of_it() -> None:
    [output] = collect([out("a\rb" + "x" * 500_000)], SMALL)
    assert output["text"] == "b" + "x" * 49 + MARK.format("500,001")


def test_events_of_a_stream_end_with_a_marker_at_the_limit() -> None:
    events: list[Event] = []
    collector = Collector(SMALL, events.append)
    for text in ("x" * 40, "y" * 40, "z"):
        collector.add(out(text))
    assert [event["output"]["text"] for event in events] == ["x" * 40, "y" * 10 + MARKER]


def test_fifty_million_characters_in_one_message() -> None:
    [output] = collect([out("x" * 50_000_000 + "\n")])
    assert output["text"] == "x" * 10_000_000 + "\n... [truncated: 50,000,001 characters in all]"


def peak_of(messages: Iterable[Message], limits: Limits) -> tuple[int, list[str]]:
    """The most memory that collecting took, in bytes, and the outputs."""
    collector = Collector(limits)
    tracemalloc.start()
    try:
        for msg in messages:
            collector.add(msg)
        shown = brief(collector.outputs())
        return tracemalloc.get_traced_memory()[1], shown
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("text", "tail"),
    [
        pytest.param("0123456789" * 100 + "\n", "characters in all]", id="far over the limit"),
        pytest.param("\rframe", "frame", id="frames of one line"),
        pytest.param("\r\x1b[38;5;{}mframe", "frame", id="coloured frames"),
        pytest.param("|\b/\b-\b", "-", id="spinner"),
    ],
)
def test_memory_is_bounded_whatever_is_written(text: str, tail: str) -> None:
    limits = Limits(stream=100_000)
    few, _ = peak_of((out(text) for _ in range(2_000)), limits)
    many, shown = peak_of((out(text) for _ in range(8_000)), limits)
    assert shown[0].endswith(tail)
    assert many < few + 100_000


def test_tiny_messages_take_little_more_than_their_text() -> None:
    peak, [shown] = peak_of((out(f"{i % 10}\n") for i in range(200_000)), Limits())
    assert len(shown) == 2 + 400_000
    assert peak < 4_000_000  # a str of its own for each message would be 12 MB


def test_unknown_kinds_with_large_content_leave_nothing() -> None:
    assert collect([message("comm_msg", data={"x": "y" * 1000})], SMALL) == []
