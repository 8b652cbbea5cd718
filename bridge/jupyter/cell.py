"""One cell on its way: what the front end asked for, what has come of it, and what is to follow."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from bridge.pool.wire import Letter
from bridge.store.manifest import State

PAYLOAD = "bridge"
"""The helper's name for its orders in a request's metadata, and for its report in a reply's payload."""


@dataclass(slots=True)
class Cell:
    """An execute_request under way. `kept`: it is a cell of the notebook, and leaves a state.

    `count` is its number once the kernel has told it, `idle_at` when its idle status came (monotonic). `interrupted`:
    an interrupt was passed on while it was under way. `target` is the state that its magics go to when it ends.
    """

    letter: Letter
    msg_id: str
    code: str
    cell_id: str | None
    kept: bool
    stop_on_error: bool
    sent: bool = False
    count: int | None = None
    idle_at: float | None = None
    interrupted: bool = False
    replied: bool = False
    failed: bool = False
    report: dict[str, Any] = field(default_factory=dict)
    target: State | None = None

    @classmethod
    def of(cls, letter: Letter) -> Cell:
        """The cell that a message of the front end's asks for."""
        content, cell_id = letter.part(3), letter.part(2).get("cellId")
        silent = bool(content.get("silent", False))
        return cls(
            letter,
            str(letter.header.get("msg_id")),
            str(content.get("code", "")),
            cell_id if isinstance(cell_id, str) else None,
            # What programs run beside the notebook's cells is not counted, and leaves no state.
            kept=not silent and bool(content.get("store_history", True)),
            stop_on_error=not silent and bool(content.get("stop_on_error", True)),
        )

    def request(self, orders: dict[str, Any]) -> Letter:
        """The message for the kernel. That never aborts by itself: what waits does so on our side."""
        made = Letter(self.letter.idents, list(self.letter.parts), self.letter.buffers)
        made.put(3, {**self.letter.part(3), "stop_on_error": False})
        if self.kept:
            made.put(2, {**self.letter.part(2), PAYLOAD: orders})
        return made

    def take_reply(self, letter: Letter) -> dict[str, Any]:
        """Note the kernel's reply, and take the helper's report out of it; gives the content."""
        content = letter.part(3)
        self.replied, self.failed = True, content.get("status") == "error"
        payload = content.get("payload") or []
        for item in payload:
            if item.get("source") == PAYLOAD:
                self.report = json.loads(item["report"])
                content["payload"] = [each for each in payload if each.get("source") != PAYLOAD]
                letter.put(3, content)
        return content

    def about(self) -> dict[str, Any]:
        """What is kept with its state beside its code."""
        return {"cell": self.count, "cell_id": self.cell_id, "failed": self.failed}
