"""How large outputs may be, and what becomes of those that are larger."""

from __future__ import annotations

import json
import logging
import re
from dataclasses import dataclass
from typing import Any, Final

from bridge.outputs.text import escape_surrogates, scrub, strict_json

log = logging.getLogger(__name__)

MARKER: Final = "\n... [truncated]"
"""What follows a text that was cut at its limit."""

# The pattern by which the notebook format allows any JSON as a representation, and not just text.
_JSON_MIME: Final = re.compile(r"application/(.*\+)?json\Z")


@dataclass(frozen=True, slots=True)
class Limits:
    """The sizes up to which outputs are kept whole.

    `text` is in characters, for any one representation that is not an image (an SVG is text); `image` is in
    bytes of the decoded image; `stream` is in characters, for all the stream text that one cell shows.
    """

    text: int = 1_000_000
    image: int = 10_000_000
    stream: int = 10_000_000


def stream_marker(total: int) -> str:
    """What follows stream text that was cut, given the number of characters there would have been."""
    return f"\n... [truncated: {total:,} characters in all]"


def cut_text(text: str, limit: int) -> str:
    """The text, cut after `limit` characters and marked when it is longer; lone surrogates escaped."""
    if len(text) > limit:
        return escape_surrogates(text[:limit]) + MARKER
    return escape_surrogates(text)


def fit_bundle(data: Any, metadata: Any, limits: Limits) -> tuple[dict[str, Any], dict[str, Any]]:
    """A display's data and metadata as the notebook format allows them and within the limits.

    `text/plain` over the limit is cut, a richer representation over its limit is dropped together with its
    metadata. When nothing is left of a display, a line of plain text says what was dropped.
    """
    kept: dict[str, Any] = {}
    dropped: dict[str, str] = {}
    for key, value in data.items() if isinstance(data, dict) else ():
        mime = escape_surrogates(str(key))
        if value is None and not _JSON_MIME.match(mime):
            continue  # "no such representation", as some libraries write it
        if mime == "text/plain":
            kept[mime] = cut_text(_as_text(value), limits.text)
            continue
        try:
            value, size, limit, unit = _measure(mime, value, limits)
        except RecursionError:
            dropped[mime] = "nested too deeply"
            continue
        if size <= limit:
            kept[mime] = value
        else:
            dropped[mime] = f"{size:,} {unit}"
    if dropped and not kept:
        kept["text/plain"] = "\n".join(f"... [dropped: {mime}, {why}]" for mime, why in dropped.items())
    described = fit_metadata(metadata, limits)
    return kept, {key: value for key, value in described.items() if key not in dropped}


def fit_metadata(metadata: Any, limits: Limits) -> dict[str, Any]:
    """A display's metadata as strict JSON; empty when it is no mapping or longer than a text may be."""
    if not metadata or not isinstance(metadata, dict):
        return {}
    try:
        value, size = strict_json(metadata)
    except RecursionError:
        log.info("display metadata dropped: nested too deeply")
        return {}
    if size > limits.text:
        log.info("display metadata dropped: %d characters", size)
        return {}
    return dict(value)


def fit_error(ename: Any, evalue: Any, traceback: Any, limits: Limits) -> dict[str, Any]:
    """An `error` output; its value and each entry of its traceback are cut like any text."""
    entries = traceback if isinstance(traceback, (list, tuple)) else ()
    return {
        "output_type": "error",
        "ename": cut_text(_as_text(ename), limits.text),
        "evalue": cut_text(_as_text(evalue), limits.text),
        "traceback": [cut_text(_as_text(entry), limits.text) for entry in entries],
    }


def _measure(mime: str, value: Any, limits: Limits) -> tuple[Any, int, int, str]:
    """A rich representation scrubbed, its size, the size allowed, and the unit of both."""
    if _JSON_MIME.match(mime):
        value, size = strict_json(value)
        return value, size, limits.text, "characters"
    text = escape_surrogates(_as_text(value))
    if mime.startswith("image/") and mime != "image/svg+xml":
        return text, _decoded_size(text), limits.image, "bytes"
    return text, len(text), limits.text, "characters"


def _decoded_size(encoded: str) -> int:
    """How many bytes a base64 text stands for; some libraries break it into lines."""
    digits = len(encoded) - encoded.count("\n") - encoded.count("=", -4)
    return digits * 3 // 4


def _as_text(value: Any) -> str:
    """A representation as one text: lists of lines joined, None empty, anything else as JSON writes it."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, (list, tuple)) and all(isinstance(line, str) for line in value):
        return "".join(value)
    value = scrub(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, allow_nan=False)
