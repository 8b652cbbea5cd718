"""The states used of late, kept in memory: most cells run from one of them."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Container

from bridge.store.contents import Contents
from bridge.store.manifest import State

_STATES = 128
_STATES_AT_LEAST = 4
_BYTES = 256_000_000


class Recent:
    """Up to 128 states by id, and fewer when what they hold takes much memory."""

    def __init__(self, contents: Contents) -> None:
        self._contents = contents
        self._lock = threading.Lock()
        self._states: OrderedDict[int, State] = OrderedDict()

    def get(self, row: int) -> State | None:
        """The state, if it is remembered."""
        with self._lock:
            state = self._states.get(row)
            if state is not None:
                self._states.move_to_end(row)
        return state

    def add(self, state: State) -> None:
        """Remember the state; those used longest ago are forgotten."""
        with self._lock:
            self._states[state.id] = state
            self._states.move_to_end(state.id)
            dropped = []  # ended outside the lock: they may be large
            while len(self._states) > _STATES:
                dropped.append(self._states.popitem(last=False))
        dropped.clear()
        while self._contents.held() > _BYTES:
            with self._lock:
                if len(self._states) <= _STATES_AT_LEAST:
                    return
                oldest = self._states.popitem(last=False)
            del oldest

    def ids(self) -> list[int]:
        """Those that are remembered."""
        with self._lock:
            return list(self._states)

    def keep_only(self, rows: Container[int], of: list[int]) -> None:
        """Of the states `of`, forget those that are not among the rows."""
        with self._lock:
            for row in of:
                if row not in rows:
                    self._states.pop(row, None)
