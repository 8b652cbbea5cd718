"""All sessions of an engine: found by their id, saved in the background, released when idle, a bounded number live."""

from __future__ import annotations

import concurrent.futures
import logging
import os
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any

from bridge.engine.executor import Executor
from bridge.engine.feed import Feed
from bridge.engine.running import Running
from bridge.engine.session import Session, outliving, state_reply
from bridge.errors import BadRequest, BridgeError, Interrupted, StateNotFound, StoreError
from bridge.outputs import Limits
from bridge.pool import Pool, Ticket
from bridge.store import session_expiry
from bridge.store.manifest import State
from bridge.store.sessions import Record, SessionStore
from bridge.store.store import Store

log = logging.getLogger(__name__)

MAX_LIVE = 32
"""Sessions that have a kernel at once: these kernels are beside the pool's, which serve what has no session."""
SAVERS = 4
LOOK = 0.5
"""Seconds between looks for a session that can make room."""
CLOSE_SECONDS = 1.5
"""Seconds in which the sessions that have something unsaved are saved at the engine's end."""

Reply = dict[str, Any]
UnderWay = Callable[[str, str, Callable[[Running], Reply], Feed | None], Reply]


class Sessions:
    """The sessions of one home, as one engine serves them.

    `initial` gives the state that kernels begin with, `find_state` one of that name; `under_way` registers an
    execution and gives its reply (see `Kernel`).
    """

    def __init__(
        self,
        store: Store,
        pool: Pool,
        executor: Executor,
        limits: Limits,
        *,
        idle_seconds: float,
        find_state: Callable[[str], State],
        under_way: UnderWay,
    ) -> None:
        self.files = SessionStore(store.home)
        self._remove_orphans()
        self._store = store
        self._pool = pool
        self._executor = executor
        self._limits = limits
        self._idle_seconds = idle_seconds
        self._find_state = find_state
        self._under_way = under_way
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._sessions: dict[str, Session] = {}
        self._seats: set[str] = set()  # ids of those that are live or about to be
        self._closing = False
        self._savers = concurrent.futures.ThreadPoolExecutor(SAVERS, thread_name_prefix="session-save")
        self._keeper = threading.Thread(target=self._keep, name="session-idle", daemon=True)
        self._keeper.start()

    # -- what clients ask for

    def create(
        self, session_id: str | None = None, cwd: str | None = None, from_state: str | None = None
    ) -> Reply:
        """A new session, empty or with the namespace of a state: `{"session_id", "state"}`."""
        if cwd is not None and not os.path.isdir(cwd):
            raise BadRequest(f"the field `cwd`: there is no folder {cwd!r}")
        base = None if from_state is None else self._find_state(from_state)
        session_id = session_id or uuid.uuid4().hex
        self.files.create(session_id, None if cwd is None else os.path.abspath(cwd))
        reply = state_reply()
        if base is not None:
            session = self._session(session_id)
            try:
                with session.turn():
                    self._take_seat(session, Ticket())
                    reply = session.hold(base, Ticket(), self._store.inputs(base.inputs))
            except BaseException:
                self.delete(session_id)
                raise
        return {"session_id": session_id, "state": reply}

    def list(self) -> list[Reply]:
        """Every session, oldest first, as `describe`."""
        return [self._describe(record) for record in self.files.all()]

    def describe(self, session_id: str) -> Reply:
        """One session: whether it is live and runs a cell, its last reply, idle seconds and state file bytes."""
        return self._describe(self.files.find(session_id))

    def execute(
        self,
        session_id: str,
        code: str,
        exec_id: str,
        *,
        timeout: float | None = None,
        stdin: Sequence[str] | None = None,
        feed: Feed | None = None,
    ) -> Reply:
        """Run a cell in the session, brought back first when it was released: the execution reply.

        Cells of one session run one after the other, in the order they came. `state` is the restore's reply, or tells
        that the store failed since the last cell. The state file is written in the background after a success.
        """
        session = self._session(session_id)

        def work(running: Running) -> Reply:
            with self._lock:
                session.cells += 1
            try:
                session.turns.take(running.ticket)
                try:
                    state, notice = self._open(session, running.ticket)
                    reply = session.run(running, stdin, timeout)
                    state = self._note_reply(session_id, state)
                finally:
                    session.ended_at = time.monotonic()
                    session.turns.give_back()
            finally:
                with self._lock:
                    session.cells -= 1
                    self._changed.notify_all()
            reply["state"] = state
            reply["notice"] = notice or reply["notice"]
            if reply["error"] is None:
                self._save_soon(session)
            return reply

        return self._under_way(exec_id, code, work, feed)

    def snapshot(self, session_id: str) -> Reply:
        """Write the state file now: the state reply."""
        session = self._session(session_id)
        with session.turn():
            return {"state": session.save()}

    def release(self, session_id: str) -> Reply:
        """Write the state file and end the kernel: the state reply."""
        session = self._session(session_id)
        with session.turn():
            return {"state": self._without_seat(session, session.release)}

    def restore(self, session_id: str) -> Reply:
        """Bring the namespace of the state file back, whatever the kernel holds: the state reply."""
        session = self._session(session_id)
        with session.turn():
            self._take_seat(session, Ticket())
            return {"state": session.reload(self._find_state("initial"), self.files.find(session_id).cwd)}

    def reset(self, session_id: str) -> Reply:
        """End the kernel and delete the state file: an empty session of that name."""
        session = self._session(session_id)
        with session.turn():
            return {"state": self._without_seat(session, session.reset)}

    def save_state(self, session_id: str, name: str) -> Reply:
        """Store the session's namespace as a state of that name: `{"state_name"}`."""
        session = self._session(session_id)
        with session.turn():
            self._open(session, Ticket())
            session.keep_as(name)
        return {"state_name": name}

    def add_paste(self, session_id: str, text: str, label: str) -> Reply:
        """Keep a text beside the session: `{"path"}`."""
        return {"path": str(self.files.add_paste(session_id, label, text))}

    def delete(self, session_id: str) -> Reply:
        """End the session and delete its file, its pastes and its record. Conflict while a cell runs."""
        session = self._session(session_id)
        with session.turn():
            left = self._without_seat(session, session.delete)
        with self._lock:
            self._sessions.pop(session_id, None)
        return {"deleted": session_id, **outliving(left)}

    def close(self) -> None:
        """Save what is not saved yet, as far as there is time for it. The kernels end with their pool."""
        with self._lock:
            if self._closing:
                return
            self._closing = True
            self._changed.notify_all()
            unsaved = [session for session in self._sessions.values() if session.unsaved]
        self._keeper.join(LOOK)
        saves = [self._savers.submit(self._save_if_free, session) for session in unsaved]
        _, late = concurrent.futures.wait(saves, timeout=CLOSE_SECONDS)
        if late:
            log.warning("%d sessions were not saved in time; their last state files stay", len(late))
        self._savers.shutdown(wait=False, cancel_futures=True)

    def let_go(self) -> None:
        """Leave the sessions to other servers, and the store: after the kernels' end."""
        for session in self._sessions.values():
            session.end()
        self.files.close()

    # -- inside

    def _remove_orphans(self) -> None:
        """Remove old files of no session, before any session opens."""
        try:
            count, size = session_expiry.remove_orphans(self.files, time.time())
        except (OSError, BridgeError) as error:
            log.warning("files of no session could not be removed: %s", error)
            return
        if count:
            log.info("%s", session_expiry.report(count, size))

    def _session(self, session_id: str) -> Session:
        self.files.find(session_id)
        with self._lock:
            if session_id not in self._sessions:
                self._sessions[session_id] = Session(
                    session_id, self.files, self._store, self._pool, self._executor, self._limits
                )
            return self._sessions[session_id]

    def _describe(self, record: Record) -> Reply:
        with self._lock:
            session = self._sessions.get(record.id)
        running = session is not None and session.cells > 0
        idle = None if record.replied is None else 0.0 if running else max(0.0, time.time() - record.replied)
        return {
            "session_id": record.id,
            "live": session is not None and session.live,
            "running": running,
            "created": record.created,
            "last_reply": record.replied,
            "idle_seconds": idle,
            "state_bytes": self.files.state_bytes(record.id),
        }

    def _note_reply(self, session_id: str, state: Reply | None) -> Reply | None:
        """Note the time of a reply in the store: the reply's `state`, which tells when that failed."""
        try:
            self.files.note_reply(session_id)
        except StoreError as failure:  # what the cell did stands, and its reply is due all the same
            log.error("the reply of session %s was not noted: %s", session_id, failure)
            state = state or state_reply()
            state["error"] = state["error"] or str(failure)
        return state

    def _open(self, session: Session, ticket: Ticket) -> tuple[Reply | None, str | None]:
        """Give a session whose turn we have a kernel: the restore's reply and a notice, where there is any."""
        self._take_seat(session, ticket)
        return session.open(self._find_state("initial"), ticket, self.files.find(session.id).cwd)

    # Seats: the bounded number of kernels.

    def _take_seat(self, session: Session, ticket: Ticket) -> None:
        """Wait until one more session may have a kernel, for which the one that was idle longest is released."""
        while True:  # ends when a cell ends somewhere, or with the ticket
            with self._lock:
                self._seats &= {each.id for each in self._sessions.values() if each.live or each.turns.taken}
                if session.id in self._seats or len(self._seats) < MAX_LIVE:
                    self._seats.add(session.id)
                    return
                idle = [each for each in self._sessions.values() if each.live and not each.cells]
            for each in sorted(idle, key=lambda each: each.ended_at):
                if self._release_if_free(each):
                    break
            else:
                with self._lock:
                    self._changed.wait(LOOK)
            if ticket.cancelled or self._closing:
                raise Interrupted("interrupted while it waited for a kernel")

    def _without_seat(self, session: Session, action: Callable[[], Any]) -> Any:
        """Do something that may end a session's kernel."""
        result = action()
        with self._lock:
            if not session.live:
                self._seats.discard(session.id)
            self._changed.notify_all()
        return result

    def _release_if_free(self, session: Session) -> bool:
        """Release a session that nobody uses at the moment; whether that was so, and could be done."""
        if not session.turns.take_if_free():
            return False
        try:
            if session.cells:
                return False
            self._without_seat(session, session.release)
            return not session.live
        except BridgeError as error:
            log.error("session %s could not be released: %s", session.id, error)
            return False
        finally:
            session.turns.give_back()

    # In the background.

    def _save_soon(self, session: Session) -> None:
        with self._lock:
            if not self._closing:
                self._savers.submit(self._save_if_free, session)

    def _save_if_free(self, session: Session) -> None:
        """Save unless a cell runs, whose end brings the next save."""
        if not session.turns.take_if_free():
            return
        try:
            if session.unsaved:
                session.save()
        except BridgeError:
            log.exception("session %s could not be saved", session.id)
        finally:
            session.turns.give_back()

    def _keep(self) -> None:
        """Release the sessions that are idle for long, until the close."""
        while True:
            with self._lock:
                if self._closing:
                    return
                now = time.monotonic()
                live = [each for each in self._sessions.values() if each.live and not each.cells]
                due = [each for each in live if each.ended_at + self._idle_seconds <= now]
                if not due:
                    next_due = min((each.ended_at for each in live), default=now) + self._idle_seconds
                    self._changed.wait(max(0.0, next_due - now))
                    continue
            for each in due:
                if not self._release_if_free(each):
                    each.ended_at = time.monotonic()  # tried again after as long


def find_or_raise(find: Callable[[str], State | None]) -> Callable[[str], State]:
    """A lookup that raises StateNotFound instead of giving None."""

    def found(name: str) -> State:
        state = find(name)
        if state is None:
            raise StateNotFound(f"there is no state named {name!r}")
        return state

    return found
