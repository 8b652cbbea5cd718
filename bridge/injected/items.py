"""One thing that a cell may change beside its variables: what every such item can do."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any

ROOT = "\0env:"  # no name of a namespace starts like this

MISSING = object()


def raw_object(obj: Any) -> bytes | None:
    """The bytes of an object itself, without its type and count of references; None where they cannot be had.

    A generator that keeps its state in itself gives it so in a thirtieth of the time.
    """
    if sys.implementation.name != "cpython":
        return None
    head = object.__basicsize__
    return ctypes.string_at(id(obj) + head, type(obj).__basicsize__ - head)


class Item:
    """One thing beside the variables.

    `get` gives its value, fit to be pickled; `put` brings such a value back. `early` items are put before the
    variables are loaded: imports depend on them. `baseline` is its value in a kernel just started, or as the library
    was loaded; `probe` gives something cheap that is equal as long as the value is.
    """

    early = False
    library: str | None = None

    def __init__(self, name: str) -> None:
        self.root = ROOT + name
        self.baseline: Any = MISSING
        self.seen: Any = MISSING  # the probe at the last snapshot
        self.value: Any = MISSING  # the value that is stored, MISSING when it is the baseline

    def stored(self) -> bool:
        """Whether the state at hand says something of this item."""
        return self.value is not MISSING

    def loaded(self) -> bool:
        """Whether this item exists in the process."""
        return self.library is None or self.library in sys.modules

    def get(self) -> Any:
        """The value as it is now."""
        raise NotImplementedError

    def put(self, value: Any) -> None:
        """Make that value the present one."""
        raise NotImplementedError

    def probe(self) -> Any:
        """Something cheap that changes with the value."""
        return self.get()


class Simple(Item):
    """An item made of two functions."""

    def __init__(
        self,
        name: str,
        get: Callable[[], Any],
        put: Callable[[Any], Any],
        *,
        early: bool = False,
        library: str | None = None,
    ) -> None:
        super().__init__(name)
        self._get, self._put = get, put
        self.early, self.library = early, library

    def get(self) -> Any:
        return self._get()

    def put(self, value: Any) -> None:
        self._put(value)
