"""Running cells: a kernel is leased and made to hold a state, the cell runs, what it leaves is stored."""

from __future__ import annotations

import functools
import hashlib
import logging
import math
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from bridge.engine import cells, held, records, replies, surgery, variables
from bridge.engine.hot import HotStates
from bridge.engine.keeper import Keeper
from bridge.engine.running import Running
from bridge.errors import BridgeError, KernelDied, KernelStartFailed, RestoreFailed
from bridge.outputs import Limits
from bridge.pool import KernelProcess, Pool, Ticket
from bridge.store.manifest import State
from bridge.store.store import Store

log = logging.getLogger(__name__)

TRIES = 3
"""Kernels that are tried in turn when one dies, or fails, before a cell has begun in it."""

KEEP_SECONDS = 600.0
"""The bound of saving a whole namespace as a state."""

_INTERRUPTED = ("CancelledError", "CalledProcessError")
"""How a cell that awaits, or one that runs a shell, meets an interrupt."""

_NO_ERROR: dict[str, Any] = {"ename": "", "evalue": "", "traceback": []}

Reply = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Terms:
    """How a cell is to be run. `timeout` in seconds (None: no limit); `stdin` are the lines that `input()` reads.

    `hot`: the state that it leaves is to be kept as a process.
    """

    timeout: float | None = None
    stdin: Sequence[str] | None = None
    fresh: bool = False
    keep_on_error: bool = False
    hot: bool = False


class Executor:
    """Runs cells of one workspace on the kernels of a pool."""

    def __init__(self, store: Store, pool: Pool, workspace: str, limits: Limits, hot: HotStates) -> None:
        self._pool = pool
        self._hot = hot
        self.keeper = Keeper(store, workspace)
        self._limits = limits

    def from_state(self, state: State, running: Running, name: str, terms: Terms) -> Reply:
        """Run a cell from a state and store what it leaves under `name`; the execution reply."""
        nonce = hashlib.sha256(f"{state.id}\0{state.created}\0{running.code}".encode("utf-8", "replace"))
        orders = {"nonce": nonce.hexdigest()[:10], "state": name, "keep_on_error": terms.keep_on_error}

        def keep(kernel: KernelProcess, outcome: cells.Outcome, reply: Reply) -> State | None:
            failed = reply["error"] is not None and not terms.keep_on_error
            if "units" in outcome.report and not running.discard and not failed:
                return self._keep(state, name, outcome.report, running, kernel, reply)
            self._leave_dirty(kernel, outcome.report)
            return None

        return self._run(state, running, orders, terms, lambda kernel: None, keep)

    def over_states(self, base: State, states: dict[str, State], running: Running, terms: Terms) -> Reply:
        """Run a cell that sees each of `states` under its alias, over the variables of `base`; nothing is stored."""

        def forget(kernel: KernelProcess, outcome: cells.Outcome, reply: Reply) -> State | None:
            self._leave_dirty(kernel, outcome.report)
            surgery.give_aliases(kernel, {})
            return None

        give = functools.partial(surgery.give_aliases, states=states)
        return self._run(base, running, {"discard": True}, terms, give, forget)

    def ask(self, state: State, use: Callable[[KernelProcess], Reply]) -> Reply:
        """Ask something of an idle kernel's helper that leaves what the kernel holds as it is."""
        for attempt in range(TRIES):
            kernel = self._pool.lease(rank=lambda kernel: abs(held.cost(kernel.held, state)))
            try:
                return use(kernel)
            except KernelDied:
                if attempt == TRIES - 1:
                    raise
            finally:
                self._pool.release(kernel)
        raise AssertionError("unreachable: the last attempt returns or raises")

    def keep_namespace(self, kernel: KernelProcess, base: State, history: Sequence[str], name: str) -> State:
        """Store all that a kernel holds as a state, after `base` and the cells that it ran since then.

        KernelDied, KernelTimeout, RestoreFailed when the kernel gives no account of itself.
        """
        running = Running(name, "")
        running.attach(kernel)
        orders = {"nonce": uuid.uuid4().hex[:10], "state": name, "everything": True}
        outcome = cells.run(kernel, orders, running, self._limits, None, KEEP_SECONDS)
        if outcome.died is not None:
            raise KernelDied(outcome.died)
        if "units" not in outcome.report:
            raise RestoreFailed(
                str(outcome.report.get("fault") or "the kernel gave no account of the namespace")
            )
        return self.keeper.keep_line(base, name, history, outcome.report)

    # -- inside

    def _run(
        self,
        state: State,
        running: Running,
        orders: Reply,
        terms: Terms,
        before: Callable[[KernelProcess], None],
        after: Callable[[KernelProcess, cells.Outcome, Reply], State | None],
    ) -> Reply:
        """One cell on one kernel that holds the state.

        A kernel that is dead before the cell is sent costs another try. One that dies later may have begun the cell,
        and no cell is run twice.
        """
        plain = _is_plain(state, running.code)
        for attempt in range(TRIES):
            kernel = self.lease_holding(state, running.ticket, terms.fresh, plain)
            kept: State | None = None
            try:
                if kernel.looks_dead() and attempt < TRIES - 1:
                    kernel.retire = True
                    continue
                if kernel.held.holds(state) and self._hot.is_due(kernel, state):
                    self._hot.copy(kernel, state)
                before(kernel)
                kernel.retire = kernel.retire or terms.fresh
                if not running.attach(kernel):
                    return replies.failed("KeyboardInterrupt", "")
                outcome = cells.run(kernel, orders, running, self._limits, terms.stdin, terms.timeout)
                reply = reply_of(outcome, kernel, running)
                if outcome.died is None and ("fault" in outcome.report or not outcome.report):
                    kernel.retire = True
                    # Nothing is known of what the cell read, so it may have read anything.
                    reply["accessed_symbols"] = sorted(filter(records.is_user_name, state.manifest.order))
                elif outcome.died is None:
                    kept = after(kernel, outcome, reply)
                    if kept is not None and terms.hot:
                        self._hot.copy(kernel, kept, first=True)
                        reply["state"].update(self._hot.describe(kept))
                return reply
            finally:
                running.detach()
                if kept is not None and not terms.hot and self._hot.is_wanted(kernel, kept):
                    self._hot.copy_and_release(kernel, kept)
                else:
                    self._pool.release(kernel)
        raise AssertionError("unreachable: the last attempt returns or raises")

    def lease_holding(self, state: State, ticket: Ticket, fresh: bool, plain: bool = False) -> KernelProcess:
        """A leased kernel that holds the state; `ticket` ends the wait for one. Whoever has it releases it.

        `fresh`: its process ran nothing but what led to the state; `plain`: with no library preloaded.
        """
        last: BridgeError | None = None
        for _ in range(TRIES):
            hot = self._hot.find(state) if fresh or plain else self._hot.nearest(state)
            if hot is not None and fresh and not hot.held.pure:
                hot = None
            only = None if fresh or hot else self._hot.holder(state) or held.home_of_live(state.manifest)
            try:
                kernel = self._pool.lease(
                    rank=lambda kernel: (
                        math.inf if plain and kernel.preloaded else held.cost(kernel.held, state)
                    ),
                    fresh=fresh,
                    only=only,
                    ticket=ticket,
                    template=hot.template if hot else None,
                    template_rank=-math.inf if fresh else hot.rank if hot else math.inf,
                    plain=plain and hot is None,
                )
            except KernelStartFailed as error:
                if hot is None:
                    raise
                log.warning("state %d could not be forked: %s", state.id, error)
                self._hot.drop(hot.state_id)
                last = error
                continue
            if hot is not None and kernel.template is hot.template and not kernel.held.ran:
                kernel.held = hot.holding(kernel.id)
                self._hot.forked(hot)
            mine: held.Held = kernel.held
            if mine.bound and not mine.holds(state):
                # What it carries no switch takes back: it is ended, and another one takes its place.
                kernel.retire = True
                self._pool.release(kernel)
                continue
            try:
                if not mine.holds(state):
                    self.keeper.give(kernel, state)
                return kernel
            except (KernelDied, RestoreFailed) as error:
                log.warning("kernel %s could not be given state %d: %s", kernel.id, state.id, error)
                last = error
                kernel.retire = True
                self._pool.release(kernel)
            except BaseException:
                kernel.retire = True
                self._pool.release(kernel)
                raise
        raise last or RestoreFailed("no kernel could be given the state")

    def _leave_dirty(self, kernel: KernelProcess, report: Reply) -> None:
        """A cell left no state: a kernel of which nothing is known serves nobody else."""
        if not self.keeper.leave_dirty(kernel, report):
            kernel.retire = True

    def _keep(
        self, before: State, name: str, report: Reply, running: Running, kernel: KernelProcess, reply: Reply
    ) -> State:
        """Store the state that a cell left and complete its reply."""
        info = {"plain": True} if _is_plain(before, running.code) else None
        try:
            state = self.keeper.keep(kernel, before, name, running.code, report, info)
        except BridgeError:
            kernel.retire = True
            raise
        reply["state_name"] = name
        reply["changed_symbols"] = records.changed_names(before.manifest, state.manifest)
        reply["state"] = replies.snapshot_report(before.manifest, state.manifest, report)
        return state


def _is_plain(state: State, code: str) -> bool:
    """Whether a cell, or one before it, sets what a library reads as it is imported."""
    return bool(state.info.get("plain")) or variables.names_one(code)


def reply_of(outcome: cells.Outcome, kernel: KernelProcess, running: Running) -> Reply:
    """The reply of a cell that ran, before its state is stored."""
    reply = replies.finished(outcome.content, outcome.report, outcome.outputs.outputs(), outcome.duration)
    reply["kernel_id"] = kernel.id
    error = reply["error"]
    if outcome.died is not None:
        error = _error_of_death(outcome.died, running)
        if running.forced:
            reply["killed"] = True
    elif running.timed_out:
        error = {**(error or _NO_ERROR), "ename": "TimeoutError", "evalue": "the cell ran out of time"}
    elif running.interrupted and (
        outcome.report.get("stopped") or (error and error["ename"] in _INTERRUPTED)
    ):
        error = {**(error or _NO_ERROR), "ename": "KeyboardInterrupt"}
    elif error is None:
        error = _error_of_snapshot(outcome, kernel)
    if error is not None:
        reply["error"] = error
        reply["output"] = replies.end_with(reply["output"], outcome.content, error)
    return reply


def _error_of_snapshot(outcome: cells.Outcome, kernel: KernelProcess) -> dict[str, Any] | None:
    """The error of a cell that ran, and whose state could not be taken; its kernel is not to be used again."""
    if outcome.report and "fault" not in outcome.report:
        return None
    kernel.retire = True
    fault = str(outcome.report.get("fault") or "the kernel gave no account of the cell")
    log.error("no snapshot after a cell in kernel %s:\n%s", kernel.id, fault)
    return {"ename": "SnapshotFailed", "evalue": fault.strip().splitlines()[-1], "traceback": []}


def _error_of_death(reason: str, running: Running) -> dict[str, Any]:
    """The error of a cell whose kernel ended under it."""
    if running.shutdown:
        return {"ename": "ServerShutdown", "evalue": "the server is shutting down", "traceback": []}
    if running.forced:
        return {"ename": "KeyboardInterrupt", "evalue": "", "traceback": []}
    if running.timed_out:
        return {"ename": "TimeoutError", "evalue": "the cell ran out of time", "traceback": []}
    return {"ename": "KernelDied", "evalue": f"the kernel ended: {reason}", "traceback": []}
