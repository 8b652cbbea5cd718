"""The life of one kernel's process: launched, watched, ended, cleared up after. All of it in the host's loop."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING

from bridge.errors import KernelDied
from bridge.pool import memory
from bridge.pool.host import Host
from bridge.pool.launch import kernel_environment, make_manager

if TYPE_CHECKING:
    from jupyter_client.kernelspec import KernelSpec
    from jupyter_client.manager import AsyncKernelManager
    from jupyter_client.provisioning.provisioner_base import KernelProvisionerBase

    from bridge.pool.templates import Template

log = logging.getLogger(__name__)

POLL_LOCAL, POLL_REMOTE = 0.1, 2.0
"""Seconds between two looks at the process; a remote provisioner's look may be a request over a network."""
POLL_FAILURES = 5
"""Looks in a row that may fail before a kernel counts as lost."""
LOG_LIMIT, TAIL = 1_000_000, 4_000
"""Bytes of a kernel's own log at which it is emptied, and of its end that a message about a failure shows."""
KILL_WITHIN = 2.0
"""Seconds for a killed process to be gone."""


def describe_exit(code: int) -> str:
    """How a process ended, in words, from its exit code (negative: the signal that ended it)."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"signal {-code} ({signal.Signals(-code).name})"
    except ValueError:
        return f"signal {-code}"


class Life:
    """One process from its launch to the last of its files.

    `exit_reason` is None while it runs. `on_exit` is called once with the reason, in the host's loop, `on_gone`
    when nothing of the process is left (also when it was never launched).
    """

    def __init__(
        self,
        kernel_id: str,
        host: Host,
        on_exit: Callable[[str], None],
        on_gone: Callable[[], None],
        spec: KernelSpec,
        template: Template | None,
    ) -> None:
        self.manager: AsyncKernelManager | None = None
        self.group: int | None = None  # of a local kernel
        self.exit_reason: str | None = None
        self.ending = False
        self._id = kernel_id
        self._host = host
        self._spec, self._template = spec, template
        self._on_exit = on_exit
        self._on_gone = on_gone
        self._log_path = host.settings.log_dir / f"kernel-{kernel_id}.log"
        self._last_words: str | None = None
        self._killed_for: str | None = None  # a reason of our own, which says more than the signal
        self._watcher: asyncio.Task[None] | None = None
        self._launching = asyncio.Lock()

    @property
    def alive(self) -> bool:
        """Whether the process runs, as far as the last look at it tells."""
        return self.manager is not None and self.exit_reason is None

    @property
    def provisioner(self) -> KernelProvisionerBase | None:
        """The provisioner of a process that was launched."""
        return self.manager.provisioner if self.manager is not None else None

    def tail(self) -> str:
        """The end of what the process wrote to its own stdout and stderr."""
        if self._last_words is not None:
            return self._last_words
        try:
            with open(self._log_path, "rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL))
                return file.read().decode("utf-8", errors="replace").strip()
        except FileNotFoundError:
            return ""

    async def launch(self) -> None:
        """Starts the process and the watch over it."""
        settings = self._host.settings
        async with self._launching:
            if self.ending:
                raise KernelDied("it was ended before it began")
            manager = make_manager(
                self._spec, self._host.folder, self._id, self._template, self._host.templates
            )
            self._host.guard.add_path(self._log_path)
            output = os.open(self._log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            try:
                await manager.start_kernel(
                    extra_arguments=list(settings.arguments),
                    env=kernel_environment(os.environ, settings.env, settings.secrets),
                    cwd=settings.cwd,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                )
            finally:
                os.close(output)
                if manager.has_kernel:
                    self.manager = manager
                    self._watcher = asyncio.create_task(self._watch(manager))

    async def signal(self, signum: int) -> None:
        """Sends a signal to the process group of a local kernel, or as its provisioner does it."""
        if self.provisioner is not None and self.alive:
            await self.provisioner.send_signal(signum)

    async def kill(self) -> None:
        """Kills the process and, of a local kernel, its group."""
        if self.provisioner is not None and self.alive:
            await self.provisioner.kill()

    async def end(self, grace: float, ask: Callable[[], bool]) -> None:
        """Ends the process: `ask` asks it to and gives whether it could; after `grace` seconds it is killed.

        Idempotent. Returns when nothing is left of the process, or it cannot be killed.
        """
        self.ending = True
        async with self._launching:
            watcher = self._watcher
        if watcher is None:
            self._clear()
            self._on_gone()
            return
        if grace > 0 and self.alive and ask():
            await asyncio.wait({watcher}, timeout=grace)
        if not watcher.done():
            await self.kill()
            await asyncio.wait({watcher}, timeout=KILL_WITHIN)
        if not watcher.done():
            log.error("kernel %s: its process does not end", self._id)

    async def _watch(self, manager: AsyncKernelManager) -> None:
        """Looks at the process until it has ended, then clears up after it: the one place that does."""
        provisioner = manager.provisioner
        assert provisioner is not None
        self.group = self._announce(provisioner)
        code = await self._exit_code(provisioner)
        if self.group is not None:
            _kill_group(self.group)
            self._host.guard.drop_group(self.group)
        self._last_words = self.tail()
        how = describe_exit(code) if code is not None else "its provisioner lost it"
        self.exit_reason = self._killed_for or how
        if not self.ending:
            log.warning("kernel %s ended: %s\n%s", self._id, self.exit_reason, self._last_words)
        self._on_exit(self.exit_reason)
        await provisioner.wait()
        await manager.cleanup_resources()
        self._clear()
        self._on_gone()

    def _announce(self, provisioner: KernelProvisionerBase) -> int | None:
        """The process group of a local kernel, which the guard now knows; None for any other kernel."""
        group = getattr(provisioner, "pgid", None)
        if not isinstance(group, int) or not hasattr(os, "killpg") or group == os.getpgrp():
            return None
        self._host.guard.add_group(group)
        return group

    async def _exit_code(self, provisioner: KernelProvisionerBase) -> int | None:
        """The exit code once the process has ended; None when the provisioner keeps failing to tell."""
        from jupyter_client.provisioning.local_provisioner import LocalProvisioner

        interval = POLL_LOCAL if isinstance(provisioner, LocalProvisioner) else POLL_REMOTE
        failures = 0
        while failures < POLL_FAILURES:
            try:
                code = await provisioner.poll()
                failures = 0
            except Exception:  # a provisioner of anybody's make: a passing fault must not end a kernel
                log.exception("kernel %s: its provisioner cannot tell whether it runs", self._id)
                failures, code = failures + 1, None
            if code is not None:
                return code
            self._trim_log()
            await self._keep_within_memory(provisioner)
            await asyncio.sleep(interval)
        return None

    async def _keep_within_memory(self, provisioner: KernelProvisionerBase) -> None:
        """Kills a local kernel that takes more memory than it may."""
        if self._spec is not self._host.spec:
            return  # the starter: all kernels are its descendants
        limit, pid = self._host.settings.memory_limit, getattr(provisioner, "pid", None)
        if limit is None or not isinstance(pid, int) or self._killed_for or not memory.is_over(pid, limit):
            return
        self._killed_for = f"it was over its memory limit of {memory.describe_size(limit)}"
        await self.kill()

    def _trim_log(self) -> None:
        """Empties the log when it is over its limit; the process appends, so it goes on at the start."""
        try:
            if os.stat(self._log_path).st_size > LOG_LIMIT:
                os.truncate(self._log_path, 0)
        except FileNotFoundError:
            log.debug("kernel %s: somebody removed its log", self._id)

    def _clear(self) -> None:
        self._log_path.unlink(missing_ok=True)
        self._host.guard.drop_path(self._log_path)
        self._host.folder.clear(self._id)


def _kill_group(group: int) -> None:
    """Kills what a kernel that has just ended left in its process group."""
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        pass  # nothing left: the ordinary case
    except PermissionError as error:
        log.warning("a kernel left processes of another user behind: %s", error)
