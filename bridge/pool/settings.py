"""What a pool is told when it is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class PoolSettings:
    """How the kernels of one pool are started.

    `size` is how many kernels may be leased at once; one more is kept warm beside them. `kernel_name` is an
    installed kernelspec, None the server's own interpreter. `env` is added to the kernels' environment, `cwd`
    is their working folder (None: the server's). `log_dir` takes what kernel processes write to their own
    stdout and stderr while they live. No variable whose value contains one of the `secrets` reaches a kernel.
    `start_timeout` is in seconds; `arguments` are added to the kernels' command line. A kernel that takes more than
    `memory_limit` bytes is killed (None: no limit); it holds for kernels that are children of this process.
    `fork`: new kernels are forked from a process that has everything loaded, where that can be, by the helper that
    they are prepared with; `preload` names the modules that it has imported.
    """

    size: int
    log_dir: Path
    kernel_name: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str | None = None
    secrets: tuple[str, ...] = field(default=(), repr=False)
    start_timeout: float = 60.0
    # The server's kernels write no history of a user's: what runs in them comes from many programs.
    arguments: tuple[str, ...] = ("--HistoryManager.enabled=False",)
    memory_limit: int | None = None
    fork: bool = False
    preload: tuple[str, ...] = ()
