"""`Kernel`: states, and executions from them. The one object that every front door works with."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import logging
import os
import random
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any

from bridge.engine import cells, held, helper, queries, records, replies, surgery
from bridge.engine.running import Registry, Running
from bridge.errors import (
    BridgeError,
    Conflict,
    Interrupted,
    KernelDied,
    KernelError,
    RestoreFailed,
    ShuttingDown,
    StateNotFound,
)
from bridge.outputs import Limits
from bridge.pool import KernelProcess, Pool, PoolSettings
from bridge.settings import Settings
from bridge.store.home import Home, default_path
from bridge.store.manifest import Manifest, State
from bridge.store.store import Store

log = logging.getLogger(__name__)

INITIAL = "initial"
TRIES = 3
"""Kernels that are tried in turn when one dies, or fails, while a state is loaded into it."""
CLOSE_SECONDS = 4.0

Reply = dict[str, Any]


class Kernel:
    """A kernel with states: any of them can be executed from again, at any time, several at once.

    Opening is cheap; kernels start in the background. `close` ends everything. Thread-safe.
    """

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or Settings()
        if self.settings.ephemeral:
            self.home = Home.open(self.settings.home, ephemeral=True)
        else:
            self.home = Home.open(self.settings.home or default_path(os.environ))
        self.store = Store(self.home)
        self.workspace = self.store.open_workspace(self.settings.workspace)
        self._registry = Registry()
        self._limits = Limits(stream=self.settings.max_output_bytes)
        self._closing = False
        self._ensure_initial()
        self.pool = Pool(
            PoolSettings(
                size=self.settings.pool_size,
                log_dir=self.home.logs_path,
                kernel_name=self.settings.kernel_name,
                env={"PYTHONHASHSEED": str(self.home.hash_seed)},
            ),
            self._prepare,
        )
        self.pool.start()

    # -- executing

    def execute(
        self,
        code: str,
        exec_id: str,
        state_name: str,
        new_state_name: str | None = None,
        *,
        timeout: float | None = None,
        stdin: Sequence[str] | None = None,
        isolation: str = "shared",
        keep_on_error: bool = False,
    ) -> Reply:
        """Run `code` from a state and store the state that it leaves; gives the execution reply.

        A cell that fails stores nothing, unless `keep_on_error`. `timeout` is in seconds; `stdin` are the lines that
        `input()` reads; `isolation` "fresh" runs it in a process that never ran anything else. Conflict while an
        execution of this `exec_id` is under way, or when the new name is that of the initial state.
        """
        if new_state_name == INITIAL:
            raise Conflict("the state 'initial' cannot be replaced")

        def work(running: Running) -> Reply:
            state = self.store.find(self.workspace, state_name)
            if state is None:
                return replies.failed("StateNotFound", state_name)
            with self.store.pin(state):
                return self._execute_from(
                    state,
                    running,
                    new_state_name or uuid.uuid4().hex,
                    timeout,
                    stdin,
                    isolation,
                    keep_on_error,
                )

        return self._under_way(exec_id, code, work)

    def multistate_execute(
        self,
        code: str,
        exec_id: str,
        state_mapping: dict[str, str],
        default_state: str | None = None,
        *,
        timeout: float | None = None,
        stdin: Sequence[str] | None = None,
    ) -> Reply:
        """Run `code` over several states: `alias.x` is the x of that alias's state. Nothing is stored."""

        def work(running: Running) -> Reply:
            names = [*state_mapping.values(), default_state or INITIAL]
            found = {name: self.store.find(self.workspace, name) for name in names}
            missing = next((name for name, state in found.items() if state is None), None)
            if missing is not None:
                return replies.failed("StateNotFound", missing)
            states = {
                alias: state for alias, name in state_mapping.items() if (state := found[name]) is not None
            }
            base = found[default_state or INITIAL]
            assert base is not None  # nothing is missing, see above
            with self._pinned([base, *states.values()]):
                return self._execute_over(base, states, running, timeout, stdin)

        return self._under_way(exec_id, code, work)

    def interrupt(self, exec_id: str, force: bool = False) -> Reply:
        """Interrupt the execution of that id, waiting or running: `{"interrupted", "how"}`. Answers at once."""
        running = self._registry.find(exec_id)
        if running is None:
            return {"interrupted": False, "how": None}
        return running.interrupt(force)

    # -- states

    def list_states(self, workspace: str | None = None, detail: bool = False) -> list[Any]:
        """The names of the states, oldest first; `workspace` "*" means all, as `workspace:name`."""
        space = workspace or self.workspace
        return queries.details(self.store, space) if detail else self.store.names(space)

    def get_state(self, state_name: str) -> Reply | None:
        """A state's variables, each with type and repr, its parent, its code and more; None when it is missing."""
        return self._with_state(state_name, lambda state: queries.describe(self, state_name, state))

    def get_variable(self, state_name: str, variable: str) -> Reply | None:
        """The display bundle of one variable; None when the state or the variable is missing."""
        return self._with_state(state_name, lambda state: queries.bundle(self, state, variable))

    def delete_state(self, state_name: str) -> bool:
        """Delete a state; whether it was there. Conflict for the initial one."""
        if state_name == INITIAL:
            raise Conflict("the state 'initial' cannot be deleted")
        return self.store.delete(self.workspace, state_name)

    def get_symbol_hashes(
        self, state_name: str, symbols: list[str], hash_algo: str | None = None
    ) -> Reply | None:
        """A hash of the content of each symbol, None for one that is absent; None when the state is missing."""
        if hash_algo not in (None, "full"):
            raise ValueError(f"unknown hash algorithm {hash_algo!r}; only 'full' is known")
        return self._with_state(state_name, lambda state: queries.hashes(self, state, symbols))

    def get_alias_groups(self, state_name: str) -> Reply | None:
        """`{"groups", "fingerprints"}` of all variables; None when the state is missing."""
        return self._with_state(state_name, lambda state: queries.alias_groups(self, state))

    def rebuild_state(
        self,
        input_state: str,
        source_state: str,
        source_vars: list[str],
        input_vars: list[str],
        new_state_name: str | None = None,
    ) -> Reply | None:
        """A new state of `source_vars` from one state and `input_vars` from another, without running code.

        `{"state_name", "groups", "fingerprints"}`, or None when a state is missing.
        """
        if new_state_name == INITIAL:
            raise Conflict("the state 'initial' cannot be replaced")
        entry = self.store.find(self.workspace, input_state)
        source = self.store.find(self.workspace, source_state)
        if entry is None or source is None:
            return None
        name = new_state_name or uuid.uuid4().hex
        with self._pinned([entry, source]):
            manifest = surgery.combine(source.manifest, source_vars, entry.manifest, input_vars)
            self._remember_cells(entry)
            state = self.store.put(
                self.workspace,
                name,
                parent=source.id,
                code="",
                inputs=source.inputs,
                info=dict(source.info),
                manifest=manifest,
            )
        with self.store.pin(state):
            return {"state_name": name, **queries.alias_groups(self, state)}

    def diff(self, a: str, b: str) -> Reply | None:
        """The names added, removed and changed between two states; None when one is missing."""
        one, other = self.store.find(self.workspace, a), self.store.find(self.workspace, b)
        if one is None or other is None:
            return None
        with self._pinned([one, other]):
            return queries.diff(self, one, other)

    def reset(self) -> None:
        """Forget all states of the workspace but a new initial one; running executions are interrupted."""
        running = self._registry.all()
        for one in running:
            one.discard = True
            one.interrupt(False)
        self.store.clear(self.workspace, keep=(INITIAL,))

    def status(self) -> Reply:
        """Workspace, home, kernels and executions under way."""
        return {
            "workspace": self.workspace,
            "home": str(self.home.path),
            "kernels": self.pool.status(),
            "executions": [running.status() for running in self._registry.all()],
        }

    def close(self) -> None:
        """End every kernel and let go of the home, within five seconds. Idempotent."""
        if self._closing:
            return
        self._closing = True
        self.pool.shutdown()
        if not self._registry.wait_until_empty(CLOSE_SECONDS / 4):
            log.warning("executions were still under way when the engine closed")
        self.store.close()
        self.home.close()

    # -- what queries and surgery need

    def with_kernel(self, state: State, use: Callable[[KernelProcess], Reply]) -> Reply:
        """Ask something of an idle kernel's helper that leaves what the kernel holds as it is."""
        for attempt in range(TRIES):
            kernel = self.pool.lease(rank=lambda kernel: abs(held.cost(kernel.held, state)))
            try:
                return use(kernel)
            except KernelDied:
                if attempt == TRIES - 1:
                    raise
            finally:
                self.pool.release(kernel)
        raise AssertionError("unreachable: the last attempt returns or raises")

    # -- inside

    def _ensure_initial(self) -> None:
        if self.store.find(self.workspace, INITIAL) is None:
            info = {"execution_count": 1, "seed": random.SystemRandom().getrandbits(64)}
            empty = Manifest({}, ())
            self.store.put(
                self.workspace, INITIAL, parent=None, code="", inputs=None, info=info, manifest=empty
            )

    def _prepare(self, kernel: KernelProcess) -> None:
        """Make a kernel that has just started ours."""
        kernel.held = held.Held(kernel.id)
        options = {
            "door": "rest",
            "kernel_id": kernel.id,
            "blobs": str(self.home.blobs_path),
            "display_max_rows": self.settings.display_max_rows,
            "display_max_columns": self.settings.display_max_columns,
            "display_max_colwidth": self.settings.display_max_colwidth,
        }
        helper.inject(kernel, options)

    def _with_state(self, name: str, use: Callable[[State], Reply | None]) -> Reply | None:
        state = self.store.find(self.workspace, name)
        if state is None:
            return None
        try:
            with self.store.pin(state):
                return use(state)
        except StateNotFound:
            return None

    def _pinned(self, states: list[State]) -> contextlib.ExitStack:
        """All these states pinned at once."""
        stack = contextlib.ExitStack()
        for state in states:
            stack.enter_context(self.store.pin(state))
        return stack

    def _under_way(self, exec_id: str, code: str, work: Callable[[Running], Reply]) -> Reply:
        """Register an execution for its whole length, and turn what goes wrong around the cell into a reply."""
        running = self._registry.begin(exec_id, code)
        started = time.monotonic()
        try:
            reply = work(running)
        except Interrupted:
            reply = replies.failed("KeyboardInterrupt", "")
        except ShuttingDown as error:
            reply = replies.failed("ServerShutdown", str(error))
        except StateNotFound as error:
            reply = replies.failed("StateNotFound", str(error))
        except KernelError as error:
            ename = "ServerShutdown" if self._closing else error.code
            reply = replies.failed(ename, str(error))
        finally:
            self._registry.end(running)
        reply["duration"] = round(time.monotonic() - started, 6)
        return reply

    def _lease_holding(self, state: State, running: Running, fresh: bool) -> KernelProcess:
        """A leased kernel that holds the state."""
        last: BridgeError | None = None
        for _ in range(TRIES):
            only = None if fresh else held.home_of_live(state.manifest)
            kernel = self.pool.lease(
                rank=lambda kernel: held.cost(kernel.held, state),
                fresh=fresh,
                only=only,
                ticket=running.ticket,
            )
            mine: held.Held = kernel.held
            if mine.bound and not mine.holds(state):
                # What it carries no switch takes back: it is ended, and another one takes its place.
                kernel.retire = True
                self.pool.release(kernel)
                continue
            try:
                if not mine.holds(state):
                    inputs = self.store.inputs(state.inputs)
                    cells.switch(kernel, state, inputs, functools.partial(self._cell_of, inputs))
                return kernel
            except (KernelDied, RestoreFailed) as error:
                log.warning("kernel %s could not be given state %d: %s", kernel.id, state.id, error)
                last = error
                kernel.retire = True
                self.pool.release(kernel)
            except BaseException:
                kernel.retire = True
                self.pool.release(kernel)
                raise
        raise last or RestoreFailed("no kernel could be given the state")

    def _cell_of(self, inputs: list[str], file_name: str) -> list[Any] | None:
        """The text and number of the cell that a code object's file name stands for."""
        for number in range(len(inputs), 0, -1):
            if cell_file(inputs[number - 1]) == file_name:
                return [inputs[number - 1], number]
        known = self.store.cache_get("cell", file_name)
        return list(known) if known is not None else None

    def _remember_cells(self, state: State) -> None:
        """Keep the cells that a state's functions come from: a state made of it may not be in their line."""
        files = {name for unit in state.manifest.units.values() for name in unit.record.get("files", ())}
        for number, text in enumerate(self.store.inputs(state.inputs) if files else (), 1):
            if cell_file(text) in files:
                self.store.cache_put("cell", cell_file(text), [text, number])

    def _execute_from(
        self,
        state: State,
        running: Running,
        name: str,
        timeout: float | None,
        stdin: Sequence[str] | None,
        isolation: str,
        keep_on_error: bool,
    ) -> Reply:
        fresh = isolation == "fresh"
        kernel = self._lease_holding(state, running, fresh)
        try:
            kernel.retire = kernel.retire or fresh
            nonce = hashlib.sha256(f"{state.id}\0{state.created}\0{running.code}".encode("utf-8", "replace"))
            orders = {"nonce": nonce.hexdigest()[:10], "state": name, "keep_on_error": keep_on_error}
            outcome = self._run(kernel, running, orders, timeout, stdin)
            if isinstance(outcome, dict):
                return outcome
            reply = self._reply_of(outcome, kernel, running)
            if outcome.died is None and "units" in outcome.report and not running.discard:
                self._store(state, name, outcome.report, running, kernel, reply)
            elif outcome.died is None:
                self._leave_dirty(kernel, outcome.report)
            return reply
        finally:
            self.pool.release(kernel)

    def _execute_over(
        self,
        base: State,
        states: dict[str, State],
        running: Running,
        timeout: float | None,
        stdin: Sequence[str] | None,
    ) -> Reply:
        kernel = self._lease_holding(base, running, fresh=False)
        try:
            surgery.give_aliases(kernel, states)
            outcome = self._run(kernel, running, {"discard": True}, timeout, stdin)
            if isinstance(outcome, dict):
                return outcome
            reply = self._reply_of(outcome, kernel, running)
            if outcome.died is None:
                self._leave_dirty(kernel, outcome.report)
                surgery.give_aliases(kernel, {})
            return reply
        finally:
            self.pool.release(kernel)

    def _run(
        self,
        kernel: KernelProcess,
        running: Running,
        orders: Reply,
        timeout: float | None,
        stdin: Sequence[str] | None,
    ) -> cells.Outcome | Reply:
        """The cell's outcome, or the reply of one that was interrupted before it began."""
        if not running.attach(kernel):
            return replies.failed("KeyboardInterrupt", "")
        try:
            limit = timeout if timeout is not None else self.settings.timeout
            return cells.run(
                kernel, running.code, orders, running, limits=self._limits, stdin=stdin, timeout=limit
            )
        finally:
            running.detach()

    def _reply_of(self, outcome: cells.Outcome, kernel: KernelProcess, running: Running) -> Reply:
        """The reply of a cell that ran, before its state is stored."""
        reply = replies.finished(outcome.content, outcome.report, outcome.outputs.outputs(), outcome.duration)
        reply["kernel_id"] = kernel.id
        if outcome.died is not None:
            reply["error"] = self._error_of_death(outcome.died, running)
            if running.forced:
                reply["killed"] = True
        elif reply["error"] is not None and running.timed_out:
            reply["error"] = {**reply["error"], "ename": "TimeoutError", "evalue": "the cell ran out of time"}
        elif (
            reply["error"] is not None and running.interrupted and reply["error"]["ename"] == "CancelledError"
        ):
            # A cell that awaits meets an interrupt as the cancellation of what it awaits.
            reply["error"] = {**reply["error"], "ename": "KeyboardInterrupt"}
        if reply["error"] is not None:
            reply["output"] = replies.end_with(reply["output"], outcome.content, reply["error"])
        if "fault" in outcome.report:
            log.error("the helper failed after a cell:\n%s", outcome.report["fault"])
            kernel.retire = True
        return reply

    def _error_of_death(self, reason: str, running: Running) -> dict[str, Any]:
        if self._closing:
            return {"ename": "ServerShutdown", "evalue": "the server is shutting down", "traceback": []}
        if running.forced:
            return {"ename": "KeyboardInterrupt", "evalue": "", "traceback": []}
        if running.timed_out:
            return {"ename": "TimeoutError", "evalue": "the cell ran out of time", "traceback": []}
        return {"ename": "KernelDied", "evalue": f"the kernel ended: {reason}", "traceback": []}

    def _leave_dirty(self, kernel: KernelProcess, report: Reply) -> None:
        """Remember what a cell that left no state may have changed."""
        mine: held.Held = kernel.held
        mine.bound = list(report.get("bound", []))
        dirty = report.get("dirty")
        mine.spoil(list(mine.units) if dirty is None else dirty)
        if dirty is None:
            kernel.retire = True

    def _store(
        self, before: State, name: str, report: Reply, running: Running, kernel: KernelProcess, reply: Reply
    ) -> None:
        """Store the state that a cell left and complete its reply."""
        manifest = records.successor(before.manifest, report)
        # An empty cell is none to IPython: it is not counted, and not among the inputs.
        cell = running.code if running.code and not running.code.isspace() else None
        info = {"execution_count": report["count"], "seed": before.info.get("seed", 0)}
        kernel.held.bound = list(report.get("bound", []))
        try:
            state = self.store.put(
                self.workspace,
                name,
                parent=before.id,
                code=running.code,
                inputs=before.inputs,
                info=info,
                manifest=manifest,
                cell=cell,
            )
        except BridgeError:
            kernel.retire = True
            raise
        kernel.held.adopt(state, kernel.held.inputs if cell is None else [*kernel.held.inputs, cell])
        reply["state_name"] = name
        reply["changed_symbols"] = records.changed_names(before.manifest, manifest)
        reply["state"] = replies.snapshot_report(before.manifest, manifest, report)


def cell_file(code: str) -> str:
    """The file name of a cell's code objects: the same for the same text, as the helper names it."""
    digest = hashlib.sha1(code.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()
    return f"/tmp/ipykernel_0/{int(digest[:12], 16)}.py"
