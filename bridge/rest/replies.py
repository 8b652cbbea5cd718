"""What goes back over HTTP: strict JSON in UTF-8, and the one shape of an error."""

from __future__ import annotations

import json
import math
from http import HTTPStatus
from typing import Any

from bridge.errors import BridgeError, ShuttingDown

JSON = "application/json"
INTERNAL = "an internal error; the server's log has the details"


def dump(value: Any) -> bytes:
    """A reply's bytes; what JSON cannot say (NaN, infinities) is null, a lone surrogate is escaped."""
    try:
        text = _encode(value, ascii_only=False)
    except ValueError:
        text = _encode(_finite(value), ascii_only=False)
    try:
        return text.encode() + b"\n"
    except UnicodeEncodeError:
        return _encode(_finite(value), ascii_only=True).encode() + b"\n"


def error_body(code: str, message: str) -> bytes:
    """The body of every answer that is not a success."""
    return dump({"error": {"code": code, "message": message}})


def body_of(error: BridgeError) -> bytes:
    """The body for one of our own errors."""
    return error_body(error.code, str(error))


def body_of_status(status: int, message: str = "") -> bytes:
    """The body for a status that no error of ours stands for: 405, 408, 500 and the like."""
    phrase = HTTPStatus(status).phrase
    return error_body(phrase.title().replace(" ", ""), message or phrase)


def failed_execution(error: BaseException) -> dict[str, Any]:
    """An execution reply for a run that ended in an error of the server's.

    It is what a client gets when the answer has begun, so that no status can be sent any more.
    """
    from bridge.engine.replies import failed  # not before the socket listens: it takes long to import

    name, message = "InternalServerError", INTERNAL
    if isinstance(error, ShuttingDown):
        name, message = "ServerShutdown", str(error)
    elif isinstance(error, BridgeError):
        name, message = error.code, str(error)
    return failed(name, message)


def _encode(value: Any, *, ascii_only: bool) -> str:
    return json.dumps(value, ensure_ascii=ascii_only, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
