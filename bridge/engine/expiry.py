"""Removes, now and then, what nobody has used for long: workspaces, and the files of sessions."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
import time
from pathlib import Path

from bridge.errors import BridgeError
from bridge.store import session_expiry
from bridge.store.store import Store

log = logging.getLogger(__name__)

DAY = 24 * 3600.0
FIRST = 5.0
"""Seconds from the start to the first sweep: not while the server starts."""
SWEEP_SECONDS = 600.0
"""The bound of one sweep of the sessions' files, after which its process is killed."""
_ROOT = Path(__file__).resolve().parents[2]


class Expiry:
    """A thread that sweeps once after the start and then every min(1 day, retention) seconds.

    Workspaces are expired by it, sessions' files by a process that it owns, for the length of a sweep.
    """

    def __init__(self, store: Store, retention: int, first: float = FIRST) -> None:
        self._store = store
        self._retention = retention
        self._first = first
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="expiry", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread, after the sweep that it is in, and a process with it at once."""
        self._closing.set()
        with self._lock:
            if self._process is not None:
                self._process.kill()
        self._thread.join(1.0)

    def _run(self) -> None:
        wait = self._first
        while not self._closing.wait(wait):
            wait = min(DAY, float(self._retention))
            try:
                count = self._store.expire_workspaces(self._retention, time.time())
                if count:
                    log.info("removed %d workspaces unused for %d s", count, self._retention)
            except BridgeError as error:
                log.warning("old workspaces could not be removed: %s", error)
            try:
                self._sweep_sessions()
            except OSError as error:
                log.warning("sessions' files could not be swept: %s", error)

    def _sweep_sessions(self) -> None:
        words = [
            sys.executable,
            "-m",
            session_expiry.__name__,
            str(self._store.home.path),
            str(self._retention),
        ]
        with self._lock:
            if self._closing.is_set():
                return
            self._process = subprocess.Popen(
                words,
                cwd=_ROOT,  # where `-m` finds this package
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        try:
            printed, _ = self._process.communicate(timeout=SWEEP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            printed, _ = self._process.communicate()
        with self._lock:
            self._process = None
        for line in printed.splitlines():
            log.info("%s", line)
