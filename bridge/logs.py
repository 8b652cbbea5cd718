"""The server's log: HOME/logs/server.log, rotated, and standard error only when asked for."""

from __future__ import annotations

import logging
import os
import sys
import threading
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import TextIO

FILE = "server.log"
LARGEST = 5_000_000
KEPT = 3

log = logging.getLogger(__name__)


class SharedLog(RotatingFileHandler):
    """A rotated log file that several servers of one home may write to: each follows another's rotation."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            if self.stream is not None and not self._is_current(self.stream):
                stale, self.stream = self.stream, self._open()
                stale.close()
        except OSError:
            return self.handleError(record)
        super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:
        """Drop a line that the disk does not take: standard error may be a pipe that nobody reads."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handleError(record)

    def _is_current(self, stream: TextIO) -> bool:
        if stream.closed:  # by a rotation that met a full disk
            return False
        try:
            return os.path.samestat(os.fstat(stream.fileno()), os.stat(self.baseFilename))
        except FileNotFoundError:
            # An ephemeral home goes before the last lines are written; they have no file to go to then.
            return not os.path.isdir(os.path.dirname(self.baseFilename))


def start_logging(folder: Path, verbose: bool) -> None:
    """Sends this process's log records, warnings and threads' failures to the log file in `folder`.

    Nothing but start-up lines may reach stdout or stderr: who started the process may never read them.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(folder / FILE, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
    os.close(descriptor)
    handlers: list[logging.Handler] = [
        SharedLog(
            folder / FILE, maxBytes=LARGEST, backupCount=KEPT, encoding="utf-8", errors="backslashreplace"
        )
    ]
    if verbose:
        handlers.append(logging.StreamHandler(sys.stderr))
    form = logging.Formatter("%(asctime)s %(process)d %(levelname)s %(name)s: %(message)s")
    root = logging.getLogger()
    for handler in handlers:
        handler.setFormatter(form)
        root.addHandler(handler)
    root.setLevel(logging.WARNING)
    logging.getLogger("bridge").setLevel(logging.DEBUG if verbose else logging.INFO)
    logging.captureWarnings(True)
    threading.excepthook = _log_thread_failure


def _log_thread_failure(failure: threading.ExceptHookArgs) -> None:
    name = failure.thread.name if failure.thread else "?"
    if failure.exc_value is not None:
        log.error("thread %s ended in an error", name, exc_info=failure.exc_value)
