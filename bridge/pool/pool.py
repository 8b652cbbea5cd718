"""The pool: leases kernels, keeps them warm, replaces the dead, ends them all."""

from __future__ import annotations

import concurrent.futures
import logging
import math
import threading
import time
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from bridge.errors import Interrupted, KernelDied, KernelStartFailed, KernelTimeout, ShuttingDown
from bridge.pool.leases import Leases, Waiter
from bridge.pool.process import KernelProcess
from bridge.pool.settings import PoolSettings
from bridge.pool.starter import Starter

if TYPE_CHECKING:
    from bridge.pool.host import Host
    from bridge.pool.templates import Template

log = logging.getLogger(__name__)

Prepare = Callable[[KernelProcess], None]
Rank = Callable[[KernelProcess], float]

GRACE = 1.0
"""Seconds a kernel has to end in its own way (atexit handlers, open files) before it is killed."""
END_WITHIN = 2.7
"""Seconds from the start of a shutdown in which every kernel must have ended."""
RETRY_FIRST, RETRY_LAST = 1.0, 30.0
"""Seconds between tries to start a kernel that nobody waits for, doubled after each failure."""
START_TRIES = 2
"""Starts of a kernel in a row, when the first is killed from outside."""
OPEN_SECONDS = 5.0
"""The bound of opening a socket."""
LAST_CHOICE = 1e307
"""The rank of a new kernel that is made only for want of another."""
LOOK_SECONDS = 30.0
"""Bound of the keeper's wait; every change wakes it."""


class Ticket:
    """A hold on a lease that may still be waiting: `cancel` ends the wait, or the lease before it began."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cancelled = False
        self._wake: Callable[[], None] | None = None

    @property
    def cancelled(self) -> bool:
        """Whether `cancel` was called, be it before, during or after the lease."""
        return self._cancelled

    def cancel(self) -> None:
        """Ends the wait with Interrupted; without effect on a kernel that was handed out already."""
        with self._lock:
            self._cancelled = True
            wake = self._wake
        if wake is not None:
            wake()

    def watch(self, wake: Callable[[], None] | None) -> None:
        """Has `wake` called at the cancel (at once if that has been); None ends it. For the pool."""
        with self._lock:
            self._wake = wake
            cancelled = self._cancelled
        if wake is not None and cancelled:
            wake()


class Pool:
    """Kernels for the engine; `start` it, `lease` and `release`, and `shutdown` in the end.

    `prepare` runs once on each started kernel, in a thread of the pool, before the kernel is handed out; when
    it raises, the start has failed.
    """

    def __init__(self, settings: PoolSettings, prepare: Prepare = lambda kernel: None) -> None:
        self._settings = settings
        self._prepare = prepare
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)  # wakes the keeper
        self._leases: Leases[KernelProcess] = Leases(settings.size)
        self._kernels: dict[str, KernelProcess] = {}  # every one not yet ended, starting ones too
        self._detached: set[str] = set()
        self._threads: set[threading.Thread] = set()
        self._forks = settings.fork and settings.kernel_name is None
        self._starter: Starter | None = None
        self._host: Host | None = None
        self._begun = threading.Event()  # the two above are known
        self._retry_at, self._retry_after = 0.0, RETRY_FIRST
        self._closing = False
        self._closed = threading.Event()
        self._keeper = threading.Thread(target=self._keep, name="pool-keeper", daemon=True)

    def start(self) -> None:
        """Begins to warm kernels, in the background."""
        self._keeper.start()

    # -- leasing ------------------------------------------------------------------------------------------

    def lease(
        self,
        *,
        rank: Rank | None = None,
        fresh: bool = False,
        only: str | None = None,
        ticket: Ticket | None = None,
        timeout: float | None = None,
        template: Template | None = None,
        template_rank: float = math.inf,
        plain: bool = False,
    ) -> KernelProcess:
        """A kernel for the caller alone until it is released; first come, first served.

        Of the idle kernels the one with the lowest `rank` (infinite: must not be used; a never-used kernel
        may always be), and of equals the least recently used one. `rank` is called under the pool's lock:
        cheap and pure. `fresh`: a never-used one. `only`: the kernel of that id, waited for while it lives;
        after its death any. `template`: unless an idle one's rank is at most `template_rank`, a new one that is
        forked from this. `plain`: rather a new one without preloaded libraries than one of an infinite rank.

        Interrupted when `ticket` is cancelled before or meanwhile, KernelTimeout after `timeout` seconds,
        KernelStartFailed when the kernel it needs cannot be started, ShuttingDown at the pool's end.
        """
        waiter: Waiter[KernelProcess] = Waiter(rank=rank, fresh=fresh, only=only)
        if template is not None:
            waiter.make, waiter.make_rank = (lambda: self._new(template)), template_rank
        elif plain and self._forks:
            bare = self._template(plain=True)
            waiter.make, waiter.make_rank = (lambda: self._new(bare)), -math.inf if fresh else LAST_CHOICE
        ticket = ticket or Ticket()
        with self._lock:
            self._refuse_if(ticket)
            self._leases.waiting.append(waiter)
            self._retry_at = 0.0
            self._match()
        ticket.watch(waiter.settled.set)
        waiter.settled.wait(timeout)
        ticket.watch(None)
        with self._lock:
            if waiter in self._leases.waiting:
                self._leases.waiting.remove(waiter)
            if waiter.kernel is not None and (ticket.cancelled or self._closing):
                waiter.kernel.used = waiter.was_used
                self._leases.give_back(waiter.kernel)
            self._match()
            self._refuse_if(ticket)
        if waiter.error is not None:
            raise waiter.error
        if waiter.kernel is None:
            raise KernelTimeout(f"no kernel came free within {timeout:g} s")
        if not waiter.kernel.ready:
            self._start_leased(waiter.kernel)
        return waiter.kernel

    def _start_leased(self, kernel: KernelProcess) -> None:
        """Starts a kernel that was made for its lease; a failure ends the lease."""
        try:
            self._start(kernel)
            kernel.ready = True
        except BaseException:
            kernel.retire = True
            self.release(kernel)
            raise

    def release(self, kernel: KernelProcess) -> None:
        """Gives a leased kernel back; it is ended when it is to `retire`, and replaced then or when dead."""
        with self._lock:
            if kernel.retire:
                self._leases.leased.pop(kernel.id, None)
                self._detached.discard(kernel.id)
            else:
                self._leases.give_back(kernel)
            self._match()
            ends = kernel.retire and not self._closing  # the shutdown ends every kernel
        if ends:
            self._end(kernel)

    def detach(self, kernel: KernelProcess) -> None:
        """Makes a leased kernel the caller's for good; its place is free for another. `release` ends it."""
        with self._lock:
            kernel.retire = True
            self._leases.leased.pop(kernel.id, None)
            self._detached.add(kernel.id)
            self._match()

    def status(self) -> list[dict[str, Any]]:
        """Every kernel: `id`, `pid`, `state` (starting, idle, leased, detached, ending), `used`, `started_at`."""
        with self._lock:
            idle = {kernel.id for kernel in self._leases.idle}
            return [
                {
                    "id": kernel.id,
                    "pid": kernel.pid,
                    "state": "idle"
                    if kernel.id in idle
                    else "leased"
                    if kernel.id in self._leases.leased
                    else "detached"
                    if kernel.id in self._detached
                    else "starting"
                    if not kernel.ready
                    else "ending",
                    "used": kernel.used,
                    "started_at": kernel.started_at,
                }
                for kernel in self._kernels.values()
            ]

    def kernels(self) -> list[KernelProcess]:
        """Those that live, starting ones too."""
        with self._lock:
            return list(self._kernels.values())

    @property
    def preloads(self) -> bool:
        """Whether new kernels have libraries preloaded."""
        return self._starter is not None and self._starter.preloads

    @property
    def waiting(self) -> int:
        """How many leases wait for a kernel."""
        with self._lock:
            return len(self._leases.waiting)

    def _refuse_if(self, ticket: Ticket) -> None:
        if self._closing:
            raise ShuttingDown("the server is shutting down")
        if ticket.cancelled:
            raise Interrupted("interrupted while it waited for a kernel")

    def _match(self) -> None:
        """Hands out what can be and has the keeper look at the rest; under the lock."""
        self._leases.match()
        self._changed.notify_all()

    # -- keeping ------------------------------------------------------------------------------------------

    def _keep(self) -> None:
        """The keeper: starts kernels that are wanted, ends those that are too many, until the shutdown."""
        try:
            from bridge.pool.host import Host

            host = Host(self._settings)
            host.run(host.templates.open(), OPEN_SECONDS)
        except Exception as error:
            log.exception("no kernel can be started")
            self._begun.set()
            self._refuse_all(error)
            return
        with self._lock:
            self._host = host
            if self._forks and not self._closing:
                self._starter = Starter(host, self._prepare, self._libraries_loaded)
                self._add_thread(self._starter.start)
            self._begun.set()
        while True:
            with self._lock:
                if self._closing:
                    return
                surplus = self._leases.surplus()
                wait = self._retry_at - time.monotonic()
                wanted = self._leases.wanted() if wait <= 0 else 0
                self._leases.starting += wanted
                for _ in range(wanted):
                    self._add_thread(self._start_one)
                if not surplus and not wanted:
                    self._changed.wait(min(wait, LOOK_SECONDS) if wait > 0 else LOOK_SECONDS)
            for kernel in surplus:
                self._end(kernel)

    def _add_thread(self, work: Callable[..., None], *arguments: Any) -> None:
        """Starts a thread that the shutdown waits for; under the lock."""

        def run() -> None:
            try:
                work(*arguments)
            finally:
                with self._lock:
                    self._threads.discard(threading.current_thread())

        thread = threading.Thread(target=run, name="pool-start", daemon=True)
        self._threads.add(thread)
        thread.start()

    def _start_one(self) -> None:
        """One kernel's start, in a thread of its own: forked if that can be, else as its kernelspec says."""
        try:
            template = self._template()
            try:
                kernel = self._launch(template)
            except KernelStartFailed as error:
                if template is None or self._closing:
                    raise
                log.warning("a kernel could not be forked: %s", error)
                if self._starter is not None and not _was_killed(error):
                    self._starter.give_up()
                kernel = self._launch(None)
        except Exception as error:
            if not self._closing:  # a shutdown kills what is starting
                log.warning("a kernel did not start: %s", error)
            self._start_failed(error)
        else:
            self._started(kernel)
            if template is not None and self.preloads and not template.preloaded:
                self._libraries_loaded()  # they were while it started

    def _template(self, *, plain: bool = False) -> Template | None:
        """What new kernels are forked from, once that is known; `plain`: with nothing preloaded."""
        self._begun.wait(self._settings.start_timeout)
        if self._starter is None:
            return None
        self._starter.ready.wait(self._settings.start_timeout)
        return self._starter.template(plain=plain)

    def _launch(self, template: Template | None) -> KernelProcess:
        """A kernel that is ready to be used. KernelStartFailed."""
        for left in reversed(range(START_TRIES)):
            with self._lock:
                if self._closing:
                    raise KernelStartFailed("the server is shutting down")
                kernel = self._new(template)
            try:
                self._start(kernel)
                return kernel
            except KernelStartFailed as error:
                if not left or not _was_killed(error):
                    raise
                log.warning("a kernel was killed as it started: %s", error)
        raise AssertionError("unreachable: the last try returns or raises")

    def _new(self, template: Template | None) -> KernelProcess:
        """A kernel that is yet to be started; under the lock."""
        if self._host is None:
            raise KernelStartFailed("no kernel can be started")
        kernel = KernelProcess(uuid.uuid4().hex[:8], self._host, self._died, template=template)
        self._kernels[kernel.id] = kernel
        return kernel

    def _start(self, kernel: KernelProcess) -> None:
        """Makes it ready to be used. KernelStartFailed."""
        try:
            kernel.start()
            try:
                self._prepare(kernel)
            except Exception as error:
                raise KernelStartFailed(f"the kernel could not be prepared: {error}") from error
            if not kernel.alive:
                raise KernelStartFailed(f"the kernel ended as it started: {kernel.exit_reason}")
        except Exception:
            self._end(kernel)
            raise

    def _libraries_loaded(self) -> None:
        """New kernels have libraries preloaded from now on: those kept warm without them are ended."""
        with self._lock:
            ending = self._leases.unused()
            self._match()
        for kernel in ending:
            self._end(kernel)

    def _started(self, kernel: KernelProcess) -> None:
        with self._lock:
            kernel.ready = True
            self._leases.starting -= 1
            self._retry_at, self._retry_after = 0.0, RETRY_FIRST
            self._leases.idle.append(kernel)
            if not kernel.alive:
                self._leases.drop(kernel)  # its death was told before it was here to be dropped
            self._match()

    def _start_failed(self, error: Exception) -> None:
        with self._lock:
            self._leases.starting -= 1
            self._retry_at = time.monotonic() + self._retry_after
            self._retry_after = min(2 * self._retry_after, RETRY_LAST)
            for waiter in self._leases.hopeless():
                self._leases.waiting.remove(waiter)
                waiter.fail(_copy(error))
            self._match()

    def _refuse_all(self, error: Exception) -> None:
        """No kernel will ever start: everyone who waits or comes is told so."""
        while True:
            with self._lock:
                for waiter in self._leases.waiting:
                    waiter.fail(_copy(error))
                self._leases.waiting.clear()
                if self._closing:
                    return
                self._changed.wait(LOOK_SECONDS)

    def _died(self, kernel: KernelProcess) -> None:
        """A kernel has ended, as wished or not; called in the provisioners' thread."""
        with self._lock:
            self._kernels.pop(kernel.id, None)
            self._detached.discard(kernel.id)
            self._leases.drop(kernel)
            self._match()

    # -- ending -------------------------------------------------------------------------------------------

    def _end(self, kernel: KernelProcess) -> concurrent.futures.Future[None] | None:
        """Begins a kernel's end, in the background."""
        return self._host.submit(kernel.end(GRACE)) if self._host is not None else None

    def shutdown(self) -> None:
        """Ends every kernel and everything the pool started, within 3 s; those who wait get ShuttingDown.

        Idempotent; a second caller waits for the first.
        """
        with self._lock:
            first, self._closing = not self._closing, True
            for waiter in self._leases.waiting:
                waiter.fail(ShuttingDown("the server is shutting down"))
            self._leases.waiting.clear()
            kernels, threads = list(self._kernels.values()), list(self._threads)
            starter = self._starter.close() if self._starter is not None else []
            self._changed.notify_all()
        if not first:
            self._closed.wait(END_WITHIN + 1.0)
            return
        deadline = time.monotonic() + END_WITHIN
        ends = [end for kernel in kernels if (end := self._end(kernel)) is not None]
        concurrent.futures.wait(ends, timeout=END_WITHIN)
        # It is the last: of the others' ends it is told by it.
        ends = [end for kernel in starter if (end := self._end(kernel)) is not None]
        concurrent.futures.wait(ends, timeout=max(0.1, deadline - time.monotonic()))
        for thread in (self._keeper, *threads):
            if thread.ident is not None:
                thread.join(max(0.1, deadline - time.monotonic()))
        left = [kernel.id for kernel in [*kernels, *starter] if not kernel.close_channels()]
        if self._host is not None:
            self._host.close(sockets_closed=not left)
        self._closed.set()


def _was_killed(error: KernelStartFailed) -> bool:
    """Whether somebody else killed a kernel as it started, for its memory say: that tells nothing of the next one."""
    return isinstance(error.__cause__, KernelDied) and "SIGKILL" in str(error.__cause__)


def _copy(error: Exception) -> Exception:
    """An error of the same kind and words: one instance must not be raised in several threads."""
    return type(error)(*error.args)
