"""The parts of a request's address, from the bytes that were sent.

Servers decode a path before the application sees it, and `%2F` in a state's name is then lost or kept
encoded, as the server pleases. So routes are matched on the path as it was sent, in one canonical
encoding, and the pieces are decoded afterwards.
"""

from __future__ import annotations

import re
from urllib.parse import quote, unquote_plus, unquote_to_bytes

from bridge.errors import BadRequest

_PLAIN = re.compile(r"[A-Za-z0-9/_.~-]+")
"""Paths that are canonical as they are: nothing in them is to be decoded or encoded."""


def canonical_path(uri: str | None, path_info: str, mounted_at: str = "") -> str:
    """A request's path, each segment percent-encoded in one way, whatever way the client chose.

    From `REQUEST_URI` where the server gives it (cheroot does), else from the decoded `PATH_INFO`, in
    which an encoded slash cannot be told from a plain one any more. `mounted_at` is `SCRIPT_NAME`.
    """
    if uri is None or not uri.startswith("/"):
        return quote(_bytes(path_info)) or "/"
    path = uri.partition("?")[0]
    if not mounted_at and _PLAIN.fullmatch(path):
        return path
    parts = path.split("/")
    path = "/".join(quote(unquote_to_bytes(_bytes(part)), safe="") for part in parts)
    return path.removeprefix(quote(_bytes(mounted_at))) or "/"


def path_text(segment: str) -> str:
    """The name that one segment of a canonical path stands for; raises BadRequest when it is not UTF-8."""
    try:
        return unquote_to_bytes(segment).decode()
    except UnicodeDecodeError:
        raise BadRequest(f"the name {segment!r} in the path is not percent-encoded UTF-8") from None


def query_values(query: str, name: str) -> list[bytes]:
    """Every value of one parameter of a query string, as bytes, in their order."""
    values = []
    for part in query.split("&"):
        key, _, value = part.partition("=")
        if unquote_plus(key) == name:
            values.append(unquote_to_bytes(_bytes(value.replace("+", " "))))
    return values


def query_text(query: str, name: str) -> str | None:
    """The last value of one parameter of a query string, None without; raises BadRequest if not UTF-8."""
    values = query_values(query, name)
    try:
        return values[-1].decode() if values else None
    except UnicodeDecodeError:
        raise BadRequest(f"the URL parameter `{name}` is not percent-encoded UTF-8") from None


def _bytes(text: str) -> bytes:
    # WSGI text is latin-1 of the bytes sent; anything else can only come from a hand-made environ.
    return text.encode("latin-1", "replace")
