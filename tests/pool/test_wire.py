"""Messages as frames: what jupyter_client's own Session reads and writes."""

from __future__ import annotations

from typing import Any

import pytest
from jupyter_client.session import Session

from bridge.pool.wire import BadMessage, Wire

CONTENTS: list[dict[str, Any]] = [
    {},
    {"code": "print('é', '\N{GRINNING FACE}')"},
    {"nested": [1, 2.5, None, True, {"x": "y"}]},
]


@pytest.mark.parametrize("content", CONTENTS)
def test_a_session_reads_what_the_wire_writes(content: dict[str, Any]) -> None:
    wire, session = Wire(b"key"), Session(key=b"key")
    header = wire.header("execute_request")
    frames = wire.frames(header, content, metadata={"m": 1}, buffers=[b"raw", memoryview(b"view")])
    _, parts = session.feed_identities([bytes(frame) for frame in frames])
    message = session.deserialize(parts)
    assert message["content"] == content
    assert message["metadata"] == {"m": 1}
    assert message["header"]["msg_id"] == header["msg_id"]
    assert [bytes(buffer) for buffer in message["buffers"]] == [b"raw", b"view"]


@pytest.mark.parametrize("content", CONTENTS)
def test_the_wire_reads_what_a_session_writes(content: dict[str, Any]) -> None:
    wire, session = Wire(b"key"), Session(key=b"key")
    parent = session.msg("execute_request")
    frames = session.serialize(session.msg("stream", content, parent=parent), ident=[b"stream.topic"])
    message = wire.message([*frames, b"raw"])
    assert (message["msg_type"], message["content"]) == ("stream", content)
    assert message["parent_header"]["msg_id"] == parent["header"]["msg_id"]
    assert [bytes(buffer) for buffer in message["buffers"]] == [b"raw"]


def test_a_lone_surrogate_travels() -> None:
    wire = Wire(b"key")
    frames = wire.frames(wire.header("execute_request"), {"code": "'\ud800'"})
    assert wire.message([bytes(frame) for frame in frames])["content"] == {"code": "'\ud800'"}


def broken(change: str) -> list[bytes]:
    wire = Wire(b"key")
    frames = [bytes(frame) for frame in wire.frames(wire.header("status"), {})]
    if change == "signature":
        frames[1] = b"0" * 64
    elif change == "content":
        frames[5] = b'{"execution_state": "idle"}'
    elif change == "delimiter":
        del frames[0]
    elif change == "short":
        frames = frames[:4]
    return frames


@pytest.mark.parametrize("change", ["signature", "content", "delimiter", "short"])
def test_what_is_no_message_of_this_connection_is_refused(change: str) -> None:
    wire = Wire(b"key")
    assert wire.message(broken("nothing"))["msg_type"] == "status"
    with pytest.raises(BadMessage):
        wire.message(broken(change))


def test_text_that_is_no_utf8_costs_a_character_only() -> None:
    wire = Wire(b"")
    frames = [bytes(frame) for frame in wire.frames(wire.header("stream"), {"text": "a?b"})]
    frames[5] = frames[5].replace(b"?", b"\xff")
    assert wire.message(frames)["content"] == {"text": "a\N{REPLACEMENT CHARACTER}b"}


def test_strided_buffers_are_refused_before_they_reach_the_sockets() -> None:
    wire = Wire(b"key")
    with pytest.raises(ValueError, match="contiguous"):
        wire.frames(wire.header("bridge_request"), {}, buffers=[memoryview(b"abcdef")[::2]])
