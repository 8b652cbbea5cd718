"""One kernel process as its users see it: cells and requests to it, its start and its end."""

from __future__ import annotations

import os
import signal
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bridge.errors import CannotFork, KernelDied, KernelStartFailed, KernelTimeout
from bridge.pool import descendants
from bridge.pool.begin_marks import Mark, Marks
from bridge.pool.execution import Execution, Greeting, OnInput, OnIopub, Request
from bridge.pool.wire import Frame, Message, Wire

if TYPE_CHECKING:
    from jupyter_client.kernelspec import KernelSpec

    from bridge.pool.channels import Channels
    from bridge.pool.host import Host
    from bridge.pool.interrupts import Interrupter
    from bridge.pool.templates import Template

KILL_TIMEOUT = 2.0
"""Seconds for a provisioner to begin a kill."""
COPY_SECONDS = 10.0
"""Seconds for a kernel to copy itself: the page tables of many gigabytes take a while."""
FORK_START = 10.0
"""Seconds in which a kernel that is forked must answer; one that does not is started otherwise."""
HEARD_WITHIN = 0.1
"""Seconds after a reply in which its idle status shows that iopub is connected."""


class KernelProcess:
    """One running kernel, started through its kernelspec's provisioner.

    `used` says whether it was ever leased, `ready` whether it has started, `template` what it was forked from;
    `held` and `retire` are the engine's: what the kernel holds, and that it must end at its release. `info` is the
    content of its kernel_info_reply.
    """

    def __init__(
        self,
        kernel_id: str,
        host: Host,
        on_gone: Callable[[KernelProcess], None],
        *,
        spec: KernelSpec | None = None,
        template: Template | None = None,
    ) -> None:
        """`spec` is how it is started (None: as the host says), `template` what it is forked from instead."""
        from bridge.pool.lifecycle import Life  # late, like all that needs asyncio, zmq or jupyter_client

        self.id = kernel_id
        self.template = template
        self.used = False
        self.held: Any = None
        self.retire = False
        self.ready = False
        self.info: dict[str, Any] = {}
        self.started_at = time.time()
        self._host = host
        self._life = Life(kernel_id, host, self._exited, lambda: on_gone(self), spec or host.spec, template)
        self._channels: Channels | None = None
        self._interrupter: Interrupter | None = None
        self._cell: Execution | None = None  # the one sent last
        self._marks = Marks(host.folder.begin_mark(kernel_id))
        self._tell: Callable[[str], None] | None = None

    @property
    def alive(self) -> bool:
        """Whether the process runs, as far as the last look at it tells."""
        return self._life.alive

    @property
    def exit_reason(self) -> str | None:
        """How the process ended, such as "exit code 3" or "signal 9 (SIGKILL)"; None while it runs."""
        return self._life.exit_reason

    @property
    def forked(self) -> bool:
        """Whether it was forked, and so can be copied in its turn."""
        return self.template is not None

    @property
    def preloaded(self) -> bool:
        """Whether libraries were imported in it before any cell ran."""
        return self.template is not None and self.template.preloaded

    def looks_dead(self) -> bool:
        """Whether the process has ended, by a look at it now: sooner than `alive` knows, for a local child."""
        if not self.alive:
            return True
        pid = self.pid
        if pid is None:
            return False
        try:
            # A killed process gives up its memory, and so its program, long before its threads have ended and its
            # parent can see it. (To look is five times as fast as to read its state.)
            os.readlink(f"/proc/{pid}/exe")
        except (FileNotFoundError, ProcessLookupError):
            return os.path.isdir("/proc/self")  # gone; or a platform without /proc, where `alive` has to do
        except OSError:  # one that we may not look at
            return False
        return False

    def outliving(self) -> list[dict[str, Any]]:
        """What the notebook started that will outlive the kernel: `{"pid", "command"}` of each process."""
        return [] if self.pid is None else descendants.outliving(self.pid)

    @property
    def pid(self) -> int | None:
        """The process id where the provisioner knows one on this machine."""
        pid = getattr(self._life.provisioner, "pid", None)
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
        mark: Mark | None = None,
    ) -> Execution:
        """Sends a cell; the Execution tells when it has ended (at once, when the kernel is dead already).

        `on_iopub` is called for every message of this cell, in order, in the kernel's reading thread: it must
        be quick. `on_input(prompt, password)` is called in a thread of its own and may wait, but must return
        when the execution has ended; None (or an exception) lets `input()` raise EOFError. `mark` is one of
        `new_mark` that the kernel was told to set when it begins.
        """
        channels = self._connected()
        if self._interrupter is not None:
            self._interrupter.wait_until_quiet()
        header = channels.header("execute_request")
        content = {
            "code": code,
            "silent": silent,
            "store_history": store_history,
            "user_expressions": {},
            "allow_stdin": allow_stdin,
            "stop_on_error": stop_on_error,
        }
        execution = Execution(header["msg_id"], on_iopub, on_input, self._answer, silent=silent, mark=mark)
        self._cell = execution
        channels.send(
            "shell", "execute_request", content, header=header, metadata=metadata, handler=execution
        )
        return execution

    def new_mark(self) -> Mark:
        """What a cell of this kernel may set when it begins; see `bridge.pool.begin_marks`."""
        return self._marks.next()

    def request(
        self, content: Mapping[str, Any], buffers: Sequence[Frame] = (), *, timeout: float
    ) -> tuple[dict[str, Any], list[memoryview]]:
        """Content and buffers of the helper's answer (bridge_reply) to a bridge_request.

        KernelTimeout when none came within `timeout` seconds, KernelDied when the kernel ended before.
        """
        reply = self._ask("bridge_request", content, buffers, timeout)
        return reply["content"], reply["buffers"]

    def copy(self) -> Template:
        """Has the kernel, which is between two cells, leave a copy of its process that can be forked from.

        CannotFork, which says why, when a copy would lack something; KernelDied.
        """
        if not self.forked:
            raise CannotFork("its kernel was not forked itself")
        token, templates = f"{self.id}-{uuid.uuid4().hex[:8]}", self._host.templates
        order = {"op": "fork", "how": "copy", "path": str(templates.path), "token": token}
        try:
            reply, _ = self.request(order, timeout=COPY_SECONDS)
        except KernelTimeout:
            self.kill()
            raise
        if reply.get("why") is not None or reply.get("status") != "ok":
            raise CannotFork(str(reply.get("why") or reply.get("reason")))
        arrival = templates.arrival(token, COPY_SECONDS)
        return self._host.run(arrival, COPY_SECONDS + 1)

    def interrupt(self) -> None:
        """Interrupts the cell sent last, as the kernelspec says: now, or as soon as its code begins.

        Without such a cell whatever else the kernel does is interrupted. The cell's Execution ends even when
        the interrupt costs the kernel its reply; a cell that awaits ends, too. KernelTimeout when the
        provisioner does not deliver; a dead kernel is left alone.
        """
        if self._interrupter is not None and self.alive:
            self._interrupter.interrupt(
                self._cell if self._cell is not None and not self._cell.ended else None
            )

    def kill(self) -> None:
        """Kills the process and its process group; the death shows within half a second, like any other."""
        self.retire = True  # a release before the death is seen leases it to nobody
        self._life.ending = True
        try:
            self._host.run(self._life.kill(), KILL_TIMEOUT)
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

    # -- for a front end of the kernel's own ---------------------------------------------------------------

    def hand_over(self) -> tuple[dict[str, str], Wire]:
        """The channels' zmq URLs and a new end of the wire, for somebody who talks to the kernel beside us.

        Its iopub is theirs from now on: Executions of ours no longer end, requests do.
        """
        endpoints, wire = self._endpoints()
        self._connected().ignore_iopub()
        return endpoints, wire

    @property
    def session(self) -> str:
        """The session id in the headers of our own messages to the kernel."""
        return self._connected().session

    def on_exit(self, tell: Callable[[str], None]) -> None:
        """Has `tell` called with the reason when the process has ended, at once if it has; it must be quick.

        Called in the provisioners' thread.
        """
        self._tell = tell
        if self.exit_reason is not None:
            tell(self.exit_reason)

    # -- start --------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Starts the process and returns when it answers and its output is heard.

        KernelStartFailed with the end of what it wrote, when it dies or is silent for the start timeout.
        """
        from bridge.pool.interrupts import Interrupter

        timeout = self._host.settings.start_timeout
        if self.forked:
            timeout = min(timeout, FORK_START)
        try:
            self._host.run(self._life.launch(), timeout)
            self._channels = self._connect()
            self._channels.start()
            if self.exit_reason is not None:
                self._channels.kernel_died(self.exit_reason)
            self._interrupter = Interrupter(self._host, self._life, self._channels)
            self._greet(timeout)
        except Exception as error:
            tail = self._life.tail()
            self._host.submit(self.end(grace=0.0))
            message = str(error) or type(error).__name__
            raise KernelStartFailed(f"the kernel did not start: {message}{tail and chr(10)}{tail}") from error

    def _connect(self) -> Channels:
        from bridge.pool.channels import Channels

        return Channels(self._host.context, *self._endpoints(), self.id)

    def _endpoints(self) -> tuple[dict[str, str], Wire]:
        """The zmq URL of each channel, and one end of the wire."""
        manager = self._life.manager
        assert manager is not None
        info = manager.get_connection_info()
        wire = Wire(manager.session.key, manager.session.signature_scheme)
        mark = "-" if info["transport"] == "ipc" else ":"
        endpoints = {
            channel: f"{info['transport']}://{info['ip']}{mark}{info[f'{channel}_port']}"  # type: ignore[literal-required]
            for channel in ("shell", "control", "stdin", "iopub")
        }
        return endpoints, wire

    def _greet(self, seconds: float) -> None:
        """Asks for the kernel's info until its reply and, on iopub, its idle status have come."""
        channels = self._connected()
        deadline = time.monotonic() + seconds
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
        raise KernelTimeout(f"no answer within {seconds:g} s")

    # -- end ----------------------------------------------------------------------------------------------

    async def end(self, grace: float) -> None:
        """Ends the process: asked to, and after `grace` seconds killed. Runs in the host's loop; idempotent.

        One in which nobody's code ever ran has nothing to end in its own way, and is killed.

        Returns when nothing is left of it: no process, no files. Its sockets close right after its death.
        """
        await self._life.end(grace if self.ready and self.used else 0.0, self._ask_to_end)

    def close_channels(self) -> bool:
        """Ends the sockets' thread, when the process's end has not; whether it has ended."""
        if self._channels is None:
            return True
        self._channels.close()
        return self._channels.closed

    def _ask_to_end(self) -> bool:
        """Asks the kernel to end in its own way, and a cell in it first to make way; whether it can hear."""
        if self._channels is None:
            return False
        # An idle kernel gets no signal: one that meets it while it exits may abort.
        if self._channels.awaited and self._host.spec.interrupt_mode == "signal":
            self._host.submit(self._life.signal(signal.SIGINT))
        self._channels.send("control", "shutdown_request", {"restart": False})
        return True

    def _exited(self, reason: str) -> None:
        if self._channels is not None:
            self._channels.kernel_died(reason)
        if self._tell is not None:
            self._tell(reason)
