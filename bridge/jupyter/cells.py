"""The life of each cell: sent, its output and reply passed on, its state kept, and told when its kernel dies."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

from bridge.jupyter.cell import Cell
from bridge.jupyter.driver import Attached, Driver
from bridge.jupyter.frontend import FrontEnd
from bridge.jupyter.turns import Turns, is_cell
from bridge.pool.wire import Letter

log = logging.getLogger(__name__)

Work = Callable[[Callable[[], Any], Callable[[Any, "BaseException | None"], None]], None]

NO_REPLY_AFTER = 2.0
"""Seconds from a cell's idle status after which no reply will come: the kernel failed outside the cell's code."""

_NO_REPLY = (
    "NoReply",
    "the kernel failed on this cell outside its code; is it nested too deeply to be compiled?",
)


class Cells:
    """Leads one cell after the other through the kernel; everything here runs in the loop's thread.

    `send` sends a message to the kernel's shell, `work` has the worker do something and then goes on with its result
    or its error, `attached` takes a kernel that came in place of the old one. `fetch` reads what the front end has
    sent meanwhile.
    """

    def __init__(
        self,
        front: FrontEnd,
        driver: Driver,
        turns: Turns,
        *,
        send: Callable[[Letter], None],
        work: Work,
        attached: Callable[[Attached], None],
        fetch: Callable[[], None],
    ) -> None:
        self._front, self._driver, self._turns = front, driver, turns
        self._send, self._work, self._attached, self._fetch = send, work, attached, fetch
        self.cell: Cell | None = None
        self.leaving = False  # a cell has asked for the kernel's end
        self._notes: list[str] = []  # what the next cell's stderr begins with

    @property
    def is_to_begin(self) -> bool:
        """Whether a cell has come that has not begun to run, and will."""
        cell = self.cell
        if cell is None or cell.replied:
            return self._turns.cells_wait
        return cell.count is None and not cell.letter.part(3).get("silent")

    def note(self, notes: list[str]) -> None:
        """Tell the user something with the next cell."""
        self._notes += notes

    def begin(self, letter: Letter) -> None:
        """An execute_request's turn has come."""
        cell = self.cell = Cell.of(letter)
        start = self._driver.line.before_cell(cell.cell_id) if cell.kept and cell.cell_id else None
        if start is None or start.id == self._driver.line.here.id:
            self._run(cell)
            return

        def moved(attached: Attached | None, error: BaseException | None) -> None:
            if attached is not None:
                self._attached(attached)
            if error is not None:
                self.note([f"the cell runs from where the notebook stood: {error}"])
            self._run(cell)

        self._work(lambda: self._driver.go(start), moved)

    def resume(self) -> None:
        """A kernel has come in place of one that was dead before the cell under way could be sent to it."""
        if self.cell is not None and not self.cell.sent:
            self._run(self.cell)

    def _run(self, cell: Cell) -> None:
        """Send the cell; to a kernel that is dead already it waits for the next one."""
        kernel = self._driver.kernel
        if kernel is None or kernel.looks_dead():
            return
        cell.sent = True
        self._send(cell.request(self._driver.orders(cell)))

    def interrupted(self) -> None:
        """An interrupt is on its way to the kernel."""
        if self.cell is not None:
            self.cell.interrupted = True

    def heard(self, letter: Letter) -> None:
        """A message of iopub is about to be passed on, or just was: what it says of the cell under way."""
        cell = self.cell
        if cell is None or cell.msg_id.encode() not in letter.parts[1]:
            return
        if b'"execute_input"' in letter.parts[0]:
            cell.count = letter.part(3).get("execution_count")
            self._driver.began(cell)
            notes, self._notes = self._notes, []
            for note in notes:
                self._tell(note, cell)
        elif b'"status"' in letter.parts[0] and letter.part(3).get("execution_state") == "idle":
            cell.idle_at = time.monotonic()

    def replied(self, letter: Letter) -> bool:
        """A message of the shell has come from the kernel; whether it is the cell's reply, ours to send."""
        cell = self.cell
        if (
            cell is None
            or b'"execute_reply"' not in letter.parts[0]
            or letter.part(1).get("msg_id") != cell.msg_id
        ):
            return False
        content = cell.take_reply(letter)
        self.leaving = any(
            item.get("source") == "ask_exit" and not item.get("keepkernel")
            for item in content.get("payload") or []
        )
        if cell.target is None:
            waiting = self._to_abort(cell)
            self._front.send("shell", letter)
            self._abort(waiting)
            self._keep(cell)
        else:
            self._move(cell, letter)
        return True

    def _keep(self, cell: Cell) -> None:
        """Keep the cell's state while the front end has its reply already."""
        if not cell.kept or not cell.report:
            self._end()
            return

        def kept(warning: str | None, error: BaseException | None) -> None:
            if error is not None:
                log.error("a state was not kept", exc_info=error)
            if warning or error:
                self._tell(warning or f"the state of this cell could not be kept: {error}", cell)
            self._end()

        hurry = self._turns.cells_wait
        self._work(lambda: self._driver.keep(cell, hurry), kept)

    def _move(self, cell: Cell, letter: Letter) -> None:
        """Go where the cell's magics want to, then let the reply go."""

        def moved(attached: Attached | None, error: BaseException | None) -> None:
            if attached is not None:
                for note in attached.notes:
                    self._tell(note, cell)
                attached.notes.clear()
                self._attached(attached)
            if error is not None:
                waiting = self._fail(cell, type(error).__name__, str(error))
            else:
                waiting = self._to_abort(cell)
                self._front.send("shell", letter)
            self._abort(waiting)
            self._end()

        self._work(lambda: self._driver.move(cell), moved)

    def look(self) -> None:
        """End a cell that the kernel is done with and gives no reply of.

        An interrupt that meets ipykernel's own code, before or after the cell's, costs the reply.
        """
        cell = self.cell
        if (
            cell is not None
            and not cell.replied
            and cell.idle_at is not None
            and time.monotonic() - cell.idle_at > NO_REPLY_AFTER
        ):
            error = ("KeyboardInterrupt", "") if cell.interrupted else _NO_REPLY
            waiting = self._fail(cell, *error)
            self._abort(waiting)
            self._end()

    def died(self, reason: str) -> None:
        """The kernel has ended; a cell that was in it ends with one clear error."""
        cell = self.cell
        line = self._driver.line
        if cell is None or cell.replied or not cell.sent:
            self.note([f"the kernel ended between two cells: {reason}; {_goes_on(line.name_of(line.here))}"])
            return
        if cell.count is None:  # its number did not come through any more
            cell.count = self._driver.count
            self._driver.began(cell)
        told = f"the kernel ended: {reason}; {_goes_on(line.name_of(line.here))}"
        waiting = self._fail(cell, "KernelDied", told)
        self._front.publish("status", {"execution_state": "idle"}, cell.letter.parts[0])
        self._abort(waiting)
        self._end()

    def _fail(self, cell: Cell, ename: str, evalue: str) -> list[Letter]:
        """The error output and the reply of a cell that has none of the kernel's; gives what is to be aborted."""
        cell.replied = cell.failed = True
        error = {"ename": ename, "evalue": evalue, "traceback": [f"\x1b[31m{ename}\x1b[39m: {evalue}"]}
        parent = cell.letter.parts[0]
        self._front.publish("error", error, parent)
        content = {
            "status": "error",
            **error,
            "execution_count": cell.count or self._driver.count,
            "user_expressions": {},
            "payload": [],
        }
        reply = self._front.wire.letter(
            "execute_reply",
            content,
            idents=cell.letter.idents,
            parent=parent,
            metadata=_metadata("error"),
        )
        waiting = self._to_abort(cell)
        self._front.send("shell", reply)
        return waiting

    def _to_abort(self, cell: Cell) -> list[Letter]:
        """The cells that wait behind one that has failed, taken before its reply goes: what comes after it may run."""
        if not (cell.failed and cell.stop_on_error):
            return []
        self._fetch()
        return self._turns.abort()

    def _abort(self, letters: list[Letter]) -> None:
        """Answer cells that will not run, as ipykernel does."""
        for letter in letters:
            self._front.answer("shell", letter, {"status": "aborted"}, _metadata("aborted"))

    def _tell(self, note: str, cell: Cell) -> None:
        content = {"name": "stderr", "text": f"[bridge] {note}\n"}
        self._front.publish("stream", content, cell.letter.parts[0])

    def _end(self) -> None:
        self.cell = None
        self.go_on(self._turns.end())

    def go_on(self, letters: list[Letter]) -> None:
        """Send what may go to the kernel now."""
        for letter in letters:
            if is_cell(letter):
                self.begin(letter)
            else:
                self._send(letter)


def _goes_on(name: str) -> str:
    return f"work goes on from state {name} in a new kernel"


def _metadata(status: str) -> dict[str, Any]:
    """A reply's metadata as ipykernel writes them."""
    started = datetime.now(timezone.utc).isoformat().replace("+00:00", "Z")
    return {"started": started, "dependencies_met": True, "engine": "", "status": status}
