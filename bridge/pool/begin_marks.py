"""How a kernel says that a cell has begun without a message: it sets the time of a file.

A message takes a kernel's IO thread and the interpreter's lock in the middle of a short cell, and our own reading
beside that; yet only an interrupt, or a kernel that answers nothing, calls for the news. Where a kernel has no such
file (on another machine, say) it publishes `execute_input` as ever.
"""

from __future__ import annotations

import itertools
import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

log = logging.getLogger(__name__)

_SECOND = 1_000_000_000  # what every file system can tell apart, in nanoseconds


@dataclass(frozen=True, slots=True)
class Mark:
    """The mark of one cell: a file and the time, in nanoseconds since the epoch, that stands for the cell's begin."""

    path: str
    time: int

    def order(self) -> list[Any]:
        """What the kernel is told: `[path, nanoseconds]`."""
        return [self.path, self.time]

    def is_set(self) -> bool:
        """Whether the cell has begun; False where there is no such file."""
        try:
            return os.stat(self.path).st_mtime_ns == self.time
        except OSError:
            return False


class Marks:
    """Makes the marks of one kernel's cells; its file goes with the kernel's others."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._numbers = itertools.count(1)

    def next(self) -> Mark:
        """The mark of one more cell."""
        number = next(self._numbers)
        if number == 1:
            try:
                os.close(os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o600))
            except OSError as error:  # the disk is full, or somebody has removed the folder
                log.warning("a kernel will tell by messages what it has begun: %s", error)
        return Mark(str(self._path), number * _SECOND)
