"""Kernels that are forked from a process that has everything loaded, as a provisioner of jupyter_client."""

from __future__ import annotations

import os
import select
import signal
import time
from pathlib import Path
from typing import Any

from jupyter_client.connect import KernelConnectionInfo
from jupyter_client.provisioning.local_provisioner import LocalProvisioner

from bridge.pool.templates import Templates

REPORT_SECONDS = 2.0
"""Seconds after its end in which the exit code of a process is told by its parent."""


class ForkProvisioner(LocalProvisioner):
    """Has the kernel forked from the `template` of its manager; one without a template is started as any other."""

    parent: Any
    process: Any = None

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> KernelConnectionInfo:
        template = getattr(self.parent, "template", None)
        if template is None:
            return await super().launch_kernel(cmd, **kwargs)
        output = os.readlink(f"/proc/self/fd/{kwargs['stdout']}")
        self.pid = await template.fork(self.parent.connection_file, output)
        self.pgid = self.pid  # it leads a session of its own
        self.process = ForkedProcess(self.pid, self.parent.templates)
        self.cwd = kwargs.get("cwd") or Path.cwd()
        return self.connection_info


class ForkedProcess:
    """A process that is not our child, as `subprocess.Popen` has it: watched by a process descriptor."""

    stdin = stdout = stderr = None

    def __init__(self, pid: int, templates: Templates) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._codes = templates.codes
        self._ended_at: float | None = None
        try:
            self._descriptor = os.pidfd_open(pid)
        except ProcessLookupError:  # it has ended already, and was reaped
            self._descriptor = -1

    def poll(self) -> int | None:
        """The exit code once the process has ended; minus SIGKILL when nobody is left who could tell."""
        if self.returncode is None and self._has_ended():
            self._ended_at = self._ended_at or time.monotonic()
            code = self._codes.get(self.pid)
            if code is None and time.monotonic() - self._ended_at > REPORT_SECONDS:
                code = -signal.SIGKILL
            if code is not None:
                self.returncode = code
                self._codes.pop(self.pid, None)
                self._close()
        return self.returncode

    def wait(self) -> int | None:
        """As `poll`; the provisioner calls it when the process has ended."""
        return self.poll()

    def send_signal(self, signum: int) -> None:
        """Sends a signal to this very process, whoever may have its number by now."""
        if self._descriptor >= 0:
            signal.pidfd_send_signal(self._descriptor, signum)

    def terminate(self) -> None:
        """Sends SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Sends SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def _has_ended(self) -> bool:
        if self._descriptor < 0:
            return True
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        return bool(poll.poll(0))

    def _close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
