"""What a start of the engine is told: the one place where defaults live."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path


def default_pool_size() -> int:
    """The number of processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True, slots=True)
class Settings:
    """How one engine runs; every field has the default that the command line documents.

    `home` None means the default home (see `bridge.store.home.default_path`); `workspace` None a new one,
    `"last"` the one used last. `kernel_name` None is the server's own interpreter. `timeout` is in seconds
    (None: no limit), `max_output_bytes` in characters of stream text for one cell.
    """

    home: Path | None = None
    ephemeral: bool = False
    workspace: str | None = None
    pool_size: int = field(default_factory=default_pool_size)
    kernel_name: str | None = None
    timeout: float | None = None
    max_output_bytes: int = 10_000_000
    display_max_rows: int = 200
    display_max_columns: int = 100
    display_max_colwidth: int = 128
    verbose: bool = False
