"""One kernel process: its start, the messages to it, and its end."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bridge.errors import KernelDied, KernelStartFailed, KernelTimeout
from bridge.pool.execution import Execution, Greeting, OnInput, OnIopub, Overtaker, Request
from bridge.pool.orphans import end_orphans, moment
from bridge.pool.wire import Frame, Message, Wire

if TYPE_CHECKING:
    from jupyter_client.manager import AsyncKernelManager
    from jupyter_client.provisioning.provisioner_base import KernelProvisionerBase

    from bridge.pool.channels import Channels
    from bridge.pool.host import Host

log = logging.getLogger(__name__)

POLL_LOCAL, POLL_REMOTE = 0.1, 2.0
"""Seconds between two looks at the process; a remote provisioner's look may be a request over a network."""
LOG_LIMIT, TAIL = 1_000_000, 4_000
"""Bytes of a kernel's own log at which it is emptied, and of its end that a message about a failure shows."""
POLL_FAILURES = 5
"""Looks in a row that may fail before a kernel counts as lost."""
SIGNAL_TIMEOUT = 2.0
"""Seconds for a provisioner to deliver a signal."""
WARM_UP = 0.03
"""Seconds from the begin of a cell in which ipykernel is still at its own work: a signal there may be swallowed."""
SECOND_TRY = 1.0
"""Seconds after the last look for orphans; an interrupt inside ipykernel's own sending spoils the message."""
HEARD_WITHIN = 0.1
"""Seconds after a reply in which its idle status shows that iopub is connected."""


def describe_exit(code: int) -> str:
    """How a process ended, in words, from its exit code (negative: the signal that ended it)."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"signal {-code} ({signal.Signals(-code).name})"
    except ValueError:
        return f"signal {-code}"


class KernelProcess:
    """One running kernel, started through its kernelspec's provisioner.

    `used` says whether it was ever leased, `ready` whether it has started; `held` and `retire` are the
    engine's: what the kernel holds, and that it must end at its release. `info` is the content of its
    kernel_info_reply.
    """

    def __init__(self, kernel_id: str, host: Host, on_death: Callable[[KernelProcess], None]) -> None:
        self.id = kernel_id
        self.used = False
        self.held: Any = None
        self.retire = False
        self.ready = False
        self.info: dict[str, Any] = {}
        self.exit_reason: str | None = None
        self.started_at = time.time()
        self._host = host
        self._on_death = on_death
        self._log_path = host.settings.log_dir / f"kernel-{kernel_id}.log"
        self._manager: AsyncKernelManager | None = None
        self._channels: Channels | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._launching = asyncio.Lock()
        self._ending = False
        self._group: int | None = None  # of a local kernel
        self._cell: Execution | None = None  # the one sent last
        self._cell_began = 0.0
        self._aftermath: asyncio.Task[None] | None = None
        self._quiet = threading.Event()  # cleared while a signal is on its way
        self._quiet.set()
        self._last_words: str | None = None

    @property
    def alive(self) -> bool:
        """Whether the process runs, as far as the last look at it tells."""
        return self._manager is not None and self.exit_reason is None

    @property
    def pid(self) -> int | None:
        """The process id where the provisioner knows one on this machine."""
        pid = getattr(self._manager.provisioner, "pid", None) if self._manager is not None else None
        return pid if isinstance(pid, int) else None

    # -- messages -----------------------------------------------------------------------------------------

    def execute(
        self,
        code: str,
        *,
        metadata: Mapping[str, Any] | None = None,
        on_iopub: OnIopub,
        on_input: OnInput,
        silent: bool = False,
        store_history: bool = True,
        allow_stdin: bool = True,
        stop_on_error: bool = False,
    ) -> Execution:
        """Sends a cell; the Execution tells when it has ended (at once, when the kernel is dead already).

        `on_iopub` is called for every message of this cell, in order, in the kernel's reading thread: it must
        be quick. `on_input(prompt, password)` is called in a thread of its own and may wait, but must return
        when the execution has ended; None (or an exception) lets `input()` raise EOFError.
        """
        channels = self._connected()
        self._quiet.wait(SIGNAL_TIMEOUT)  # a signal for the cell before this one
        header = channels.header("execute_request")
        content = {
            "code": code,
            "silent": silent,
            "store_history": store_history,
            "user_expressions": {},
            "allow_stdin": allow_stdin,
            "stop_on_error": stop_on_error,
        }
        execution = Execution(header["msg_id"], on_iopub, on_input, self._answer, silent=silent)
        self._cell, self._cell_began = execution, moment()
        channels.send(
            "shell", "execute_request", content, header=header, metadata=metadata, handler=execution
        )
        return execution

    def request(
        self, content: Mapping[str, Any], buffers: Sequence[Frame] = (), *, timeout: float
    ) -> tuple[dict[str, Any], list[memoryview]]:
        """Content and buffers of the helper's answer (bridge_reply) to a bridge_request.

        KernelTimeout when none came within `timeout` seconds, KernelDied when the kernel ended before.
        """
        reply = self._ask("bridge_request", content, buffers, timeout)
        return reply["content"], reply["buffers"]

    def interrupt(self) -> None:
        """Interrupts what runs, as the kernelspec says, and sends a request that stops a cell that awaits.

        A cell that awaits meets the signal's KeyboardInterrupt only when its event loop next wakes: any shell
        request wakes it. A cell that was sent but is not yet begun is interrupted when it is: before that,
        ipykernel ignores signals. KernelTimeout when the provisioner does not deliver; a dead kernel is left
        alone.
        """
        cell = self._cell if self._cell is not None and not self._cell.ended else None
        if self._channels is None or not self.alive:
            return
        if cell is not None and cell.when_begun(lambda: self._begin_interrupt(cell)):
            return
        try:
            self._host.run(self._interrupt(cell), SIGNAL_TIMEOUT)
        except TimeoutError as error:
            raise KernelTimeout(str(error)) from error

    def _begin_interrupt(self, cell: Execution) -> None:
        self._host.submit(self._interrupt(cell))

    async def _interrupt(self, cell: Execution | None) -> None:
        channels, provisioner = self._connected(), self._provisioner()
        if provisioner is None or not self.alive:
            return
        if cell is not None and cell.begun_at is not None:
            await asyncio.sleep(max(0.0, cell.begun_at + WARM_UP - time.monotonic()))
        self._quiet.clear()
        try:
            if cell is not None and cell.ended:
                return  # the signal must not meet whatever comes after it
            if self._host.spec.interrupt_mode == "message":
                channels.send("control", "interrupt_request", {})
            else:
                await provisioner.send_signal(signal.SIGINT)
        finally:
            self._quiet.set()
        self._overtake(channels, cell)
        if cell is not None:
            if self._aftermath is not None:
                self._aftermath.cancel()
            self._aftermath = asyncio.create_task(self._settle(channels, cell, self._cell_began))

    def _overtake(self, channels: Channels, cell: Execution | None) -> None:
        """Sends the request that wakes a cell that awaits, and whose answer proves that the cell has ended."""

        def overtaken() -> None:
            if cell is not None:
                channels.forget(cell.msg_id)
                cell.overtaken()

        channels.send("shell", "kernel_info_request", {}, handler=Overtaker(overtaken))

    async def _settle(self, channels: Channels, cell: Execution, began: float) -> None:
        """Looks after what an interrupt may leave: orphans, and an answer that it cut in two."""
        if self._group is not None:
            await end_orphans(self._group, began)
        await asyncio.sleep(SECOND_TRY)
        if not cell.ended and self.alive:
            self._overtake(channels, cell)

    def kill(self) -> None:
        """Kills the process and its process group; the death shows within half a second, like any other."""
        self._ending = self.retire = True  # so that a release before the death is seen leases it to nobody
        provisioner = self._provisioner()
        if provisioner is None or not self.alive:
            return
        try:
            self._host.run(provisioner.kill(), SIGNAL_TIMEOUT)
        except TimeoutError as error:
            raise KernelTimeout(str(error)) from error

    def _answer(self, request: Message, value: str) -> None:
        if self._channels is not None:
            content = {"value": value, "status": "ok"}
            self._channels.send("stdin", "input_reply", content, parent=request["header"])

    def _ask(
        self, msg_type: str, content: Mapping[str, Any], buffers: Sequence[Frame], timeout: float
    ) -> Message:
        channels = self._connected()
        header, waiting = channels.header(msg_type), Request()
        channels.send("shell", msg_type, content, header=header, buffers=buffers, handler=waiting)
        if not waiting.wait(timeout):
            channels.forget(header["msg_id"])
            raise KernelTimeout(f"the kernel did not answer a {msg_type} within {timeout:g} s")
        if waiting.reply is None:
            raise KernelDied(waiting.died or "the kernel died")
        return waiting.reply

    def _connected(self) -> Channels:
        if self._channels is None:
            raise KernelDied(self.exit_reason or "the kernel has not started")
        return self._channels

    # -- start --------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Starts the process and returns when it answers and its output is heard.

        KernelStartFailed with the end of what it wrote, when it dies or is silent for the start timeout.
        """
        timeout = self._host.settings.start_timeout
        try:
            self._host.run(self._launch(), timeout)
            self._channels = self._connect()
            self._channels.start()
            if self.exit_reason is not None:
                self._channels.kernel_died(self.exit_reason)
            self._greet(time.monotonic() + timeout)
        except Exception as error:
            tail = self._tail()
            self._host.submit(self.end(grace=0.0))
            message = str(error) or type(error).__name__
            raise KernelStartFailed(f"the kernel did not start: {message}{tail and chr(10)}{tail}") from error

    async def _launch(self) -> None:
        from bridge.pool.launch import kernel_environment, make_manager

        settings = self._host.settings
        async with self._launching:
            if self._ending:
                raise KernelDied("it was ended before it began")
            manager = make_manager(self._host.spec, self._host.folder, self.id)
            self._host.guard.add_path(self._log_path)
            output = os.open(self._log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            try:
                await manager.start_kernel(
                    extra_arguments=["--HistoryManager.enabled=False"],
                    env=kernel_environment(os.environ, settings.env, settings.secrets),
                    cwd=settings.cwd,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                )
            finally:
                os.close(output)
                if manager.has_kernel:
                    self._manager = manager
                    self._watcher = asyncio.create_task(self._watch(manager))

    def _connect(self) -> Channels:
        from bridge.pool.channels import Channels

        assert self._manager is not None
        info = self._manager.get_connection_info()
        wire = Wire(self._manager.session.key, self._manager.session.signature_scheme)
        mark = "-" if info["transport"] == "ipc" else ":"
        endpoints = {
            channel: f"{info['transport']}://{info['ip']}{mark}{info[f'{channel}_port']}"  # type: ignore[literal-required]
            for channel in ("shell", "control", "stdin", "iopub")
        }
        return Channels(self._host.context, endpoints, wire, self.id)

    def _greet(self, deadline: float) -> None:
        """Asks for the kernel's info until its reply and, on iopub, its idle status have come."""
        channels = self._connected()
        while (left := deadline - time.monotonic()) > 0:
            header, greeting = channels.header("kernel_info_request"), Greeting()
            channels.send("shell", "kernel_info_request", {}, header=header, handler=greeting)
            greeting.replied.wait(left)
            heard = greeting.heard.wait(HEARD_WITHIN)
            channels.forget(header["msg_id"])
            if greeting.died is not None:
                raise KernelDied(greeting.died)
            if heard and greeting.info is not None:
                self.info = greeting.info
                return
        raise KernelTimeout(f"no answer within {self._host.settings.start_timeout:g} s")

    # -- end ----------------------------------------------------------------------------------------------

    async def end(self, grace: float) -> None:
        """Ends the process: asked to, and after `grace` seconds killed. Runs in the host's loop; idempotent.

        Returns when nothing is left of it: no process, no sockets, no files.
        """
        self._ending = True
        async with self._launching:
            watcher, manager = self._watcher, self._manager
        if watcher is None or manager is None or manager.provisioner is None:
            self._clean()
            self._on_death(self)
            return
        if grace > 0 and self.ready and self._channels is not None and self.alive:
            # An idle kernel gets no signal: one that meets it while it exits may abort.
            if self._channels.awaited and self._host.spec.interrupt_mode == "signal":
                await manager.provisioner.send_signal(signal.SIGINT)
            self._channels.send("control", "shutdown_request", {"restart": False})
            await asyncio.wait({watcher}, timeout=grace)
        if not watcher.done():
            await manager.provisioner.kill()
            await asyncio.wait({watcher}, timeout=SIGNAL_TIMEOUT)
        if not watcher.done():
            log.error("kernel %s: its process %s does not end", self.id, self.pid)

    def close_channels(self) -> bool:
        """Ends the sockets' thread, when the process's end has not; whether it has ended."""
        if self._channels is None:
            return True
        self._channels.close()
        return self._channels.closed

    async def _watch(self, manager: AsyncKernelManager) -> None:
        """Looks at the process until it has ended, then clears up after it: the one place that does."""
        provisioner = manager.provisioner
        assert provisioner is not None
        self._group = self._announce(provisioner)
        code = await self._exit_code(provisioner)
        if self._group is not None:
            _kill_group(self._group)
            self._host.guard.drop_group(self._group)
        if self._aftermath is not None:
            self._aftermath.cancel()
        self._last_words = self._tail()
        reason = describe_exit(code) if code is not None else "its provisioner lost it"
        if not self._ending:
            log.warning("kernel %s (pid %s) ended: %s\n%s", self.id, self.pid, reason, self._last_words)
        self.exit_reason = reason
        if self._channels is not None:
            self._channels.kernel_died(reason)
        self._on_death(self)
        await provisioner.wait()
        await manager.cleanup_resources()
        self._clean()

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
                log.exception("kernel %s: its provisioner cannot tell whether it runs", self.id)
                failures, code = failures + 1, None
            if code is not None:
                return code
            self._trim_log()
            await asyncio.sleep(interval)
        return None

    def _provisioner(self) -> KernelProvisionerBase | None:
        return self._manager.provisioner if self._manager is not None else None

    # -- files --------------------------------------------------------------------------------------------

    def _tail(self) -> str:
        """The end of what the process wrote to its own stdout and stderr."""
        if self._last_words is not None:
            return self._last_words
        try:
            with open(self._log_path, "rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL))
                return file.read().decode("utf-8", errors="replace").strip()
        except FileNotFoundError:
            return ""

    def _trim_log(self) -> None:
        """Empties the log when it is over its limit; the process appends, so it goes on at the start."""
        try:
            if os.stat(self._log_path).st_size > LOG_LIMIT:
                os.truncate(self._log_path, 0)
        except FileNotFoundError:
            log.debug("kernel %s: somebody removed its log", self.id)

    def _clean(self) -> None:
        self._log_path.unlink(missing_ok=True)
        self._host.guard.drop_path(self._log_path)
        self._host.folder.clear(self.id)


def _kill_group(group: int) -> None:
    """Kills what a kernel that has just ended left in its process group."""
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        pass  # nothing left: the ordinary case
    except PermissionError as error:
        log.warning("a kernel left processes of another user behind: %s", error)
