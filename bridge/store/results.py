"""Small results that follow from content alone (hashes, reprs), kept so that nobody computes them twice."""

from __future__ import annotations

import json
import logging
from typing import Any

from bridge.errors import HomeDamaged, StoreError
from bridge.store.contents import to_json
from bridge.store.database import Database
from bridge.store.manifest import to_bytes

_log = logging.getLogger(__name__)

ENTRIES = 20_000
LONGEST_VALUE = 100_000  # characters of JSON
TOTAL = 64_000_000
_TRIM_EVERY = 64


class ResultCache:
    """JSON values by kind and key; what was put longest ago goes first when it grows over its bounds."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._puts = 0

    def get(self, kind: str, key: str) -> Any | None:
        """The value, or None when it is not kept (any more)."""
        with self._database.read() as connection:
            found = connection.execute(
                "SELECT value FROM cache WHERE kind = ? AND key = ?", (kind, to_bytes(key))
            ).fetchone()
        return None if found is None else json.loads(found[0])

    def put(self, kind: str, key: str, value: Any) -> None:
        """Keep the value. One too long to keep is not kept; nor is any while the disk is full."""
        text = to_json(value)
        if len(text) > LONGEST_VALUE:
            return
        try:
            with self._database.write() as transaction:
                # Replacing gives a new `seq`: the newest entries are the last.
                transaction.execute(
                    "INSERT OR REPLACE INTO cache (kind, key, value) VALUES (?, ?, ?)",
                    (kind, to_bytes(key), text),
                )
        except HomeDamaged:
            raise
        except (
            StoreError
        ) as error:  # the result itself is not lost by that, only the time to compute it again
            _log.warning("a result was not cached: %s", error)
            return
        self._puts += 1
        if self._puts % _TRIM_EVERY == 0:
            self.trim()

    def trim(self, entries: int = ENTRIES, total: int = TOTAL) -> None:
        """Bring the cache under so many entries and so many characters."""
        with self._database.read() as connection:
            rows = connection.execute("SELECT seq, LENGTH(value) FROM cache ORDER BY seq DESC").fetchall()
        size = 0
        for index, (seq, length) in enumerate(rows):
            size += length
            if index >= entries or size > total:
                with self._database.write() as transaction:
                    transaction.execute("DELETE FROM cache WHERE seq <= ?", (seq,))
                return
