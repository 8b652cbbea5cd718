"""The HTTP server, in process, with small WSGI applications in the place of ours."""

from __future__ import annotations

import errno
import http.client
import json
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import psutil
import pytest

from bridge.rest.server import THREADS, HttpServer

SOON = 30.0
Start = Callable[..., Any]
Address = tuple[str, int]


def hello(environ: dict[str, Any], start: Start) -> Iterable[bytes]:
    """Answers without looking at the body."""
    start("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "2")])
    return [b"hi"]


@pytest.fixture
def serving() -> Iterator[Callable[..., Address]]:
    """Serves an application on a free port until the test's end; every thread must be gone then."""
    servers: list[HttpServer] = []

    def serve(app: Callable[..., Any], host: str = "127.0.0.1") -> Address:
        server = HttpServer(host, 0, app)
        servers.append(server)
        address = server.listen()
        server.start()
        return address

    before = set(threading.enumerate())
    yield serve
    for server in servers:
        assert server.stop(10)
    for thread in set(threading.enumerate()) - before:
        thread.join(SOON)
    assert set(threading.enumerate()) <= before


def talk(address: Address, sent: bytes) -> bytes:
    """All that the server says to `sent`, up to its closing of the connection."""
    with socket.create_connection(address, SOON) as connection:
        connection.sendall(sent)
        parts = iter(lambda: connection.recv(65536), b"")
        return b"".join(parts)


@pytest.mark.parametrize(
    ("sent", "status", "code"),
    [
        (b"bogus\r\n\r\n", 400, "BadRequest"),
        (b"GET / HTTP/1.1\r\nbogus\r\n\r\n", 400, "BadRequest"),
        (b"GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n", 400, "BadRequest"),
        (b"get / HTTP/1.1\r\n\r\n", 400, "BadRequest"),
        (b"GET / HTTP/2.0\r\n\r\n", 505, "HttpVersionNotSupported"),
        (b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n", 414, None),
        (b"GET / HTTP/1.1\r\nX: " + b"a" * 100_000 + b"\r\n\r\n", 413, None),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n", 501, "NotImplemented"),
    ],
)
def test_what_never_reaches_the_application_is_refused_in_json(
    serving: Callable[..., Address], sent: bytes, status: int, code: str | None
) -> None:
    head, _, body = talk(serving(hello), sent).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status)
    assert b"Content-Type: application/json" in head
    error = json.loads(body)["error"]
    assert error["message"]
    assert code is None or error["code"] == code


@pytest.mark.parametrize("chunked", [False, True])
def test_an_ignored_body_is_dropped_piece_by_piece(serving: Callable[..., Address], chunked: bool) -> None:
    """The sender of 100 MB gets its answer, its next request another, and memory stays small."""
    connection = http.client.HTTPConnection(*serving(hello), timeout=SOON)
    piece, pieces = b"a" * 1_000_000, 100
    connection.request("GET", "/")
    assert connection.getresponse().read() == b"hi"
    before = psutil.Process().memory_info().rss
    largest = 0

    def body() -> Iterator[bytes]:
        nonlocal largest
        for _ in range(pieces):
            yield piece
            largest = max(largest, psutil.Process().memory_info().rss)

    headers = {} if chunked else {"Content-Length": str(len(piece) * pieces)}
    connection.request("POST", "/", body=body(), headers=headers, encode_chunked=chunked)
    answer = connection.getresponse()
    assert (answer.status, answer.read()) == (200, b"hi")
    assert largest - before < 30_000_000
    connection.request("GET", "/")
    assert connection.getresponse().read() == b"hi"
    connection.close()


def test_a_chunked_body_reaches_the_application_decoded(serving: Callable[..., Address]) -> None:
    def echo(environ: dict[str, Any], start: Start) -> Iterable[bytes]:
        assert environ["wsgi.input_terminated"] is True
        body = b"".join(iter(lambda: environ["wsgi.input"].read(1000), b""))
        start("200 OK", [("Content-Length", str(len(body)))])
        return [body]

    connection = http.client.HTTPConnection(*serving(echo), timeout=SOON)
    for parts in ([b"abc", b"d" * 70_000], []):
        connection.request("POST", "/", body=iter(parts), encode_chunked=True)
        assert connection.getresponse().read() == b"".join(parts)
    connection.close()


def test_short_requests_are_answered_however_many_long_ones_wait(serving: Callable[..., Address]) -> None:
    """More requests are held than there are threads to begin with."""
    release, held = threading.Event(), threading.Semaphore(0)

    def app(environ: dict[str, Any], start: Start) -> Iterable[bytes]:
        if environ["PATH_INFO"] == "/held":
            held.release()
            assert release.wait(SOON)
        return hello(environ, start)

    address = serving(app)
    connections = [http.client.HTTPConnection(*address, timeout=SOON) for _ in range(THREADS + 40)]
    try:
        for connection in connections:
            connection.request("GET", "/held")
        for _ in connections:
            assert held.acquire(timeout=SOON)
        quick = http.client.HTTPConnection(*address, timeout=SOON)
        quick.request("GET", "/")
        assert quick.getresponse().read() == b"hi"
        quick.close()
    finally:
        release.set()
    for connection in connections:
        assert connection.getresponse().read() == b"hi"
        connection.close()


def test_connections_that_rest_hold_no_thread(serving: Callable[..., Address]) -> None:
    address = serving(hello)
    connections = [http.client.HTTPConnection(*address, timeout=SOON) for _ in range(2 * THREADS)]
    try:
        for _ in range(2):
            for connection in connections:
                connection.request("GET", "/")
            answers = [connection.getresponse() for connection in connections]
            assert {answer.read() for answer in answers} == {b"hi"}
            assert not any(answer.will_close for answer in answers)
    finally:
        for connection in connections:
            connection.close()


def test_requests_sent_in_one_piece_are_all_answered(serving: Callable[..., Address]) -> None:
    ask = b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"
    last = b"GET / HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n"
    said = talk(serving(hello), ask * 4 + last)
    assert said.count(b"HTTP/1.1 200 OK") == said.count(b"\r\n\r\nhi") == 5


def test_an_application_that_fails_says_nothing_on_standard_error(
    serving: Callable[..., Address], capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    def app(environ: dict[str, Any], start: Start) -> Iterable[bytes]:
        environ["wsgi.errors"].write("a word to the log\n")
        raise RuntimeError("the defect")

    head, _, body = talk(serving(app), b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 500 ")
    assert b"defect" not in body
    assert json.loads(body)["error"]["code"] == "InternalServerError"
    assert "the defect" in caplog.text
    assert "a word to the log" in caplog.text
    assert capfd.readouterr() == ("", "")


def test_an_address_in_use_is_an_error_with_its_reason(serving: Callable[..., Address]) -> None:
    host, port = serving(hello)
    with pytest.raises(OSError) as caught:
        HttpServer(host, port, hello).listen()
    assert caught.value.errno == errno.EADDRINUSE


def test_clients_may_connect_before_the_answers_begin() -> None:
    server = HttpServer("127.0.0.1", 0, hello)
    connection = http.client.HTTPConnection(*server.listen(), timeout=SOON)
    connection.request("GET", "/")
    server.start()
    assert connection.getresponse().read() == b"hi"
    connection.close()
    assert server.stop(10)


def test_a_server_that_listened_and_never_answered_stops_too() -> None:
    server = HttpServer("127.0.0.1", 0, hello)
    address = server.listen()
    assert server.stop(10)
    with pytest.raises(OSError):
        socket.create_connection(address, 5)


def test_a_stop_waits_for_answers_only_so_long() -> None:
    release, held = threading.Event(), threading.Event()

    def app(environ: dict[str, Any], start: Start) -> Iterable[bytes]:
        held.set()
        release.wait(SOON)
        return hello(environ, start)

    server = HttpServer("127.0.0.1", 0, app)
    connection = http.client.HTTPConnection(*server.listen(), timeout=SOON)
    server.start()
    connection.request("GET", "/")
    assert held.wait(SOON)
    assert not server.stop(0.2)
    release.set()
    connection.close()


def test_a_silent_connection_does_not_hold_up_the_end() -> None:
    server = HttpServer("127.0.0.1", 0, hello)
    address = server.listen()
    server.start()
    silent = [socket.create_connection(address, SOON) for _ in range(3)]
    quick = http.client.HTTPConnection(*address, timeout=SOON)
    quick.request("GET", "/")
    assert quick.getresponse().read() == b"hi"
    quick.close()
    assert server.stop(2)
    for connection in silent:
        assert connection.recv(1) in (b"", b"H")  # closed, or told that it was too late
        connection.close()
