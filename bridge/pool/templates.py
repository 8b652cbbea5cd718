"""Processes of one thread that wait to be forked into kernels, as the server speaks to them.

The other end, and the lines of JSON that go between, are in `bridge.injected.forks`. All of it in the host's loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bridge.errors import KernelStartFailed
from bridge.pool import memory

log = logging.getLogger(__name__)

FORK_SECONDS = 10.0
"""Seconds in which an order to fork must be answered: the page tables of many gigabytes take a while."""


class Template:
    """One such process; `alive` until its connection ends, with which it ends too."""

    def __init__(
        self, hello: dict[str, Any], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.token: str = hello["token"]
        self.pid: int = hello["pid"]
        self.preloaded: bool = hello["preloaded"]
        self.alive = True
        self._reader, self._writer = reader, writer
        self._loop = asyncio.get_running_loop()
        self._descriptor = os.pidfd_open(self.pid)
        self._turn = asyncio.Lock()
        self._forked: asyncio.Future[int] | None = None

    async def fork(self, connection_file: str, output: str) -> int:
        """The process id of a new kernel, which takes up the sockets of that connection file.

        `output` is a file for what it writes to its own stdout and stderr. KernelStartFailed.
        """
        async with self._turn:
            self._forked = asyncio.get_running_loop().create_future()
            self._say({"order": "kernel", "connection_file": connection_file, "output": output})
            try:
                return await asyncio.wait_for(self._forked, FORK_SECONDS)
            except asyncio.TimeoutError:
                self.close()
                raise KernelStartFailed(f"no fork within {FORK_SECONDS:g} s") from None
            finally:
                self._forked = None

    def preload(self, modules: Sequence[str], token: str) -> None:
        """Has a child made that is a template, too, and has imported these modules."""
        self._say({"order": "template", "preload": list(modules), "token": token})

    def memory(self, shared: bool = False) -> int:
        """Bytes of memory that it takes; of what it shares with others its part, or (`shared`, told fast) all."""
        return memory.own([self.pid]) if shared else memory.share([self.pid])

    def close(self) -> None:
        """Ends it; the kernels that came of it live on. From any thread."""
        self.alive = False
        with contextlib.suppress(RuntimeError):  # the loop has ended, and all connections with it
            self._loop.call_soon_threadsafe(self._close)

    def _close(self) -> None:
        self._writer.close()
        if self._descriptor >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._descriptor, signal.SIGKILL)  # it may be deaf
            os.close(self._descriptor)
            self._descriptor = -1

    def _say(self, order: dict[str, Any]) -> None:
        if not self.alive:
            raise KernelStartFailed("the process to be forked has ended")
        self._writer.write(json.dumps(order).encode() + b"\n")

    async def listen(self, codes: dict[int, int | None]) -> None:
        """Hears what it says until its end. `codes` takes the exit codes of kernels, None while they run."""
        try:
            while line := await self._reader.readline():
                said = json.loads(line)
                if "forked" in said and self._forked is not None and not self._forked.done():
                    codes[said["forked"]] = None
                    self._forked.set_result(said["forked"])
                elif "refused" in said and self._forked is not None and not self._forked.done():
                    self._forked.set_exception(KernelStartFailed(said["refused"]))
                elif said.get("ended") in codes:
                    codes[said["ended"]] = said["code"]
        except (ConnectionError, ValueError) as error:
            log.debug("template %s: %s", self.token, error)
        finally:
            self.close()
            if self._forked is not None and not self._forked.done():
                self._forked.set_exception(KernelStartFailed("the process to be forked has ended"))


class Templates:
    """All templates of one pool, and how the kernels that came of them ended."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.codes: dict[int, int | None] = {}
        self._awaited: dict[str, asyncio.Future[Template]] = {}
        self._unwanted: set[str] = set()  # for whom nobody waits any more
        self._all: set[Template] = set()
        self._server: asyncio.AbstractServer | None = None

    async def open(self) -> None:
        """Begins to listen for templates."""
        self._server = await asyncio.start_unix_server(self._meet, str(self.path))

    async def arrival(self, token: str, seconds: float) -> Template:
        """The template of that token, once it has said who it is. KernelStartFailed when it does not come."""
        future = self._awaited.setdefault(token, asyncio.get_running_loop().create_future())
        try:
            return await asyncio.wait_for(future, seconds)
        except asyncio.TimeoutError:
            self._unwanted.add(token)
            raise KernelStartFailed(f"no template within {seconds:g} s") from None
        finally:
            self._awaited.pop(token, None)

    async def close(self) -> None:
        """Ends all templates."""
        if self._server is not None:
            self._server.close()
        for future in self._awaited.values():
            if not future.done():
                future.set_exception(KernelStartFailed("the pool is closing"))
        for template in list(self._all):
            template.close()

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, ValueError, ProcessLookupError):
            hello = json.loads(await reader.readline())
            template = Template(hello, reader, writer)
            if template.token in self._unwanted:
                template.close()
                return
            self._all.add(template)
            future = self._awaited.setdefault(template.token, asyncio.get_running_loop().create_future())
            if not future.done():
                future.set_result(template)
            try:
                await template.listen(self.codes)
            finally:
                self._all.discard(template)
