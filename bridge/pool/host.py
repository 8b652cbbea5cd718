"""What all kernels of one pool share: a thread for provisioners, a zmq context, a folder, a guard."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import zmq

from bridge.pool.guard import Guard
from bridge.pool.launch import RuntimeFolder, find_kernelspec
from bridge.pool.settings import PoolSettings
from bridge.pool.templates import Templates

log = logging.getLogger(__name__)

T = TypeVar("T")

SETTLE = 0.5
"""Seconds for what is still under way in the loop to come to its end before it is cancelled."""


class Host:
    """The ground that the kernels of one pool stand on; `close` after the last of them has ended.

    Provisioners are asynchronous and may keep to one event loop, so all of them live in the one here.
    KernelStartFailed when the chosen kernelspec cannot be used.
    """

    def __init__(self, settings: PoolSettings) -> None:
        self.settings = settings
        self.spec = find_kernelspec(settings.kernel_name)
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.folder = RuntimeFolder()
        self.templates = Templates(self.folder.path / "templates")
        self.guard = Guard()
        self.guard.add_path(self.folder.path)
        settings.log_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="provisioners", daemon=True)
        self._thread.start()

    def submit(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Starts work in the provisioners' loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, work: Coroutine[Any, Any, T], timeout: float) -> T:
        """The result of work in the provisioners' loop; TimeoutError after `timeout` seconds."""
        future = self.submit(work)
        try:
            return future.result(timeout)
        except concurrent.futures.TimeoutError:
            future.cancel()
            raise TimeoutError(f"the provisioner did not answer within {timeout:g} s") from None

    def call(self, work: Callable[..., object], *arguments: Any) -> None:
        """Has a function called in the provisioners' loop."""
        self._loop.call_soon_threadsafe(work, *arguments)

    def close(self, *, sockets_closed: bool) -> None:
        """Ends the thread, the context (when no socket is left in it), the folder and the guard."""
        self.submit(self.templates.close())
        self.submit(_settle()).add_done_callback(lambda _: self._loop.call_soon_threadsafe(self._loop.stop))
        self._thread.join(2 * SETTLE)
        if self._thread.is_alive():
            log.error("the provisioners' thread does not end")
        else:
            self._loop.close()
        if sockets_closed:
            self.context.term()
        else:
            log.error("the zmq context stays: a channel thread still owns sockets in it")
        self.folder.close()
        if sockets_closed and not self.settings.fork:
            # No kernel is left that it would have to look for, but one that was being forked may be.
            self.guard.drop_path(self.folder.path)
        self.guard.close()


async def _settle() -> None:
    """Ends when nothing else is left in the loop."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    if tasks:
        _, pending = await asyncio.wait(tasks, timeout=SETTLE)
        for task in pending:
            log.error("cancelled at the end: %s", task)
            task.cancel()
