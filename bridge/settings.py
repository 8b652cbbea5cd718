"""What a start of the engine is told: the one place where defaults live."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


def default_pool_size() -> int:
    """The number of processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def default_hot_memory() -> int:
    """A quarter of the machine's memory, in bytes."""
    return (
        int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")) // 4
        if hasattr(os, "sysconf")
        else 1 << 30
    )


DEFAULT_RETENTION = 14 * 24 * 3600
_RETENTION_VARIABLES = ("BRIDGE_STATE_EXPIRY_SECONDS", "ALBEDO_STATE_EXPIRY_SECONDS")
_RETENTION_RANGE = range(1, 31_536_000 + 1)


def retention_from(environ: Mapping[str, str]) -> int:
    """Seconds that unlabelled workspaces and state files are kept unused; the first variable that is set wins.

    ValueError, with a message that names the variable, for anything but a whole number in range.
    """
    for name in _RETENTION_VARIABLES:
        text = environ.get(name)
        if text is None:
            continue
        if not text.isdecimal() or int(text) not in _RETENTION_RANGE:
            bounds = f"{_RETENTION_RANGE.start} to {_RETENTION_RANGE.stop - 1}"
            raise ValueError(f"{name} must be a whole number of seconds from {bounds}, not {text!r}")
        return int(text)
    return DEFAULT_RETENTION


DEFAULT_IDLE = 600.0
_IDLE_VARIABLE = "BRIDGE_IDLE_SECONDS"


def idle_from(environ: Mapping[str, str]) -> float:
    """Seconds without a cell after which a session's kernel is released. ValueError for what is no number above 0."""
    text = environ.get(_IDLE_VARIABLE)
    if text is None:
        return DEFAULT_IDLE
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= 31_536_000:
        raise ValueError(f"{_IDLE_VARIABLE} must be a number of seconds above 0, not {text!r}")
    return seconds


SMALLEST_MEMORY = 128 << 20
"""Bytes below which a kernel would end before its first cell."""


def workspace_name(text: str) -> str:
    """The name of a workspace. ValueError for what cannot be one."""
    if not 1 <= len(text) <= 255 or ":" in text or "*" in text:
        raise ValueError("must be a name of 1 to 255 characters without : and *")
    return text


SMALLEST_HOME = 16 << 20
"""Bytes that a home may need for a little notebook and for the work on it."""


def home_size(text: str) -> int:
    """Bytes that a home may take. ValueError, with a message to follow the flag's name, for too little too."""
    size = _size(text)
    if size < SMALLEST_HOME:
        raise ValueError(f"must be at least {SMALLEST_HOME >> 20}M")
    return size


def memory_size(text: str) -> int:
    """Bytes of memory that a kernel may take.

    ValueError, with a message to follow the flag's name, for too little to start a kernel in too, and where the
    system does not tell how much memory a process takes.
    """
    size = _size(text)
    if size < SMALLEST_MEMORY:
        raise ValueError(f"must be at least {SMALLEST_MEMORY >> 20}M")
    if not os.path.isdir("/proc/self"):
        raise ValueError("works on Linux alone")
    return size


def _size(text: str) -> int:
    """Bytes that a size such as `4G`, `1.5GiB`, `800M` or `2000000000` means; a K is 1024. ValueError for others."""
    found = re.fullmatch(
        r"(\d{1,15}(?:\.\d{1,6})?) ?([KMGT]?)(?:i?B)?", text.strip(), re.IGNORECASE | re.ASCII
    )
    if found is None:
        raise ValueError("must be a size such as 4G or 800M")
    return int(float(found[1]) * 1024 ** " KMGT".index(found[2].upper() or " "))


PRELOADED = ("numpy", "pandas", "matplotlib.pyplot")
"""What kernels have imported ahead where their environment has it and nothing else is asked for."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How one engine runs; every field has the default that the command line documents.

    `home` None means the default home (see `bridge.store.home.default_path`); `workspace` None a new one,
    `"last"` the one used last. `kernel_name` None is the server's own interpreter. `timeout` is in seconds
    (None: no limit), `memory_limit` in bytes for one kernel, `max_home` for all that is kept (None: no limit),
    `max_output_bytes` in characters of
    stream text for one cell, `retention` and `idle_seconds` in seconds.
    `fork` says whether kernels are forked where they can be, from a process that has imported the modules `preload`
    that there are; `hot_states` how many states are kept as frozen processes, in `hot_memory` bytes.
    No variable of the environment whose value holds one of the `secrets` reaches a kernel.
    """

    home: Path | None = None
    ephemeral: bool = False
    workspace: str | None = None
    pool_size: int = field(default_factory=default_pool_size)
    kernel_name: str | None = None
    timeout: float | None = None
    memory_limit: int | None = None
    max_home: int | None = None
    fork: bool = True
    preload: tuple[str, ...] = PRELOADED
    hot_states: int = 16
    hot_memory: int = field(default_factory=default_hot_memory)
    max_output_bytes: int = 10_000_000
    display_max_rows: int = 200
    display_max_columns: int = 100
    display_max_colwidth: int = 128
    verbose: bool = False
    retention: int = DEFAULT_RETENTION
    idle_seconds: float = DEFAULT_IDLE
    secrets: tuple[str, ...] = field(default=(), repr=False, compare=False)
