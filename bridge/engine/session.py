"""One session: its kernel while it is live, its turns, and the way of its namespace to the state file and back."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator
from typing import Any

from bridge.engine import cells, helper, replies
from bridge.engine.executor import Executor, reply_of
from bridge.engine.running import Running
from bridge.engine.turns import Turns
from bridge.errors import Conflict, KernelError, StateNotFound, StoreError
from bridge.outputs import Limits
from bridge.pool import KernelProcess, Pool, Ticket
from bridge.store.locks import FileLock
from bridge.store.manifest import State
from bridge.store.sessions import SessionStore
from bridge.store.store import Store

log = logging.getLogger(__name__)

SAVE_SECONDS = 600.0
"""The bound of the wait for a save under way."""
NO_STATE = "no saved state"

Reply = dict[str, Any]


def state_reply(**fields: Any) -> Reply:
    """The reply's `state`: what was saved to the state file or restored from it."""
    blank: Reply = {"saved": [], "restored": [], "skipped": [], "failed": []}
    blank.update(engine=None, error=None, defs=[], largest=[])
    blank.update((name, value) for name, value in fields.items() if name in blank)
    return blank


def outliving(processes: list[Reply]) -> Reply:
    """What a reply says of the processes that outlive a kernel: nothing when there are none."""
    return {"processes": processes} if processes else {}


class Session:
    """A session of one engine. Whoever uses its kernel or file has the turn; it is live while it has a kernel.

    The file lock is held as long as it is live, and for every look at the file.
    """

    def __init__(
        self,
        session_id: str,
        files: SessionStore,
        store: Store,
        pool: Pool,
        executor: Executor,
        limits: Limits,
    ) -> None:
        self.id = session_id
        self.turns = Turns()
        self.cells = 0  # cells that run or wait
        self.ended_at = time.monotonic()  # when the last execution ended
        self.unsaved = False  # a cell may have changed what the file holds
        self._files = files
        self._store = store
        self._pool = pool
        self._executor = executor
        self._limits = limits
        self._kernel: KernelProcess | None = None
        self._lock: FileLock | None = None
        self._holds = 0  # blocks that need the lock
        self._base: State | None = None  # the state that its kernel was last known to hold
        self._pins = contextlib.ExitStack()
        self._history: list[str] = []  # the cells since then
        self._lost = ""  # how the kernel ended that was not ended by us
        self._unread = False  # the file could not be read: it must not be replaced
        self._save_error = ""

    @property
    def live(self) -> bool:
        """Whether it has a kernel."""
        return self._kernel is not None

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """The turn for whatever is no cell. Conflict while a cell runs or waits."""
        if self.cells:
            raise Conflict(f"a cell of session {self.id!r} is running")
        self.turns.take(timeout=SAVE_SECONDS)
        try:
            yield
        finally:
            self.turns.give_back()

    # All that follows is for whoever has the turn.

    def open(self, base: State, ticket: Ticket, cwd: str | None) -> tuple[Reply | None, str | None]:
        """Give it a kernel that holds its namespace, unless it has one: the restore's `state`, and a notice.

        `base` is the state that a kernel begins with. Conflict when another server has the session.
        """
        if self._kernel is not None and self._kernel.looks_dead():
            self.lose(self._kernel.exit_reason or "it was killed")
        if self._kernel is not None:
            failed, self._save_error = self._save_error, ""
            return (state_reply(error=failed) if failed else None), None
        with self._locked():
            data, error = self._read()
            self._start(base, ticket)
            reply = self._restore(data, cwd, error)
        notice = self._notice(reply)
        self._lost = ""
        return reply, notice

    def _read(self) -> tuple[bytes | None, str | None]:
        """The state file, and why there is none when it cannot be read."""
        try:
            return self._files.read_state(self.id), None
        except StoreError as failure:
            return None, str(failure)

    def _restore(self, data: bytes | None, cwd: str | None, error: str | None) -> Reply:
        """Bring the namespace of a state file into the new kernel."""
        assert self._kernel is not None
        request = {"op": "session_restore", "cwd": cwd}
        try:
            answer = helper.ask(self._kernel, request, [] if data is None else [data])
        except KernelError as failure:
            self.lose(str(failure))
            raise
        self._executor.keeper.remember_sources(answer["sources"])
        if answer["sources"]:
            self._history.append("\n\n".join(answer["sources"]))  # stands for the cells of the older kernel
        self._unread = error is not None or answer["error"] is not None
        if data is None and error is None and self._files.find(self.id).replied is not None:
            error = NO_STATE
        return state_reply(**{**answer, "error": error or answer["error"]})

    def _notice(self, reply: Reply) -> str | None:
        what = "its namespace is empty" if reply["error"] else "its namespace is that of the last saved state"
        if self._lost:
            return f"the kernel was reset: it ended ({self._lost}), and {what}"
        return f"the kernel was reset: {reply['error']}, and {what}" if reply["error"] else None

    def hold(self, base: State, ticket: Ticket, inputs: list[str]) -> Reply:
        """Give a new session a kernel with the namespace of a state, whose cells are `inputs`, and save it."""
        with self._locked():
            self._start(base, ticket)
            assert self._kernel is not None
            try:
                helper.ask(self._kernel, {"op": "session_adopt", "cells": inputs})
            except KernelError as failure:
                self.lose(str(failure))
                raise
        return self.save()

    def run(self, running: Running, stdin: Any, timeout: float | None) -> Reply:
        """Run a cell in the open session: the execution reply."""
        kernel = self._kernel
        assert kernel is not None
        if not running.attach(kernel):
            return replies.failed("KeyboardInterrupt", "")
        try:
            orders = {"discard": True, "session": True}
            outcome = cells.run(kernel, orders, running, self._limits, stdin, timeout)
        finally:
            running.detach()
        reply = reply_of(outcome, kernel, running)
        if outcome.died is not None:
            self.lose(outcome.died)
        elif not outcome.report or "fault" in outcome.report:
            self.lose("it gave no account of a cell")
        else:
            self._history.append(running.code)
            self.unsaved = True
        return reply

    def save(self) -> Reply:
        """Write the state file: the state reply. A failure leaves the old file, and is told in `error`.

        Nothing is to be saved of a released session. Conflict when another server has it.
        """
        if self._kernel is None:
            with self._locked():
                return state_reply()
        try:
            answer, buffers = helper.exchange(self._kernel, {"op": "session_save"})
        except KernelError as failure:
            self.lose(str(failure))
            return state_reply(error=f"the kernel was lost: {failure}")
        try:
            self._files.write_state(self.id, buffers[0], set_aside=self._unread)
        except StoreError as failure:
            log.error("session %s was not saved: %s", self.id, failure)
            self._save_error = str(failure)
            return state_reply(engine=answer["engine"], error=str(failure))
        self.unsaved = self._unread = False
        return state_reply(**answer)

    def release(self) -> Reply:
        """Save and end the kernel. It goes on when the state cannot be saved, which would be lost with it."""
        reply = self.save()
        if reply["error"] is None:
            reply.update(outliving(self.end()))
        return reply

    def reload(self, base: State, cwd: str | None) -> Reply:
        """Let go of the namespace and bring back that of the state file; without one to read, a live one stays."""
        with self._locked():
            data, error = self._read()
            if data is None and self.live:
                return state_reply(error=error or NO_STATE)
            self.end()
            reply, _ = self.open(base, Ticket(), cwd)
        return reply or state_reply()

    def reset(self) -> Reply:
        """End the kernel and delete the state file."""
        with self._locked():
            left = self.end()
            self._files.remove_state(self.id)
        return {**state_reply(), **outliving(left)}

    def delete(self) -> list[Reply]:
        """End the kernel and delete all that there is of the session; gives the processes that outlive it."""
        with self._locked() as lock:
            left = self.end()
            self._files.forget(self.id)
            lock.release(remove=True)
        return left

    def keep_as(self, name: str) -> State:
        """Store the namespace of the open session as a state."""
        kernel, base = self._kernel, self._base
        assert kernel is not None
        assert base is not None
        try:
            state = self._executor.keep_namespace(kernel, base, self._history, name)
        except KernelError as failure:
            self.lose(str(failure))
            raise
        self._stand_on(state)
        return state

    def lose(self, reason: str) -> None:
        """The kernel ended by itself, or is of no use any more."""
        self.end()
        self._lost = reason

    def end(self) -> list[Reply]:
        """End the kernel and let go of the session; what is not saved is gone. Without effect on a released one.

        Gives the processes that its cells started and that outlive it.
        """
        left = [] if self._kernel is None else self._kernel.outliving()
        kernel, self._kernel = self._kernel, None
        self._pins.close()
        self._base, self._history, self._lost, self._save_error = None, [], "", ""
        self.unsaved = False
        if kernel is not None:
            self._pool.release(kernel)
        self._unlock_if_unused()
        return left

    # -- inside

    @contextlib.contextmanager
    def _locked(self) -> Iterator[FileLock]:
        """The file lock for the length of the block, and longer when the session is live then."""
        if self._lock is None:
            self._lock = self._files.lock(self.id)
        lock = self._lock
        self._holds += 1
        try:
            yield lock
        finally:
            self._holds -= 1
            self._unlock_if_unused()

    def _unlock_if_unused(self) -> None:
        if self._kernel is None and not self._holds and self._lock is not None:
            self._lock.release()
            self._lock = None

    def _start(self, base: State, ticket: Ticket) -> None:
        """Give it a new kernel that holds `base` and belongs to the pool no longer."""
        kernel = self._executor.lease_holding(base, ticket, fresh=True)
        self._pool.detach(kernel)
        self._kernel = kernel
        try:
            self._stand_on(base)
        except StateNotFound:
            self.end()
            raise

    def _stand_on(self, state: State) -> None:
        """Its kernel holds this state; what that consists of stays in the store as long as it is live."""
        pins = contextlib.ExitStack()
        pins.enter_context(self._store.pin(state))
        self._pins.close()
        self._pins, self._base, self._history = pins, state, []
