"""Who may talk to the server: pure decisions over the Host, the Origin and the token of a request.

The order is the caller's: Host first (a web page may have re-pointed its own name at this machine), then
Origin, then the token. Strings are header values as WSGI hands them over: latin-1 text of the bytes sent.
"""

from __future__ import annotations

import functools
import hmac
import ipaddress
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from bridge.errors import Forbidden, Unauthorized
from bridge.rest.url import query_values

_HOST = re.compile(r"(?:\[(?P<v6>[0-9a-f:.]+)\]|(?P<name>[a-z0-9_.-]+))(?::[0-9]{1,5})?", re.IGNORECASE)
_WILDCARDS = frozenset({"0.0.0.0", "::"})


def host_name(host: str) -> str | None:
    """The name or address in a Host header, lower case, without port and brackets; None if malformed."""
    found = _HOST.fullmatch(host)
    if found is None:
        return None
    if found["v6"]:
        return found["v6"].lower() if _address(found["v6"]) else None
    return found["name"].lower().removesuffix(".") or None


def origin_text(origin: str) -> str | None:
    """An origin in the form that is compared, `scheme://host[:port]` in lower case; None if malformed."""
    try:
        parts = urlsplit(origin.strip().lower())
    except ValueError:
        return None
    if not parts.scheme or not parts.netloc or parts.path not in ("", "/") or parts.query or parts.fragment:
        return None
    return f"{parts.scheme}://{parts.netloc}"


@dataclass(frozen=True, slots=True)
class Access:
    """The rules of one server.

    `hosts` are further names that clients may call the server by (see `host_name`): the bound address and
    those of `--allow-host`. `origins` are those of `--allow-origin` (see `origin_text`); `*` allows any.
    """

    token: bytes
    hosts: frozenset[str] = frozenset()
    origins: frozenset[str] = frozenset()

    def check_host(self, host: str | None) -> None:
        """Raises Forbidden unless the Host header names this server.

        Loopback names and addresses do, and `hosts`. A server that listens on every address is met under
        any of this machine's, so there an address does too: unlike a name, no web page can re-point it.
        """
        name = host_name(host or "")
        if name is None:
            raise Forbidden("the Host header is missing or malformed")
        address = _address(name)
        if name == "localhost" or name in self.hosts:
            return
        if address is not None and (address.is_loopback or self.hosts & _WILDCARDS):
            return
        raise Forbidden("the Host header is not a name of this server (--allow-host adds one)")

    def check_origin(self, origin: str | None, host: str | None) -> str | None:
        """The origin to name in CORS headers, None for none; raises Forbidden for a foreign one.

        A page of this server's own sends its Host as its origin and needs no CORS headers.
        """
        if origin is None:
            return None
        if "*" in self.origins:
            return origin
        text = origin_text(origin)
        if text is not None and text in self.origins:
            return origin
        if (
            text is not None
            and host is not None
            and text in (f"http://{host.lower()}", f"https://{host.lower()}")
        ):
            return None
        raise Forbidden("the Origin is foreign to this server (--allow-origin adds one)")

    def check_token(self, query: str, authorization: str | None) -> bool:
        """True when the request carries the token, False when none; raises Unauthorized for a wrong one."""
        shown = [*query_values(query, "token"), *_from_header(authorization)]
        if not shown:
            return False
        # Every candidate is compared, so that the time taken says nothing about which one was right.
        matches = [hmac.compare_digest(one, self.token) for one in shown]
        if not any(matches):
            raise unauthorized()
        return True


def unauthorized() -> Unauthorized:
    """The one error for a missing and for a wrong token, so that they cannot be told apart."""
    return Unauthorized(
        "the token is missing or wrong: send it as the URL parameter `token` "
        "or as the header `Authorization: Bearer TOKEN`"
    )


def _from_header(authorization: str | None) -> list[bytes]:
    scheme, _, value = (authorization or "").strip().partition(" ")
    if scheme.lower() not in ("bearer", "token"):
        return []
    return [value.strip().encode("latin-1", "replace")]


@functools.lru_cache(maxsize=64)  # it is the same few names, and to parse one takes longer than all else here
def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None
