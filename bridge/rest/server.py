"""The HTTP server: cheroot, with enough threads, bodies that are never swallowed whole, and errors in JSON.

Cheroot answers some requests itself (a malformed one, for instance), reads what an application left of a
body into memory in one piece, and waits without a bound for its threads at the end; here it does not.
"""

from __future__ import annotations

import io
import logging
import select
import socket
import threading
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, BinaryIO

from cheroot import server as cheroot_server
from cheroot import wsgi

from bridge.rest.files import open_file
from bridge.rest.replies import JSON, body_of_status

THREADS = 128
MOST_THREADS = 1024
"""Threads to begin with, and at most when all are busy: a waiting execution holds one."""

SPARE_THREADS = 32
"""Threads that must be without work for another to wait AT_ONCE_MS for what its client asks next."""

AT_ONCE_MS = 50

BACKLOG = 1024
SILENCE = 30
"""Seconds that a client may keep a connection silent, within a request or between two."""

HEADER_LIMIT = 64 * 1024
DRAIN_LIMIT = 1 << 30
"""Bytes of a refused body that are read and thrown away, so that its sender gets to read the refusal."""

log = logging.getLogger(__name__)


class HttpServer:
    """Serves one WSGI application at one address.

    `listen`, `start`, `stop`, in this order; every thread is a daemon, owned here, and ended by `stop`.
    `on_end` is called when serving has ended, for whatever reason.
    """

    def __init__(
        self, host: str, port: int, app: Callable[..., Any], on_end: Callable[[], None] = lambda: None
    ) -> None:
        self._server = _Server(
            (host, port),
            app,
            numthreads=THREADS,
            max=MOST_THREADS,
            server_name="jupyter-bridge",
            request_queue_size=BACKLOG,
            timeout=SILENCE,
        )
        self._on_end = on_end
        self._listening = threading.Event()
        self._go = threading.Event()
        self._failure: OSError | None = None
        # Cheroot's threads are daemons when the thread that starts them is one.
        self._thread = threading.Thread(target=self._run, name="http", daemon=True)

    def listen(self) -> tuple[str, int]:
        """The address bound, with the port the system chose for 0; raises OSError when it cannot be had.

        From here on clients can connect; they are answered after `start`.
        """
        self._thread.start()
        self._listening.wait()
        if self._failure is not None:
            raise self._failure
        host, port = self._server.bind_addr
        return host, port

    def start(self) -> None:
        """Begins to answer."""
        self._go.set()

    def stop(self, timeout: float) -> bool:
        """Ends serving; answers under way have `timeout` seconds to end. False when some did not."""
        self._server.shutdown_timeout = timeout / 2
        stopping = threading.Thread(target=self._server.stop, name="http-stop", daemon=True)
        stopping.start()
        stopping.join(timeout)
        self._go.set()
        self._thread.join(1)
        return not stopping.is_alive()

    def _run(self) -> None:
        try:
            self._server.prepare()
        except OSError as error:
            self._failure = self._server.bind_failure or error
            return
        finally:
            self._listening.set()
        self._go.wait()
        try:
            self._server.serve()
        except BaseException:
            log.exception("the HTTP server ended")
        finally:
            self._on_end()


class _Request(cheroot_server.HTTPRequest):
    def simple_response(self, status: str, msg: str = "") -> None:
        """Cheroot's own answers, in JSON; the connection ends after each."""
        code = int(str(status)[:3])
        body = body_of_status(code, msg)
        head = (
            f"HTTP/1.1 {code} {HTTPStatus(code).phrase}\r\nContent-Type: {JSON}\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        self.close_connection = True
        try:
            self.conn.wfile.write(head.encode("latin-1") + body)
        except OSError as error:
            log.debug("a client left before its answer: %s", error)

    def send_headers(self) -> None:
        """Before an answer begins, what its request has left unread is thrown away, piece by piece."""
        if not _drained(self.rfile):
            self.close_connection = True
        super().send_headers()


class _Connection(cheroot_server.HTTPConnection):
    RequestHandlerClass = _Request

    def __init__(self, server: Any, sock: socket.socket, *_: Any) -> None:
        super().__init__(server, sock, open_file)

    def communicate(self) -> bool:
        """Answer one request, and those that follow at once: what waits here does not go by way of the selector."""
        while super().communicate():  # type: ignore[no-untyped-call]
            if not self._is_followed():
                return True
        return False

    def _is_followed(self) -> bool:
        if self.rfile.has_data():
            return True
        if self.server.requests.idle < SPARE_THREADS:
            return False
        poll = select.poll()
        poll.register(self.socket, select.POLLIN)
        return bool(poll.poll(AT_ONCE_MS))


class _Gateway(wsgi.Gateway_10):
    def get_environ(self) -> Any:
        if self.req.chunked_read:
            self.req.rfile = ChunkedBody(self.req.conn.rfile)
        environ = super().get_environ()  # type: ignore[no-untyped-call]
        environ["wsgi.errors"] = _ErrorStream()
        return environ

    def write(self, chunk: bytes) -> None:
        """The first piece of a body goes in one packet with the head: cheroot's two would wake the client twice."""
        if self.req.sent_headers:
            super().write(chunk)
            return
        with self.req.conn.wfile.in_one():
            super().write(chunk)


class _Server(wsgi.Server):
    ConnectionClass = _Connection
    max_request_header_size = HEADER_LIMIT
    keep_alive_conn_limit = 512
    expiration_interval = 0.25  # also how long an idle server takes to notice that it is to stop

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.gateway = _Gateway
        self.bind_failure: OSError | None = None

    def bind(self, family: int, type: int, proto: int = 0) -> Any:
        try:
            return super().bind(family, type, proto)
        except OSError as error:
            # Cheroot folds the failures of all addresses into one text without an errno.
            self.bind_failure = error
            raise

    def process_conn(self, conn: Any) -> None:
        """Starts more threads when every one is taken, so that short requests never wait for long ones."""
        if self.requests.idle <= self.requests.qsize:
            self.requests.grow(16)
        super().process_conn(conn)

    def error_log(self, msg: str = "", level: int = logging.INFO, traceback: bool = False) -> None:
        log.log(level, "%s", msg, exc_info=traceback)


class ChunkedBody:
    """The body of a request in chunked transfer coding, decoded as it is read: never a whole chunk at once.

    `read` gives fewer bytes than asked for only at a chunk's end and none at the body's; it raises
    ValueError for a malformed one.
    """

    def __init__(self, rfile: BinaryIO) -> None:
        self._rfile = rfile
        self._left = 0
        self._first = True
        self._ended = False

    def read(self, size: int) -> bytes:
        if self._left == 0 and not self._ended:
            self._next_chunk()
        data = self._rfile.read(min(size, self._left)) if self._left else b""
        if self._left and not data:
            raise ValueError("the chunked body ended within a chunk")
        self._left -= len(data)
        return data

    def _next_chunk(self) -> None:
        if not self._first and self._line() != b"":
            raise ValueError("a chunk of the body is longer than it says")
        self._first = False
        size = self._line().partition(b";")[0].strip()
        if not size or size.strip(b"0123456789abcdefABCDEF"):
            raise ValueError("a chunk of the body does not say its size")
        self._left = int(size, 16)
        if self._left == 0:
            self._ended = True
            while self._line():  # trailers, which nobody here wants
                pass

    def _line(self) -> bytes:
        line = self._rfile.readline(HEADER_LIMIT)
        if not line.endswith(b"\r\n"):
            raise ValueError("the chunked body is malformed")
        return line[:-2]


class _ErrorStream(io.TextIOBase):
    """`wsgi.errors`: into the log, for the process's own stderr belongs to who started it."""

    def write(self, text: str) -> int:
        if text.strip():
            log.error("%s", text.rstrip())
        return len(text)


def _drained(rfile: Any) -> bool:
    """Reads the rest of a body and drops it; False when the connection is of no more use afterwards."""
    left = DRAIN_LIMIT
    try:
        while left > 0:
            if getattr(rfile, "remaining", 1) == 0:
                return True
            data = rfile.read(64 * 1024)
            if not data:
                return True
            left -= len(data)
    except (OSError, ValueError) as error:
        log.debug("the rest of a body could not be read: %s", error)
    return False
