"""Text and JSON made safe: strict JSON out, whatever a kernel sent, and text without escape sequences."""

from __future__ import annotations

import base64
import json
import math
import re
from typing import Any, Final

_STRING_BODY: Final = r"[^\x07\x1b]*"
_ESCAPE_SOURCE: Final = (
    r"\x1b(?:"
    r"\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor moves, erasing
    rf"|[\]PX^_]{_STRING_BODY}(?:\x07|\x1b\\)"  # OSC, DCS, ...: titles, hyperlinks
    r"|[ -/]*[0-OQ-WYZ\\`-~]"  # the short ones: ESC ( B, ESC 7, ESC M
    r")"
)

ESCAPE: Final = re.compile(_ESCAPE_SOURCE)
"""One whole terminal escape sequence (ECMA-48)."""

PARTIAL_ESCAPE: Final = re.compile(rf"\x1b(?:\[[0-?]*[ -/]*|[\]PX^_]{_STRING_BODY}\x1b?|[ -/]*)\Z")
"""The beginning of an escape sequence at the end of a text."""

PARTIAL_SPAN: Final = 256
"""How many characters before the end a partial escape sequence is looked for."""


def partial_escape_at(text: str) -> int:
    """Where the unfinished escape sequence at the text's end begins; the text's length if there is none."""
    found = PARTIAL_ESCAPE.search(text, max(0, len(text) - PARTIAL_SPAN))
    return found.start() if found else len(text)


def strip_ansi(text: str) -> str:
    """The text without terminal escape sequences, as a person would read it."""
    return ESCAPE.sub("", text) if "\x1b" in text else text


def escape_surrogates(text: str) -> str:
    r"""The text with each lone surrogate written as `\udXXX`, so that it can be encoded as UTF-8."""
    if text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode("utf-8")
    return text


def scrub(value: Any) -> Any:
    """The value as strict JSON: NaN and infinities null, keys text, bytes base64, lone surrogates escaped.

    What JSON has no form for becomes its `str`. Raises RecursionError for a value nested too deeply.
    """
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, str):
        return escape_surrogates(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {escape_surrogates(str(key)): scrub(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [scrub(item) for item in value]
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(value).decode("ascii")
    return escape_surrogates(str(value))


def strict_json(value: Any) -> tuple[Any, int]:
    """The scrubbed value and the length of its JSON text in characters.

    A value that is strict JSON already, the usual case, is given back as it is: the C encoder finds out.
    Raises RecursionError for a value nested too deeply.
    """
    try:
        encoded = json.dumps(value, ensure_ascii=False, allow_nan=False)
        encoded.encode("utf-8")
    except (ValueError, TypeError):  # NaN; a lone surrogate (UnicodeEncodeError is a ValueError); bytes
        value = scrub(value)
        encoded = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return value, len(encoded)
