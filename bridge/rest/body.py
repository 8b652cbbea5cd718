"""Request bodies: read within a limit, parsed strictly, and checked against declared fields.

A field is declared once (`Field`); the same declaration reads the body, words the error and describes
itself in the OpenAPI document.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from bridge.errors import BadRequest, BodyTooLarge, UnsupportedMedia
from bridge.rest.url import query_text

BODY_LIMIT = 64 * 1024 * 1024
"""Bytes that one request's body may have, unless told otherwise."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A type of field: how an error names it, its JSON schema, and the test for it.

    `from_text` turns a URL parameter into a value; what it cannot turn it hands back to fail the test.
    """

    words: str
    schema: Mapping[str, Any]
    holds: Callable[[Any], bool]
    from_text: Callable[[str], Any] = str


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a body or one URL parameter; an absent or null optional one has the value `default`."""

    name: str
    kind: Kind
    about: str
    required: bool = False
    default: Any = None

    def check(self, value: Any) -> Any:
        """The field's value, None standing for an absent one; raises BadRequest naming the field."""
        if value is None:
            if self.required:
                raise BadRequest(f"the field `{self.name}` is missing")
            return self.default
        if not self.kind.holds(value):
            raise BadRequest(f"the field `{self.name}` must be {self.kind.words}")
        return value


def _is_text(value: Any) -> bool:
    if not isinstance(value, str):
        return False
    try:
        # A lone surrogate, which JSON can spell, is no character: no file, kernel or database takes it.
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_seconds(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and 0 < value <= 1e9 and math.isfinite(value)


def _is_mapping(value: Any) -> bool:
    return isinstance(value, dict) and all(_is_text(key) and _is_text(value[key]) for key in value)


def _flag_from_text(text: str) -> Any:
    return {"1": True, "true": True, "": True, "0": False, "false": False}.get(text.lower(), text)


TEXT = Kind("a string", {"type": "string"}, _is_text)
NAME = Kind(
    "a string of 1 to 255 characters",
    {"type": "string", "minLength": 1, "maxLength": 255},
    lambda value: _is_text(value) and 1 <= len(value) <= 255,
)
SESSION_ID = Kind(
    "1 to 64 letters, digits, `_` and `-`",
    {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$"},
    lambda value: isinstance(value, str) and re.fullmatch(r"[A-Za-z0-9_-]{1,64}", value) is not None,
)
FLAG = Kind("true or false", {"type": "boolean"}, lambda value: isinstance(value, bool), _flag_from_text)
COUNT = Kind(
    "a whole number, 0 or above",
    {"type": "integer", "minimum": 0},
    lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= 0,
    lambda text: int(text) if text.isascii() and text.isdigit() else text,
)
SECONDS = Kind("a number of seconds above 0", {"type": "number", "exclusiveMinimum": 0}, _is_seconds)
TEXTS = Kind(
    "a list of strings",
    {"type": "array", "items": {"type": "string"}},
    lambda value: isinstance(value, list) and all(map(_is_text, value)),
)
MAPPING = Kind(
    "an object whose values are strings",
    {"type": "object", "additionalProperties": {"type": "string"}},
    _is_mapping,
)


def choice(*words: str) -> Kind:
    """A string that is one of `words`."""
    spelled = " or ".join(json.dumps(word) for word in words)
    return Kind(spelled, {"type": "string", "enum": list(words)}, lambda value: value in words)


class Stream(Protocol):
    """What a body is read from: `wsgi.input`."""

    def read(self, size: int, /) -> bytes: ...


def read_body(environ: Mapping[str, Any], limit: int) -> bytearray:
    """The bytes of a WSGI request's body.

    Raises BodyTooLarge, before anything is read where the length is declared, and BadRequest for a body
    that is malformed or ends early. At most `limit` bytes and one more are ever held.
    """
    stream: Stream = environ["wsgi.input"]
    if environ.get("wsgi.input_terminated"):
        data = _read_up_to(stream, limit + 1)
        if len(data) > limit:
            raise _too_large(limit)
        return data
    declared = environ.get("CONTENT_LENGTH") or "0"
    if not (declared.isascii() and declared.isdecimal()):
        raise BadRequest("the Content-Length header is not a number")
    length = int(declared)
    if length > limit:
        raise _too_large(limit)
    data = _read_up_to(stream, length)
    if len(data) < length:
        raise BadRequest("the body ended before its Content-Length")
    return data


def parse_body(data: bytes | bytearray, content_type: str | None, fields: Sequence[Field]) -> dict[str, Any]:
    """A body's checked fields by name, every declared one among them; undeclared ones are dropped.

    An empty body counts as `{}`, of whatever type. Raises UnsupportedMedia and BadRequest.
    """
    if not data.strip():
        return check_fields({}, fields)
    media = (content_type or "").partition(";")[0].strip().lower()
    if media != "application/json":
        raise UnsupportedMedia("the body must be sent as `Content-Type: application/json`")
    try:
        body = json.loads(data.decode(), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"the body is not JSON in UTF-8: {error}") from None
    if not isinstance(body, dict):
        raise BadRequest("the body must be a JSON object")
    return check_fields(body, fields)


def check_fields(body: Mapping[str, Any], fields: Sequence[Field]) -> dict[str, Any]:
    """The declared fields' values by name; raises BadRequest for the first that is missing or wrong."""
    return {field.name: field.check(body.get(field.name)) for field in fields}


def parse_query(query: str, fields: Sequence[Field]) -> dict[str, Any]:
    """As `check_fields`, for the parameters of a query string."""
    found = {}
    for field in fields:
        text = query_text(query, field.name)
        found[field.name] = None if text is None else field.kind.from_text(text)
    return check_fields(found, fields)


def _read_up_to(stream: Stream, size: int) -> bytearray:
    """At most `size` bytes; fewer when the stream ends before."""
    data = bytearray()
    while size > 0:
        try:
            part = stream.read(min(size, 1 << 20))
        except (OSError, ValueError) as error:  # the client went silent, or its chunks are malformed
            raise BadRequest(f"the body could not be read: {error}") from error
        if not part:
            break
        data += part
        size -= len(part)
    return data


def _refuse_constant(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


def _too_large(limit: int) -> BodyTooLarge:
    return BodyTooLarge(f"the body is larger than the limit of {limit:,} bytes")
