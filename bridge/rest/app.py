"""The WSGI application: HTTP to dicts and back, one call into the engine per request, nothing else.

Every request goes the same way: Host, Origin, token (bridge.rest.auth), route, fields (bridge.rest.body),
the route's handler (bridge.rest.routes), JSON. Whatever goes wrong on it ends in `_refusal`.
"""

from __future__ import annotations

import functools
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING, Any

import bottle

from bridge.errors import BridgeError, ShuttingDown
from bridge.rest import events
from bridge.rest.auth import Access, unauthorized
from bridge.rest.body import BODY_LIMIT, parse_body, parse_query, read_body
from bridge.rest.events import EVENT_STREAM
from bridge.rest.openapi import document
from bridge.rest.pulse import EVERY, PULSE, Answer, Headers
from bridge.rest.replies import INTERNAL, JSON, body_of, body_of_status, dump
from bridge.rest.route import Route
from bridge.rest.routes import ROUTES
from bridge.rest.url import canonical_path, path_text

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse

    from bridge.engine import Kernel

log = logging.getLogger(__name__)

_ANSWER = "bridge.answer"
_ORIGIN = "bridge.origin"
_AUTHORISED = "bridge.authorised"
_METHODS = "GET, HEAD, POST, DELETE, OPTIONS"


@dataclass(frozen=True, slots=True)
class Site:
    """What an application serves: its engine, who may enter, and its limits.

    `body_limit` is in bytes, `every` in seconds between signs of life of a long answer. Once `closing` is
    set, every request is answered with 503.
    """

    kernel: Kernel
    access: Access
    body_limit: int = BODY_LIMIT
    every: float = EVERY
    closing: Event = field(default_factory=Event)


def make_app(site: Callable[[], Site]) -> bottle.Bottle:
    """The application; `site` is asked anew for each request, so it may be opened by the first."""
    app = _Application()
    # One place for every error page, in JSON; bottle's own are HTML.
    app.default_error_handler = _error_page
    app.add_hook("before_request", lambda: _admit(site()))
    app.add_hook("after_request", _finish)
    for route in ROUTES:
        app.route(route.rule, route.method, _callback(route, site))
    app.route("/openapi.json", "GET", _guarded(lambda: _json(document())))
    return app


class _Application(bottle.Bottle):  # type: ignore[misc]
    """Bottle's, whose answers can be kept alive, and are written into the log once they are out."""

    def wsgi(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        started = time.perf_counter()
        answer = environ[_ANSWER] = Answer(start_response)
        return _Body(super().wsgi(environ, answer.start), lambda: _log(environ, answer.status, started))


class _Body:
    """The pieces of a body, and what is to be done when the server is done with it."""

    def __init__(self, pieces: Iterable[bytes], at_end: Callable[[], None]) -> None:
        self._pieces = pieces
        self._at_end = at_end

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._pieces)

    def close(self) -> None:
        """The server is done with it: all of it is written, or nobody takes it any more."""
        try:
            if close := getattr(self._pieces, "close", None):
                close()
        finally:
            self._at_end()


def _log(environ: Mapping[str, Any], status: str, started: float) -> None:
    """A line for the request, without its query: the token."""
    milliseconds = (time.perf_counter() - started) * 1000
    method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
    log.info("%s %s %s %.1f ms", method, path, status.partition(" ")[0], milliseconds)


def _admit(site: Site) -> None:
    """Lets a request in or refuses it; runs before routing, so it also guards what is no route."""
    environ = bottle.request.environ
    environ["PATH_INFO"] = canonical_path(
        environ.get("REQUEST_URI"), environ["bottle.raw_path"], environ.get("SCRIPT_NAME", "")
    )
    host = environ.get("HTTP_HOST")
    try:
        site.access.check_host(host)
        environ[_ORIGIN] = site.access.check_origin(environ.get("HTTP_ORIGIN"), host)
        if environ["REQUEST_METHOD"] == "OPTIONS" and environ[_ORIGIN] is not None:
            raise _preflight()
        authorised = site.access.check_token(
            environ.get("QUERY_STRING", ""), environ.get("HTTP_AUTHORIZATION")
        )
        environ[_AUTHORISED] = authorised
        if not authorised and environ["PATH_INFO"] not in _PUBLIC:
            raise unauthorized()
        if site.closing.is_set():
            raise ShuttingDown("the server is shutting down")
    except BridgeError as error:
        raise _refusal(error) from None


_PUBLIC = frozenset(route.rule for route in ROUTES if route.public)


def _finish() -> None:
    """Adds what every answer carries."""
    for name, value in _common_headers(bottle.request.environ):
        bottle.response.set_header(name, value)


def _common_headers(environ: Mapping[str, Any]) -> Headers:
    headers = [("Cache-Control", "no-store"), ("X-Content-Type-Options", "nosniff")]
    if environ.get(_ORIGIN):
        headers += [("Access-Control-Allow-Origin", environ[_ORIGIN]), ("Vary", "Origin")]
    return headers


def _callback(route: Route, site: Callable[[], Site]) -> Callable[..., Any]:
    def answer(**names: str) -> Any:
        here, environ = site(), bottle.request.environ
        given: dict[str, Any] = {name: path_text(segment) for name, segment in names.items()}
        if route.method == "POST":
            data = read_body(environ, here.body_limit)
            given |= parse_body(data, environ.get("CONTENT_TYPE"), route.body)
        given |= parse_query(environ.get("QUERY_STRING", ""), route.query)
        if route.public:
            given["authorised"] = environ[_AUTHORISED]
        if route.streams:
            feed = route.handler(here.kernel, given)["feed"]
            return _begun(
                events.stream(feed, events.position(environ, given["after"]), here.every), EVENT_STREAM
            )
        if not route.executes:
            reply = _json(route.handler(here.kernel, given))
            bottle.response.status = route.status
            return reply
        if events.wanted(environ):
            return _followed(route, here, given)
        begun = [("Content-Type", JSON), *_common_headers(environ)]
        call = functools.partial(route.handler, here.kernel, given)
        return _json(PULSE.keep(environ[_ANSWER], begun, here.every, call))

    return _guarded(answer)


def _followed(route: Route, here: Site, given: dict[str, Any]) -> Any:
    """An execution as a stream of its events; an error that keeps it from beginning is answered as ever."""
    from bridge.engine.feed import Feed  # not before the socket listens

    feed, result = Feed(), Future[dict[str, Any]]()

    def call() -> None:  # a client that leaves does not end it
        try:
            result.set_result(route.handler(here.kernel, {**given, "feed": feed}))
        except BaseException as error:
            result.set_exception(error)
        finally:
            feed.close()

    threading.Thread(target=call, name="execution", daemon=True).start()
    first, _ = feed.after(0, here.every)
    return _begun(events.stream(feed, 0, here.every), EVENT_STREAM) if first else _json(result.result())


def _guarded(callback: Callable[..., Any]) -> Callable[..., Any]:
    """The callback with every error it can raise turned into an answer."""

    def guarded(**names: str) -> Any:
        try:
            return callback(**names)
        except BridgeError as error:
            if error.status >= 500 and not isinstance(error, ShuttingDown):
                log.error("%s %s", bottle.request.method, bottle.request.path, exc_info=error)
            raise _refusal(error) from None
        except bottle.HTTPResponse:
            raise
        except Exception:
            log.exception("%s %s", bottle.request.method, bottle.request.path)
            raise _answer(500, body_of_status(500, INTERNAL)) from None

    return guarded


def _json(value: dict[str, Any]) -> bytes:
    bottle.response.content_type = JSON
    return dump(value)


def _begun(body: Iterator[bytes], content_type: str = JSON) -> Iterator[bytes]:
    bottle.response.content_type = content_type
    return body


def _refusal(error: BridgeError) -> bottle.HTTPResponse:
    answer = _answer(error.status, body_of(error))
    if error.status == 401:
        answer.set_header("WWW-Authenticate", 'Bearer realm="jupyter-bridge"')
    return answer


def _answer(status: int, body: bytes) -> bottle.HTTPResponse:
    return bottle.HTTPResponse(body, status, headers={"Content-Type": JSON})


def _preflight() -> bottle.HTTPResponse:
    return bottle.HTTPResponse(
        b"",
        204,
        headers={
            "Access-Control-Allow-Methods": _METHODS,
            "Access-Control-Allow-Headers": "Authorization, Content-Type",
            "Access-Control-Max-Age": "600",
        },
    )


def _error_page(error: bottle.HTTPError) -> bytes:
    """The body for an error of bottle's own: no such route, wrong method, or a defect of ours."""
    bottle.response.content_type = JSON
    method, path = bottle.request.method, bottle.request.environ["PATH_INFO"]
    if error.status_code == 404:
        return body_of_status(404, f"there is no route {method} {path}")
    if error.status_code == 405:
        return body_of_status(405, f"{path} does not answer to {method}")
    if error.status_code >= 500:
        log.error("%s %s", method, path, exc_info=error.exception)
        return body_of_status(error.status_code, INTERNAL)
    return body_of_status(error.status_code, str(error.body or ""))
