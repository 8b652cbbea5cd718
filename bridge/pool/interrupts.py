"""Interrupts that hit the cell they are meant for, and its end told whatever they broke."""

from __future__ import annotations

import asyncio
import signal
import threading
import time

from bridge.errors import KernelTimeout
from bridge.pool.channels import Channels
from bridge.pool.execution import Execution, Overtaker
from bridge.pool.host import Host
from bridge.pool.lifecycle import Life
from bridge.pool.orphans import end_orphans

SIGNAL_WITHIN = 2.0
"""Seconds for a provisioner to deliver a signal."""
WARM_UP = 0.03
"""Seconds from a cell's begin in which ipykernel is still at its own work: a signal there may be swallowed."""
LOOK = 0.005
"""Seconds between two looks whether a cell that is to be interrupted has begun."""
SECOND_TRY = 1.0
"""Seconds after the last look for orphans; an interrupt inside ipykernel's own sending spoils the message."""


class Interrupter:
    """Interrupts one kernel; safe in several threads.

    Before a cell begins ipykernel ignores SIGINT, so the signal waits for the begin. After its end the signal
    would meet the next cell, so the check for the end and the signal are one step, for which the next cell's
    sending waits (`wait_until_quiet`). A signal that meets ipykernel's own code costs a reply: the request that
    follows it tells when there is none to come.
    """

    def __init__(self, host: Host, life: Life, channels: Channels) -> None:
        self._host = host
        self._life = life
        self._channels = channels
        self._quiet = threading.Event()  # cleared while a signal is on its way
        self._quiet.set()
        self._aftermath: asyncio.Task[None] | None = None

    def wait_until_quiet(self) -> None:
        """Returns when no signal is on its way, bounded by the time a provisioner has to deliver one."""
        self._quiet.wait(SIGNAL_WITHIN)

    def interrupt(self, cell: Execution | None) -> None:
        """Interrupts this cell, now or when it begins; for None whatever the kernel does. See the class."""
        if cell is not None and cell.when_begun(lambda: self._interrupt_begun(cell)):
            if cell.mark is not None:
                self._host.submit(self._watch(cell))
            return
        try:
            self._host.run(self._interrupt(cell), SIGNAL_WITHIN)
        except TimeoutError as error:
            raise KernelTimeout(str(error)) from error

    def _interrupt_begun(self, cell: Execution) -> None:
        self._host.submit(self._interrupt(cell))

    async def _watch(self, cell: Execution) -> None:
        """Looks whether the cell has begun until it has, or never will."""
        while not (cell.has_begun() or cell.ended) and self._life.alive:
            await asyncio.sleep(LOOK)

    async def _interrupt(self, cell: Execution | None) -> None:
        if cell is not None and cell.begun_at is not None:
            await asyncio.sleep(max(0.0, cell.begun_at + WARM_UP - time.monotonic()))
        self._quiet.clear()
        try:
            if (cell is not None and cell.ended) or not self._life.alive:
                return
            if self._host.spec.interrupt_mode == "message":
                self._channels.send("control", "interrupt_request", {})
            else:
                await self._life.signal(signal.SIGINT)
        finally:
            self._quiet.set()
        self._overtake(cell)
        if cell is not None:
            if self._aftermath is not None:
                self._aftermath.cancel()
            self._aftermath = asyncio.create_task(self._settle(cell))

    def _overtake(self, cell: Execution | None) -> None:
        """Sends the request that wakes a cell that awaits, and whose answer proves that the cell has ended.

        A cell that awaits meets the signal's KeyboardInterrupt only when its event loop next wakes.
        """

        def overtaken() -> None:
            if cell is not None:
                self._channels.forget(cell.msg_id)
                cell.overtaken()

        self._channels.send("shell", "kernel_info_request", {}, handler=Overtaker(overtaken))

    async def _settle(self, cell: Execution) -> None:
        """Looks after what an interrupt may leave: orphans, and an answer that it cut in two."""
        if self._life.group is not None:
            await end_orphans(self._life.group, cell.sent_at)
        for _ in range(int(SECOND_TRY / 0.1)):
            if cell.ended or not self._life.alive:
                return
            await asyncio.sleep(0.1)
        self._overtake(cell)
