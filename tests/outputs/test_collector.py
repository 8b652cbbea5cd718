"""What each kind of iopub message does to the list of outputs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bridge.outputs import Collector, Event, strip_ansi
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
    validate,
)


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        pytest.param([out("one\n"), clear(wait=True)], ["o:one\n"], id="delayed clear as the last act"),
        pytest.param([out("a"), clear(wait=True), out("b")], ["o:b"], id="delayed clear, then output"),
        pytest.param(
            [out("a"), clear(wait=True), out(""), update("x", "k")], ["o:a"], id="no output clears not"
        ),
        pytest.param([out("a"), clear(wait=True), error("E")], ["!E"], id="an error is output"),
        pytest.param([out("a"), clear(wait=True), display("d")], ["d:d"], id="a display is output"),
        pytest.param([out("a"), clear()], [], id="clear at once"),
        pytest.param(
            [out("a"), clear(wait=True), clear(), out("b"), out("c")], ["o:bc"], id="clear drops a delay"
        ),
        pytest.param([out("abc\r"), clear(), out("X")], ["o:X"], id="the line does not outlive a clear"),
        pytest.param(
            [out("p\n"), display("old", "k"), out("q\n"), display("old", "k"), update("new", "k")],
            ["o:p\n", "d:new", "o:q\n", "d:new"],
            id="every display with the id",
        ),
        pytest.param(
            [display("a", "k"), display("b", "k")], ["d:a", "d:b"], id="showing again updates nothing"
        ),
        pytest.param([update("new", "k")], [], id="an update makes no output"),
        pytest.param([display("a", "k"), update("b", "other")], ["d:a"], id="another id"),
        pytest.param(
            [display("a", "k"), clear(), update("b", "k"), out("alive")], ["o:alive"], id="cleared away"
        ),
        pytest.param(
            [display("a", "k"), clear(wait=True), update("b", "k")],
            ["d:b"],
            id="about to be cleared, still there",
        ),
        pytest.param(
            [display("a", "k"), clear(), display("c", "k"), update("b", "k")], ["d:b"], id="id used anew"
        ),
        pytest.param(
            [display("a", "k", "execute_result"), update("b", "k")], ["r:b"], id="a result can be updated"
        ),
        pytest.param(
            [out("a"), display("d"), out("b")], ["o:a", "d:d", "o:b"], id="a display parts a stream"
        ),
        pytest.param(
            [
                message("status", execution_state="busy"),
                message("execute_input", code="x", execution_count=1),
                out("a"),
                message("comm_open", comm_id="c", target_name="t", data={}),
                message("comm_msg", comm_id="c", data={}),
                message("debug_event"),
                out("b"),
            ],
            ["o:ab"],
            id="other types",
        ),
    ],
)
def test_outputs(messages: list[Message], expected: list[str]) -> None:
    assert brief(collect(messages)) == expected


def test_shapes() -> None:
    shown = {"text/plain": "7", "text/html": ["<b>", "7</b>"]}
    meta = {"text/html": {"isolated": True}}
    outputs = collect(
        [
            message(
                "execute_result", data=shown, metadata=meta, execution_count=3, transient={"display_id": "k"}
            ),
            message("display_data", data=shown, metadata={}, transient={"display_id": "j"}),
            error("ValueError", "bad", ["\x1b[31mTraceback\x1b[0m", "ValueError: bad"]),
            err("e"),
        ]
    )
    data = {"text/plain": "7", "text/html": "<b>7</b>"}
    assert outputs == [
        {"output_type": "execute_result", "data": data, "metadata": meta, "execution_count": 3},
        {"output_type": "display_data", "data": data, "metadata": {}},
        {
            "output_type": "error",
            "ename": "ValueError",
            "evalue": "bad",
            "traceback": ["\x1b[31mTraceback\x1b[0m", "ValueError: bad"],
        },
        {"output_type": "stream", "name": "stderr", "text": "e"},
    ]


def test_an_update_replaces_metadata_and_keeps_the_kind() -> None:
    collector = Collector()
    collector.add(
        message(
            "execute_result",
            data={"a/b": "1"},
            metadata={"m": 1},
            execution_count=2,
            transient={"display_id": "k"},
        )
    )
    before = collector.outputs()
    collector.add(
        message("update_display_data", data={"c/d": "2"}, metadata={}, transient={"display_id": "k"})
    )
    assert before[0]["data"] == {"a/b": "1"}
    assert collector.outputs() == [
        {"output_type": "execute_result", "data": {"c/d": "2"}, "metadata": {}, "execution_count": 2}
    ]


def test_outputs_belong_to_the_caller() -> None:
    collector = Collector()
    collector.add(display("a", "k"))
    taken = collector.outputs()
    taken[0]["data"]["text/plain"] = "spoilt"
    taken.clear()
    assert brief(collector.outputs()) == ["d:a"]


E = ("ValueError", "bad", ["Traceback", "ValueError: bad"])


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        pytest.param([out("a")], ["o:a", "!ValueError"], id="added"),
        pytest.param([], ["!ValueError"], id="the only one"),
        pytest.param([out("a"), error(*E)], ["o:a", "!ValueError"], id="there already"),
        pytest.param(
            [error("ValueError", "bad", ["coloured"])], ["!ValueError"], id="there with another traceback"
        ),
        pytest.param([error(*E), err("thread")], ["e:thread", "!ValueError"], id="moved to the end"),
        pytest.param([error("ValueError", "worse")], ["!ValueError", "!ValueError"], id="another one"),
        pytest.param([error("ValueError", "bad", ["else"]), out("a")], ["!ValueError", "o:a", "!ValueError"]),
        pytest.param(
            [out("a"), clear(wait=True)], ["!ValueError"], id="counts as output for a delayed clear"
        ),
    ],
)
def test_error_item(messages: list[Message], expected: list[str]) -> None:
    collector = Collector()
    for msg in messages:
        collector.add(msg)
    collector.error_item(*E)
    collector.error_item(*E)
    validate(collector.outputs())
    assert brief(collector.outputs()) == expected


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param(
            {"application/json": {"x": NAN, "y": [INF, -INF, 1.5]}}, {"x": None, "y": [None, None, 1.5]}
        ),
        pytest.param(
            {"application/vnd.plotly.v1+json": {"s": "\ud800", "\udfff": 1}}, {"s": "\\ud800", "\\udfff": 1}
        ),
        pytest.param({"application/json": None}, None, id="null is JSON"),
        pytest.param({"application/geo+json": [1, True, "é", None]}, [1, True, "é", None]),
        pytest.param({"text/html": "a\udc80b"}, "a\\udc80b"),
        pytest.param({"text/plain": 5}, "5"),
        pytest.param({"text/x": {"a": NAN}}, '{"a": null}', id="not text, not a JSON type"),
        pytest.param({"text/x": ["a", "b"]}, "ab"),
        pytest.param({"image/png": b"\x89PNG"}, "iVBORw=="),
    ],
)
def test_data_is_strict_json_and_valid(data: dict[str, Any], expected: Any) -> None:
    [output] = collect([bundle(data)])
    assert list(output["data"].values()) == [expected]


def test_odd_bundles_are_valid() -> None:
    outputs = collect(
        [
            bundle({"text/html": None, "text/plain": "x"}, {"k": NAN, "\ud800": "\ud800"}),
            message("display_data", data=None, metadata=[1], transient=None),
            message("display_data", data={"text/plain": "y"}),
            message("execute_result", data={}, metadata={}, execution_count=-1),
            message("error", ename=None, evalue=7, traceback="text"),
            message("stream", text="t"),
        ]
    )
    assert outputs[0]["data"] == {"text/plain": "x"}
    assert outputs[0]["metadata"] == {"k": None, "\\ud800": "\\ud800"}
    assert (outputs[3]["execution_count"], outputs[4]["evalue"], outputs[5]["name"]) == (None, "7", "stdout")


def test_lone_surrogates_in_a_stream_are_escaped() -> None:
    assert brief(collect([out("before\n\ud800\nafter\n"), err("\udcff")])) == [
        "o:before\n\\ud800\nafter\n",
        "e:\\udcff",
    ]
    [output] = collect([error("E\ud800", "\ud800", ["\ud800"])])
    assert (output["ename"], output["evalue"], output["traceback"]) == ("E\\ud800", "\\ud800", ["\\ud800"])


def events_of(messages: list[Message]) -> list[Event]:
    events: list[Event] = []
    collector = Collector(on_event=events.append)
    for msg in messages:
        collector.add(msg)
    json.dumps(events, allow_nan=False)
    return events


def test_events_tell_each_change() -> None:
    stream = {"output_type": "stream", "name": "stdout"}
    shown = {"output_type": "display_data", "data": {"text/plain": "d"}, "metadata": {}}
    assert events_of(
        [
            out("a"),
            out(""),
            out("\rb"),
            clear(wait=True),
            display("d", "k"),
            update("e", "k"),
            clear(),
            error("E"),
        ]
    ) == [
        {"event": "output", "output": {**stream, "text": "a"}},
        {"event": "output", "output": {**stream, "text": "\rb"}},
        {"event": "clear"},
        {"event": "output", "output": shown, "display_id": "k"},
        {"event": "update", "display_id": "k", "data": {"text/plain": "e"}, "metadata": {}},
        {"event": "clear"},
        {"event": "output", "output": {"output_type": "error", "ename": "E", "evalue": "", "traceback": []}},
    ]


def test_an_update_of_an_earlier_cells_display_is_an_event_and_a_clear_of_nothing_is_none() -> None:
    assert [
        event["event"] for event in events_of([clear(), update("e", "k"), clear(wait=True), out("a")])
    ] == [
        "update",
        "output",
    ]


def test_an_event_may_look_at_the_outputs() -> None:
    seen: list[list[str]] = []
    collector = Collector(on_event=lambda event: seen.append(brief(collector.outputs())))
    collector.add(out("a"))
    collector.add(display("d"))
    assert seen == [["o:a"], ["o:a", "d:d"]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("\x1b[31mred\x1b[39;49;00m", "red"),
        ("\x1b[38;2;1;2;3mx\x1b[K", "x"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x07", "link"),
        ("\x1b(Bx\x1b7", "x"),
        ("[31m é\n", "[31m é\n"),
    ],
)
def test_strip_ansi(text: str, expected: str) -> None:
    assert strip_ansi(text) == expected
