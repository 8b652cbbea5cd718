"""The clock by which processes' times of birth are told."""

from __future__ import annotations

import time


def moment() -> float:
    """Now, in seconds since the machine's start (where the platform has no such clock, since the epoch)."""
    # The wall clock would not do: Linux knows the moment of its own start to a whole second only.
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.time()
