"""One server process, from its socket to its end.

The order is what makes it quick: listen (clients may connect from here on), open the engine, answer; the
kernels come up behind. At the end: refuse new requests, end the engine, which ends every execution and
every kernel, let the answers out, stop serving.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from bridge.errors import BridgeError
from bridge.rest.app import Site, make_app
from bridge.rest.options import Options
from bridge.rest.server import HttpServer
from bridge.version import VERSION

if TYPE_CHECKING:
    from bridge.engine import Kernel

ENGINE_END = 4.0
SERVER_END = 0.6
PROCESS_END = 4.9
"""Seconds that the engine, the HTTP server and the whole process have to end after a signal."""
SIGNAL_LOOK = 0.2
"""Seconds between looks for a signal that did not wake the main thread."""

log = logging.getLogger(__name__)


class SiteHolder:
    """Where an application finds its site: put there at a start, else opened by the first request."""

    def __init__(self, opener: Callable[[], Site] | None = None) -> None:
        self._opener = opener
        self._lock = threading.Lock()
        self._site: Site | None = None

    def put(self, site: Site) -> None:
        self._site = site

    def get(self) -> Site:
        with self._lock:
            if self._site is None:
                if self._opener is None:
                    raise RuntimeError("no site has been opened")
                self._site = self._opener()
            return self._site


def serve(options: Options, app: Callable[..., Any] | None = None, holder: SiteHolder | None = None) -> int:
    """Runs a server until a signal ends it; gives the exit code, 2 when it could not start.

    `app` is an application that finds its site in `holder`; without one, it is made here.
    """
    # Until the home is known there is no log, and logging would fall back to standard error.
    logging.getLogger().addHandler(logging.NullHandler())
    inbox: SimpleQueue[str] = SimpleQueue()
    _on_signals(inbox)
    holder = holder or SiteHolder()
    app = app or make_app(holder.get)
    server = HttpServer(options.host, options.port, app, lambda: inbox.put("the HTTP server ended"))
    try:
        host, port = server.listen()
    except OSError as error:
        return _complain(f"cannot listen on {_authority(options.host, options.port)}: {error.strerror}")
    try:
        kernel = open_engine(options)
    except (BridgeError, OSError) as error:
        server.stop(SERVER_END)
        return _complain(str(error))
    site = Site(kernel, options.access(host))
    holder.put(site)
    server.start()
    _announce(options, host, port, kernel)
    reason = _first(inbox)
    log.info("ending: %s", reason)
    site.closing.set()
    return _end(kernel, server)


def open_engine(options: Options) -> Kernel:
    """The engine, with the process's log going to its home; imported only now, when the socket listens."""
    from bridge.engine import Kernel
    from bridge.logs import start_logging

    kernel = Kernel(options.settings)
    start_logging(kernel.home.logs_path, options.settings.verbose)
    return kernel


def _first(inbox: SimpleQueue[str]) -> str:
    """The first message. Waits in short turns: handlers run in the main thread alone, and a signal that the system
    gave to another thread does not wake it.
    """
    while True:  # ends by a signal, or when the HTTP server ends
        try:
            return inbox.get(timeout=SIGNAL_LOOK)
        except Empty:
            continue


def _on_signals(inbox: SimpleQueue[str]) -> None:
    """Turns signals into messages; SimpleQueue.put may be called from a signal handler, Event.set may not."""
    for name in ("SIGTERM", "SIGINT", "SIGHUP"):
        number = getattr(signal, name, None)
        # What the parent made ignored (nohup, a shell's background job) stays so.
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda received, _frame: inbox.put(signal.Signals(received).name))


def _announce(options: Options, host: str, port: int, kernel: Kernel) -> None:
    shown = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    address = f"http://{_authority(shown, port)}"
    if options.generated:
        address += f"/?token={options.token}"
    lines = (
        f"jupyter-bridge {VERSION} listens on {address}",
        f"workspace {kernel.workspace}, home {kernel.home.path}",
    )
    try:
        print(*lines, sep="\n", flush=True)
    except OSError as error:  # whoever started the process has closed its end of the pipe
        log.info("nobody reads standard output: %s", error)
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115  # else the interpreter complains at its end
    log.info("jupyter-bridge %s on %s, workspace %s", VERSION, _authority(host, port), kernel.workspace)


def _end(kernel: Kernel, server: HttpServer) -> int:
    """Ends engine, then server, and if need be the process, each within its bound."""
    overdue = threading.Timer(PROCESS_END, os._exit, (1,))
    overdue.daemon = True
    overdue.start()
    closer = threading.Thread(target=kernel.close, name="engine-close", daemon=True)
    closer.start()
    closer.join(ENGINE_END)
    served = server.stop(SERVER_END)
    if closer.is_alive() or not served:
        log.error("not everything ended in time: engine %s, server %s", not closer.is_alive(), served)
        return 1
    overdue.cancel()
    return 0


def _complain(message: str) -> int:
    print(f"jupyter-bridge: {message}", file=sys.stderr)
    return 2


def _authority(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
