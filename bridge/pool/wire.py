"""Jupyter messages as signed zmq frames, both ways.

The format is the messaging protocol's (jupyter-client.readthedocs.io, "The Wire Protocol"). It is written
out here, not taken from `jupyter_client.session.Session`, because a Session is not made for two threads and
parses the date of every header, which costs more than all the rest of a small output message.
"""

from __future__ import annotations

import hashlib
import hmac
import itertools
import json
import os
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

DELIMITER = b"<IDS|MSG>"
PROTOCOL = "5.3"

Message = dict[str, Any]
Frame = bytes | memoryview


class BadMessage(ValueError):
    """Frames that are no message of this connection: malformed, or signed with another key."""


@dataclass(slots=True)
class Letter:
    """A message as it travels: routing, the four JSON parts as they are, and the buffers.

    `parts` are header, parent header, metadata and content. Only what somebody asks for is parsed.
    """

    idents: list[bytes]
    parts: list[bytes]
    buffers: list[bytes]

    @property
    def header(self) -> Message:
        """The header, parsed; empty when it is no object."""
        return self.part(0)

    def part(self, number: int) -> Message:
        """One of the parts, parsed; empty when it is no object."""
        try:
            parsed = _parse(self.parts[number])
        except ValueError:
            return {}
        return parsed if isinstance(parsed, dict) else {}

    def put(self, number: int, value: Mapping[str, Any]) -> None:
        """Replace one of the parts."""
        self.parts[number] = json.dumps(value).encode("ascii")


class Wire:
    """One end of a kernel's connection: builds and reads its messages; safe in several threads.

    `key` signs (empty: no signatures) with the hash that `scheme` names, such as `"hmac-sha256"`.
    """

    def __init__(self, key: bytes, scheme: str = "hmac-sha256") -> None:
        self.session = uuid.uuid4().hex
        self._auth = hmac.HMAC(key, digestmod=getattr(hashlib, scheme.split("-", 1)[1])) if key else None
        self._numbers = itertools.count()  # next() on it is atomic, so ids stay unique across threads

    def header(self, msg_type: str) -> dict[str, Any]:
        """A new header with an id that no other message of this process has."""
        return {
            "msg_id": f"{self.session}_{os.getpid()}_{next(self._numbers)}",
            "msg_type": msg_type,
            "username": "bridge",
            "session": self.session,
            "date": datetime.now(timezone.utc).isoformat().replace("+00:00", "Z"),
            "version": PROTOCOL,
        }

    def frames(
        self,
        header: Mapping[str, Any],
        content: Mapping[str, Any],
        *,
        parent: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
        buffers: Sequence[Frame] = (),
    ) -> list[Frame]:
        """The frames to send; TypeError when a part is not JSON, ValueError when a buffer has strides."""
        # ASCII JSON, so that a lone surrogate in a cell's text travels as an escape.
        parts = [json.dumps(part).encode("ascii") for part in (header, parent or {}, metadata or {}, content)]
        return [DELIMITER, self._sign(parts), *parts, *map(_flat, buffers)]

    def message(self, frames: Sequence[bytes]) -> Message:
        """The message in the form jupyter_client gives it, dates left as text; BadMessage when it is none."""
        try:
            start = frames.index(DELIMITER) + 1
            signature, parts = frames[start], frames[start + 1 : start + 5]
            if not hmac.compare_digest(signature, self._sign(parts)):
                raise BadMessage("wrong signature")
            header, parent, metadata, content = map(_parse, parts)
            return {
                "header": header,
                "msg_id": header["msg_id"],
                "msg_type": header["msg_type"],
                "parent_header": parent,
                "metadata": metadata,
                "content": content,
                "buffers": [memoryview(frame) for frame in frames[start + 5 :]],
            }
        except (ValueError, KeyError, IndexError, TypeError) as error:
            raise BadMessage(f"{type(error).__name__}: {error}") from error

    def open(self, frames: list[bytes]) -> Letter:
        """The message in these frames, unparsed; BadMessage when it is none of this connection."""
        try:
            start = frames.index(DELIMITER)
        except ValueError:
            raise BadMessage("no delimiter") from None
        parts = frames[start + 2 : start + 6]
        if len(parts) < 4 or not hmac.compare_digest(frames[start + 1], self._sign(parts)):
            raise BadMessage("wrong signature")
        return Letter(frames[:start], parts, frames[start + 6 :])

    def seal(self, letter: Letter) -> list[bytes]:
        """The frames of a message, signed with this end's key."""
        return [*letter.idents, DELIMITER, self._sign(letter.parts), *letter.parts, *letter.buffers]

    def letter(
        self,
        msg_type: str,
        content: Mapping[str, Any],
        *,
        idents: Sequence[bytes] = (),
        parent: bytes = b"{}",
        metadata: Mapping[str, Any] | None = None,
    ) -> Letter:
        """A new message; `parent` is the header of the one it answers, as that travelled."""
        header, rest = self.header(msg_type), (metadata or {}, content)
        packed = [json.dumps(part).encode("ascii") for part in (header, *rest)]
        return Letter(list(idents), [packed[0], parent, packed[1], packed[2]], [])

    def _sign(self, parts: Sequence[bytes]) -> bytes:
        if self._auth is None:
            return b""
        mac = self._auth.copy()
        mac.update(b"".join(parts))
        return mac.hexdigest().encode("ascii")


def _flat(buffer: Frame) -> memoryview:
    view = memoryview(buffer)
    if not view.contiguous:
        raise ValueError("a buffer must be contiguous")
    return view.cast("B")


def _parse(part: bytes) -> Any:
    """The JSON value of one frame; bytes that are no UTF-8 cost a character, not the message."""
    return json.loads(part.decode("utf-8", errors="replace"))
