"""An execution's events as server-sent events (the WHATWG HTML standard, 9.2): `id`, `event`, `data` as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from bridge.errors import BadRequest
from bridge.rest.replies import dump

if TYPE_CHECKING:
    from bridge.engine.feed import Feed

EVENT_STREAM = "text/event-stream"


def wanted(environ: Mapping[str, Any]) -> bool:
    """Whether the client asks for a stream of events instead of one reply."""
    return EVENT_STREAM in environ.get("HTTP_ACCEPT", "").lower()


def position(environ: Mapping[str, Any], after: int) -> int:
    """The number of the last event that the client has; BadRequest for a Last-Event-ID that is none."""
    text = environ.get("HTTP_LAST_EVENT_ID", "").strip()
    if not text:
        return after
    if not (text.isascii() and text.isdigit()):
        raise BadRequest("the header `Last-Event-ID` must be the number of an event")
    return int(text)


def stream(feed: Feed, after: int, every: float) -> Iterator[bytes]:
    """The body: the events after that number, and a comment every `every` seconds in which there is none."""
    ended = False
    while not ended:
        events, ended = feed.after(after, every)
        if not events and not ended:
            yield b": still there\n\n"
        for after, event in events:
            head = f"id: {after}\nevent: {event['event']}\ndata: "
            yield head.encode() + dump(event) + b"\n"
