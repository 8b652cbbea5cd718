"""Removes, now and then, the workspaces that nobody has used for long."""

from __future__ import annotations

import logging
import threading
import time

from bridge.errors import BridgeError
from bridge.store.store import Store

log = logging.getLogger(__name__)

DAY = 24 * 3600.0


class Expiry:
    """A thread that expires unlabelled workspaces once after the start and then every min(1 day, retention)."""

    def __init__(self, store: Store, retention: int) -> None:
        self._store = store
        self._retention = retention
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="expiry", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread, after the sweep that it is in."""
        self._closing.set()
        self._thread.join(1.0)

    def _run(self) -> None:
        first = 5.0  # not while the server starts
        while not self._closing.wait(first):
            first = min(DAY, float(self._retention))
            try:
                count = self._store.expire_workspaces(self._retention, time.time())
            except BridgeError as error:
                log.warning("old workspaces could not be removed: %s", error)
                continue
            if count:
                log.info("removed %d workspaces unused for %d s", count, self._retention)
