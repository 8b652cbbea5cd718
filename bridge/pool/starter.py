"""The starter: a kernel that put down its sockets for good, and is forked into kernels that are ready at once."""

from __future__ import annotations

import logging
import sys
import threading
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING

from bridge.errors import KernelStartFailed
from bridge.pool.process import KernelProcess
from bridge.pool.templates import Template

if TYPE_CHECKING:
    from bridge.pool.host import Host

log = logging.getLogger(__name__)

# What `ipykernel_launcher` does, and then what the helper makes of the process.
LAUNCH = """
import sys, importlib.util
del sys.path[0]
from ipykernel.kernelapp import IPKernelApp
sys.argv[0] = importlib.util.find_spec("ipykernel_launcher").origin
app = IPKernelApp.instance()
app.initialize([*sys.argv[1:], "--IPKernelApp.capture_fd_output=False"])
app.poller = None  # its thread would be the only one left; the server's end is told by a socket's
app.start()
sys.modules["_bridge_kernel.forks"].live()
"""
FREEZE_SECONDS = 10.0
PRELOAD_SECONDS = 120.0
"""The bound of importing libraries, which may be on a slow disk."""


class Starter:
    """One pool's starter. Where it cannot work there is none, and every kernel starts in the ordinary way.

    Of its two templates one has nothing but IPython and the helper, the other the preloaded libraries as well.
    """

    def __init__(
        self, host: Host, prepare: Callable[[KernelProcess], None], loaded: Callable[[], None]
    ) -> None:
        """`prepare` makes a kernel ours; `loaded` is called when the libraries are there."""
        self.ready = threading.Event()
        """Set when there is a template, or it is known that there will be none."""
        self._host = host
        self._prepare = prepare
        self._loaded = loaded
        self._lock = threading.Lock()  # guards the two below against each other
        self._kernel: KernelProcess | None = None
        self._closing = False
        self._bare: Template | None = None
        self._full: Template | None = None

    def start(self) -> None:
        """Starts it; returns when its libraries are loaded, in a thread that can wait for that."""
        try:
            self._start()
        except Exception as error:
            log.info("kernels are started one by one: %s", error)
        finally:
            self.ready.set()

    def template(self, *, plain: bool = False) -> Template | None:
        """What a new kernel is forked from; `plain`: one without preloaded libraries. None when there is none."""
        for template in (self._bare,) if plain else (self._full, self._bare):
            if template is not None and template.alive:
                return template
        return None

    @property
    def preloads(self) -> bool:
        """Whether new kernels have libraries preloaded."""
        return self._full is not None and self._full.alive

    def _start(self) -> None:
        from jupyter_client.kernelspec import KernelSpec

        host, settings = self._host, self._host.settings
        spec = KernelSpec(
            argv=[sys.executable, "-c", LAUNCH, "-f", "{connection_file}"],
            display_name="starter",
            language="python",
        )
        kernel = KernelProcess(uuid.uuid4().hex[:8], host, lambda kernel: None, spec=spec)
        with self._lock:
            if self._closing:
                raise KernelStartFailed("the pool is closing")
            self._kernel = kernel
        kernel.start()
        self._prepare(kernel)
        token = f"bare-{kernel.id}"
        order = {"op": "fork", "how": "freeze", "path": str(host.templates.path), "token": token}
        why = kernel.request(order, timeout=FREEZE_SECONDS)[0].get("why")
        if why is not None:
            host.submit(kernel.end(0.0))
            raise KernelStartFailed(why)
        kernel.close_channels()
        bare = self._bare = host.run(host.templates.arrival(token, FREEZE_SECONDS), FREEZE_SECONDS + 1)
        self.ready.set()
        if settings.preload:
            token = f"full-{kernel.id}"
            host.call(bare.preload, settings.preload, token)
            self._full = host.run(host.templates.arrival(token, PRELOAD_SECONDS), PRELOAD_SECONDS + 1)
            self._loaded()

    def give_up(self) -> None:
        """Forks nothing from now on: it does not work here."""
        self._bare = self._full = None

    def close(self) -> list[KernelProcess]:
        """Starts nothing from now on; gives the process of its own, when there is one, which is to be ended."""
        with self._lock:
            self._closing = True
            return [self._kernel] if self._kernel is not None else []
