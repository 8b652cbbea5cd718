"""One bridge kernel put together: the home and its store, the pool, the line of states, the loop."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from bridge.engine import helper
from bridge.engine.expiry import Expiry
from bridge.engine.held import Held
from bridge.engine.hot import HotStates
from bridge.jupyter.driver import Driver
from bridge.jupyter.frontend import FrontEnd
from bridge.jupyter.line import Line
from bridge.jupyter.proxy import Proxy
from bridge.jupyter.workspace import workspace_name
from bridge.logs import start_logging
from bridge.pool import KernelProcess, Pool, PoolSettings
from bridge.settings import default_hot_memory, retention_from
from bridge.store.home import Home, default_path
from bridge.store.store import Store

HOT_STATES = 6
"""States kept as processes: that at hand, and five to go back to."""
PASSED_ON = ("JPY_SESSION_NAME",)
"""Variables that ipykernel's own process would have, and that code in notebooks asks for."""


class App:
    """Everything of one process; `run`, then `close`. BridgeError or OSError when it cannot be put together."""

    def __init__(
        self,
        connection_file: Path,
        home: Path | None,
        kernel_name: str | None,
        *,
        resume: bool,
        memory_limit: int | None,
        max_home: int | None,
    ) -> None:
        self._front = FrontEnd(connection_file)
        self._home = Home.open(home or default_path(os.environ))
        start_logging(self._home.logs_path, verbose=False)
        self._store = Store(self._home)
        name = workspace_name(os.environ, connection_file)
        self._line = Line(self._store, self._store.open_workspace(name, labelled=False))
        environment = {key: os.environ[key] for key in PASSED_ON if key in os.environ}
        self._pool = Pool(
            PoolSettings(
                size=1,
                log_dir=self._home.logs_path,
                kernel_name=kernel_name,
                env={**environment, "PYTHONHASHSEED": str(self._home.hash_seed)},
                arguments=(),
                memory_limit=memory_limit,
                fork=True,
            ),
            self._prepare,
        )
        self._store.keep_under(max_home)  # what the kernel holds, the line has pinned
        self._pool.start()
        self._expiry = Expiry(self._store, retention_from(os.environ))
        self._proxy = Proxy(self._front)
        self._hot = HotStates(
            HOT_STATES,
            default_hot_memory(),
            self._pool.release,
            lambda state_id: self._store.state(state_id) is not None,
        )
        driver = Driver(self._pool, self._line, self._hot, self._proxy.died)
        if resume and self._line.left is not None:
            driver.resume(self._line.find("last"))
        self._proxy.lead(driver)

    def run(self) -> None:
        """Serve until the front end or a signal ends it; KernelError when no kernel can be had."""
        self._proxy.run()

    def on_signal(self, number: int) -> None:
        """SIGINT is for the cell under way, others end the process."""
        if number == signal.SIGINT:
            self._proxy.soon(self._proxy.interrupt)
        else:
            self._proxy.soon(lambda: self._proxy.end(signal.Signals(number).name))

    def close(self) -> None:
        """End the real kernels, let the last messages out and close the home, within four seconds."""
        self._hot.clear()
        self._pool.shutdown()
        self._proxy.close()
        self._front.close()
        self._expiry.close()
        self._line.close()
        self._store.close()
        self._home.close()

    def _prepare(self, kernel: KernelProcess) -> None:
        """Make a kernel that has just started ours."""
        kernel.held = Held(kernel.id)
        helper.prepare(
            kernel, {"door": "jupyter", "kernel_id": kernel.id, "blobs": str(self._home.blobs_path)}
        )
