"""`Kernel`: states, and executions from them. The one object that every front door works with."""

from __future__ import annotations

import contextlib
import logging
import os
import random
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any

from bridge.engine import held, helper, replies, surgery
from bridge.engine.executor import Executor, Terms
from bridge.engine.expiry import Expiry
from bridge.engine.feed import Feed
from bridge.engine.hot import HotStates
from bridge.engine.queries import Queries
from bridge.engine.running import Registry, Running
from bridge.engine.sessions import Sessions, find_or_raise
from bridge.errors import Conflict, Interrupted, KernelError, ShuttingDown, StateNotFound
from bridge.outputs import Limits
from bridge.pool import KernelProcess, Pool, PoolSettings
from bridge.settings import Settings
from bridge.store.home import Home, default_path
from bridge.store.manifest import Manifest, State
from bridge.store.names import Page
from bridge.store.store import Store

log = logging.getLogger(__name__)

INITIAL = "initial"
CLOSE_SECONDS = 4.0

Reply = dict[str, Any]


class Kernel:
    """A kernel with states: any of them can be executed from again, at any time, several at once.

    Opening is cheap; kernels start in the background. `close` ends everything. Thread-safe.

    None stands for a state that is missing; of one that was evicted to keep the home under `max_home`, StateEvicted
    is raised, or is the error in the execution reply.
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
        self._closing = False
        self._ensure_initial()
        self.pool = Pool(
            PoolSettings(
                size=self.settings.pool_size,
                log_dir=self.home.logs_path,
                kernel_name=self.settings.kernel_name,
                secrets=self.settings.secrets,
                memory_limit=self.settings.memory_limit,
                fork=self.settings.fork,
                preload=self.settings.preload,
                env={"PYTHONHASHSEED": str(self.home.hash_seed)},
            ),
            self._prepare,
        )
        self.store.keep_under(self.settings.max_home, self._held_states)
        self.pool.start()
        limits = Limits(stream=self.settings.max_output_bytes)
        self._hot = HotStates(
            self.settings.hot_states if self.settings.fork else 0,
            self.settings.hot_memory,
            self.pool.release,
            lambda state_id: self.store.name_of(state_id) is not None,
        )
        self._executor = Executor(self.store, self.pool, self.workspace, limits, self._hot)
        self._expiry = Expiry(self.store, self.settings.retention)
        self._queries = Queries(self.store, self.workspace, self._executor.ask)
        self.sessions = Sessions(
            self.store,
            self.pool,
            self._executor,
            limits,
            idle_seconds=self.settings.idle_seconds,
            find_state=find_or_raise(lambda name: self.store.find(self.workspace, name)),
            under_way=self._under_way,
        )

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
        hot: bool = False,
        feed: Feed | None = None,
    ) -> Reply:
        """Run `code` from a state and store the state that it leaves; gives the execution reply.

        A cell that fails stores nothing, unless `keep_on_error`. `timeout` is in seconds; `stdin` are the lines that
        `input()` reads; `isolation` "fresh" runs it in a process that never ran anything else; `hot` has the state kept
        as a process, too. Conflict while an
        execution of this `exec_id` is under way, or when the new name is that of the initial state. `feed` gets
        its events.
        """
        new_state_name = self.new_name(new_state_name)

        terms = Terms(self._limit(timeout), stdin, isolation == "fresh", keep_on_error, hot)

        def work(running: Running) -> Reply:
            state = self.store.find(self.workspace, state_name)
            if state is None:
                return replies.failed("StateNotFound", state_name)
            with self.store.pin(state):
                return self._executor.from_state(state, running, new_state_name, terms)

        return self._under_way(exec_id, code, work, feed)

    def multistate_execute(
        self,
        code: str,
        exec_id: str,
        state_mapping: dict[str, str],
        default_state: str | None = None,
        *,
        timeout: float | None = None,
        stdin: Sequence[str] | None = None,
        feed: Feed | None = None,
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
                return self._executor.over_states(base, states, running, Terms(self._limit(timeout), stdin))

        return self._under_way(exec_id, code, work, feed)

    def interrupt(self, exec_id: str, force: bool = False) -> Reply:
        """Interrupt the execution of that id, waiting or running: `{"interrupted", "how"}`. Answers at once."""
        running = self._registry.find(exec_id)
        if running is None:
            return {"interrupted": False, "how": None}
        return running.interrupt(force)

    def events(self, exec_id: str) -> Feed | None:
        """What becomes of an execution, event by event; None when it does not run and ended too long ago."""
        return self._registry.feed(exec_id)

    # -- states

    def list_states(
        self,
        workspace: str | None = None,
        detail: bool = False,
        after: str | None = None,
        limit: int | None = None,
    ) -> list[Any]:
        """The names of the states, oldest first; `workspace` "*" means all, as `workspace:name`.

        A long list can be had in pages: `limit` names `after` the last one of the page before, which must be there
        still (StateNotFound).
        """
        space = workspace or self.workspace
        page = Page(after, -1 if limit is None else min(limit, 1 << 31))
        return self._queries.details(space, page) if detail else self.store.names(space, page)

    def get_state(self, state_name: str) -> Reply | None:
        """A state's variables, each with type and repr, its parent, its code and more; None when it is missing."""
        return self._with_state(
            state_name,
            lambda state: {**self._queries.describe(state_name, state), **self._hot.describe(state)},
        )

    def get_variable(self, state_name: str, variable: str) -> Reply | None:
        """The display bundle of one variable; None when the state or the variable is missing."""
        return self._with_state(state_name, lambda state: self._queries.bundle(state, variable))

    def label_state(self, state_name: str, label: str) -> bool:
        """Give a state one more name, which keeps it from being evicted, and the workspace from expiring.

        False when the state is missing. A label that exists moves here. Conflict for the initial state's name.
        """
        label = self.new_name(label)
        state = self.store.find(self.workspace, state_name)
        if state is None:
            return False
        with self.store.pin(state):
            self.store.label(self.workspace, label, state)
        return True

    def delete_state(self, state_name: str) -> bool:
        """Delete a state; whether it was there. Conflict for the initial one."""
        name = self._here(state_name)
        if name == INITIAL:
            raise Conflict("the state 'initial' cannot be deleted")
        deleted = self.store.delete(self.workspace, name)
        self._hot.sweep()
        return deleted

    def get_symbol_hashes(
        self, state_name: str, symbols: list[str], hash_algo: str | None = None
    ) -> Reply | None:
        """A hash of the content of each symbol, None for one that is absent; None when the state is missing."""
        if hash_algo not in (None, "full"):
            raise ValueError(f"unknown hash algorithm {hash_algo!r}; only 'full' is known")
        return self._with_state(state_name, lambda state: self._queries.hashes(state, symbols))

    def get_alias_groups(self, state_name: str) -> Reply | None:
        """`{"groups", "fingerprints"}` of all variables; None when the state is missing."""
        return self._with_state(state_name, lambda state: self._queries.alias_groups(state))

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
        new_state_name = self.new_name(new_state_name)
        entry = self.store.find(self.workspace, input_state)
        source = self.store.find(self.workspace, source_state)
        if entry is None or source is None:
            return None
        name = new_state_name
        with self._pinned([entry, source]):
            manifest = surgery.combine(source.manifest, source_vars, entry.manifest, input_vars)
            self._executor.keeper.remember_cells(entry)
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
            return {"state_name": name, **self._queries.alias_groups(state)}

    def diff(self, a: str, b: str) -> Reply | None:
        """The names added, removed and changed between two states; None when one is missing."""
        one, other = self.store.find(self.workspace, a), self.store.find(self.workspace, b)
        if one is None or other is None:
            return None
        with self._pinned([one, other]):
            return self._queries.diff(one, other)

    def reset(self) -> None:
        """Forget all states of the workspace but a new initial one; running executions are interrupted."""
        running = self._registry.all()
        for one in running:
            one.discard = True
            one.interrupt(False)
        self.store.clear(self.workspace, keep=(INITIAL,))
        self._hot.sweep()

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
        for running in self._registry.all():
            running.shutdown = True
        self.sessions.close()
        self._hot.clear()
        self.pool.shutdown()
        self._hot.close(CLOSE_SECONDS / 4)
        if not self._registry.wait_until_empty(CLOSE_SECONDS / 4):
            log.warning("executions were still under way when the engine closed")
        self._expiry.close()
        self.sessions.let_go()
        self.store.close()
        self.home.close()

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
        helper.prepare(kernel, options)

    def _held_states(self) -> list[int]:
        """The states that kernels hold at the moment."""
        held = (kernel.held.state for kernel in self.pool.kernels() if kernel.held is not None)
        return [state for state in held if state is not None]

    def _here(self, name: str) -> str:
        """A name of this workspace without the workspace before it."""
        return name.removeprefix(f"{self.workspace}:")

    def new_name(self, name: str | None) -> str:
        """The name under which a new state is stored; Conflict when that is the initial one's."""
        if name is None:
            return uuid.uuid4().hex
        if self._here(name) == INITIAL:
            raise Conflict("the state 'initial' cannot be replaced")
        return self._here(name)

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

    def _under_way(
        self, exec_id: str, code: str, work: Callable[[Running], Reply], feed: Feed | None
    ) -> Reply:
        """Register an execution for its whole length, and turn what goes wrong around the cell into a reply."""
        running = self._registry.begin(exec_id, code, feed)
        started = time.monotonic()
        reply = replies.failed("InternalServerError", "an error of the engine's own ended the execution")
        try:
            reply = work(running)
        except Interrupted:
            reply = replies.failed("KeyboardInterrupt", "")
        except ShuttingDown as error:
            reply = replies.failed("ServerShutdown", str(error))
        except StateNotFound as error:
            reply = replies.failed(error.code, str(error))
        except KernelError as error:
            ename = "ServerShutdown" if self._closing else error.code
            reply = replies.failed(ename, str(error))
        finally:
            reply["duration"] = round(time.monotonic() - started, 6)
            self._registry.end(running, reply)
        return reply

    def _limit(self, timeout: float | None) -> float | None:
        return timeout if timeout is not None else self.settings.timeout
