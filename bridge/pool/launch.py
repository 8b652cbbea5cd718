"""Which kernel to start, in what environment, and where its connection lives."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from bridge.errors import KernelStartFailed

if TYPE_CHECKING:
    from jupyter_client.kernelspec import KernelSpec
    from jupyter_client.manager import AsyncKernelManager

    from bridge.pool.templates import Template, Templates

OURS = ("BRIDGE_", "ALBEDO_", "PYTEST_")
"""Variables that are the server's business. (With PYTEST_CURRENT_TEST ipykernel captures no descriptors.)"""
SERVER_ONLY = ("JPY_PARENT_PID", "JPY_SESSION_NAME", "JPY_API_TOKEN")
"""Variables that tell a process whose kernel it is; the launcher sets its own."""
FORKS = "bridge-fork"
"""The entry point of the provisioner that forks."""
OWN_KERNEL = ["-m", "bridge.jupyter"]
"""What follows the interpreter where a kernelspec starts the bridge."""
SOCKET_PATH_LIMIT = 100
"""Bytes of a unix socket's path that every platform takes (Linux 107, macOS 103)."""


def kernel_environment(
    base: Mapping[str, str], extra: Mapping[str, str], secrets: tuple[str, ...] = ()
) -> dict[str, str]:
    """The environment of a kernel: `base` without what is the server's or holds a secret, with `extra`.

    `$BRIDGE_TOKEN` in `base` counts as a secret: no variable of any name may carry it.
    """
    secrets = tuple(filter(None, (*secrets, base.get("BRIDGE_TOKEN"))))
    kept = {
        name: value
        for name, value in base.items()
        if not name.startswith(OURS) and name not in SERVER_ONLY and not any(s in value for s in secrets)
    }
    return {**kept, **extra}


def find_kernelspec(name: str | None) -> KernelSpec:
    """The kernelspec of that name; for None the server's own interpreter, which needs none installed.

    KernelStartFailed when there is no such kernelspec, it is for another language, or the bridge itself.
    """
    from jupyter_client.kernelspec import KernelSpec, KernelSpecManager, NoSuchKernel

    if not name:
        argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        return KernelSpec(argv=argv, display_name="Python 3", language="python")
    try:
        spec = KernelSpecManager().get_kernel_spec(name)
    except NoSuchKernel as error:
        raise KernelStartFailed(f"there is no kernelspec named {name!r}") from error
    if spec.language.lower() != "python":
        raise KernelStartFailed(f"kernelspec {name!r} is for {spec.language}, not for Python")
    if spec.argv[1:3] == OWN_KERNEL:
        raise KernelStartFailed(
            f"kernelspec {name!r} is the bridge itself, which runs cells in another kernel"
        )
    return spec


class RuntimeFolder:
    """A private folder (0700) for the connection files and sockets of one pool's kernels.

    `transport` is "ipc" where its path is short enough for a socket's name and the platform has such sockets.
    """

    def __init__(self) -> None:
        self.path = self._make()
        longest = len(os.fsencode(self.path)) + len("/12345678-ipc-5")
        self.transport = "ipc" if os.name == "posix" and longest <= SOCKET_PATH_LIMIT else "tcp"

    @staticmethod
    def _make() -> Path:
        """The folder, in the user's choice of a temporary place unless that one's path is too long."""
        places = [tempfile.gettempdir(), "/tmp"] if os.name == "posix" else [tempfile.gettempdir()]
        usable = [place for place in places if os.path.isdir(place) and os.access(place, os.W_OK)]
        short = [place for place in usable if len(os.fsencode(place)) + 32 <= SOCKET_PATH_LIMIT]
        place = next(iter(short or usable), None)
        return Path(tempfile.mkdtemp(prefix="jb-", dir=place)).resolve()

    def connection_file(self, kernel_id: str) -> Path:
        """Where a kernel's connection file is written; its sockets stand beside it."""
        return self.path / f"{kernel_id}.json"

    def begin_mark(self, kernel_id: str) -> Path:
        """The file whose time tells which cell a kernel has begun."""
        return self.path / f"{kernel_id}.begin"

    def clear(self, kernel_id: str) -> None:
        """Removes what one kernel left."""
        for path in self.path.glob(f"{kernel_id}[.-]*"):
            path.unlink(missing_ok=True)

    def close(self) -> None:
        """Removes the folder."""
        shutil.rmtree(self.path, ignore_errors=True)


def make_manager(
    spec: KernelSpec, folder: RuntimeFolder, kernel_id: str, template: Template | None, templates: Templates
) -> AsyncKernelManager:
    """A jupyter_client manager for one kernel that is yet to start; its provisioner is the kernelspec's.

    With a `template` it is the one that forks the kernel from it.
    """
    from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
    from jupyter_client.manager import AsyncKernelManager

    if template is not None:
        spec = KernelSpec(
            **{**spec.to_dict(), "metadata": {"kernel_provisioner": {"provisioner_name": FORKS}}}
        )

    class OneSpec(KernelSpecManager):
        """Knows the chosen kernelspec alone, which need not be installed."""

        def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
            return spec

    class Manager(AsyncKernelManager):
        """Starts and ends the process; talks to the kernel through no socket of its own."""

        template: Template | None
        templates: Templates

        def _connect_control_socket(self) -> None:
            """Nothing: the kernel's channels send the shutdown request. Saves a zmq context per kernel."""

    manager = Manager(
        kernel_name="python3",
        kernel_id=kernel_id,
        kernel_spec_manager=OneSpec(),
        transport=folder.transport,
        connection_file=str(folder.connection_file(kernel_id)),
    )
    manager.template, manager.templates = template, templates
    return manager
