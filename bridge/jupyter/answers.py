"""What the notebook's magics are told, and what they set going."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from bridge.errors import BadRequest, BridgeError
from bridge.jupyter import listing
from bridge.jupyter.cell import Cell
from bridge.jupyter.driver import Driver
from bridge.store.manifest import State

Answer = dict[str, Any]

SHOWN = 50
"""States that `%states` shows unless it is asked for all."""


class Answers:
    """Answers the questions of the magics; in the worker's thread, while the cell that asks waits.

    An answer is `{"text"}`, with `"html"` beside it for a table, and `"moving": True` when the notebook goes to
    another state at the cell's end; or `{"error"}`, one line for the user.
    """

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._line = driver.line
        self._commands: dict[str, Callable[[Cell, list[str]], Answer]] = {
            "states": self._states,
            "undo": self._undo,
            "redo": self._redo,
            "checkout": self._checkout,
            "branch": self._branch,
            "label": self._label,
            "diff": self._diff,
            "keep": self._keep,
            "forget": self._forget,
            "rerun": self._rerun,
        }

    def to(self, question: Answer, cell: Cell | None) -> Answer:
        """The answer to one question of a cell's magic."""
        command = self._commands.get(str(question.get("command")))
        if cell is None or not cell.kept or command is None:
            return {"error": "it works in cells of the notebook alone"}
        try:
            return command(cell, str(question.get("arguments", "")).split())
        except BridgeError as error:
            return {"error": str(error)}

    # -- looking

    def _states(self, cell: Cell, words: list[str]) -> Answer:
        if words not in ([], ["all"]):
            raise BadRequest("%states, or %states all")
        names = self._line.names()
        hidden = 0 if words else max(0, len(names) - SHOWN)
        rows = []
        for row, given in list(names.items())[hidden:]:
            state = self._line.store.state(row)
            if state is not None:
                rows.append(listing.row(state, self._line.ordered(given), row == self._line.here.id))
        shown = listing.Listing(rows, hidden, self._line.branch, time.time())
        return {"text": shown.text(), "html": shown.html()}

    def _diff(self, cell: Cell, words: list[str]) -> Answer:
        if len(words) not in (1, 2):
            raise BadRequest("%diff A B, or %diff A")
        one = self._line.find(words[0])
        other = self._line.find(words[1]) if len(words) == 2 else self._line.here
        found = self._driver.diff(one, other)
        parts = [
            f"{what}: {', '.join(found[what])}" for what in ("added", "removed", "changed") if found[what]
        ]
        return {"text": f"{words[0]} → {self._line.name_of(other)}: " + ("; ".join(parts) or "no difference")}

    # -- going

    def _go(self, cell: Cell, target: State, what: str) -> Answer:
        cell.target = target
        return {"text": f"{what} {self._describe(target)} when this cell ends", "moving": True}

    def _undo(self, cell: Cell, words: list[str]) -> Answer:
        start = cell.target or self._line.here
        target = self._line.back(start, _count(words))
        self._line.undone(start)
        return self._go(cell, target, "back to")

    def _redo(self, cell: Cell, words: list[str]) -> Answer:
        target = cell.target or self._line.here
        for _ in range(_count(words)):
            target = self._line.redo()
        return self._go(cell, target, "forth to")

    def _checkout(self, cell: Cell, words: list[str]) -> Answer:
        target = self._line.find(_one(words, "%checkout NAME"))
        self._line.undone(cell.target or self._line.here)
        self._line.branch = None
        return self._go(cell, target, "to")

    def _branch(self, cell: Cell, words: list[str]) -> Answer:
        line = self._line
        if not words:
            return {"text": f"on branch {line.branch}" if line.branch else "on no branch"}
        name = _one(words, "%branch NAME")
        here = cell.target or line.here
        if name in line.store.names(line.workspace) and line.find(name).id != here.id:
            line.hold()
            answer = self._go(cell, line.find(name), f"on branch {name}, to")
        else:
            line.label(name, here)
            answer = {
                "text": f"branch {name} begins at {self._describe(here)}, and goes on with the next cells"
            }
        line.branch = name
        return answer

    # -- naming

    def _label(self, cell: Cell, words: list[str]) -> Answer:
        name = _one(words, "%label NAME")
        here = cell.target or self._line.here
        self._line.label(name, here)
        return {"text": f"{name} is {self._describe(here)}"}

    def _keep(self, cell: Cell, words: list[str]) -> Answer:
        if words:
            raise BadRequest("%keep takes no arguments: it keeps all states of this notebook")
        self._line.hold_for_good()
        return {"text": "the states of this notebook are kept until they are forgotten"}

    def _forget(self, cell: Cell, words: list[str]) -> Answer:
        if not words:
            raise BadRequest("%forget NAME …")
        for name in words:
            state = self._line.find(name)
            if len(self._line.names().get(state.id, [])) == 1 and state.id in (
                self._line.here.id,
                self._line.initial.id,
            ):
                raise BadRequest(f"the notebook stands in {name}, or begins with it")
            self._line.forget(name)
        return {"text": f"forgotten: {', '.join(words)}"}

    def _rerun(self, cell: Cell, words: list[str]) -> Answer:
        if words in (["on"], ["off"]):
            self._line.rerun = words == ["on"]
        elif words:
            raise BadRequest("%rerun on, or %rerun off")
        if self._line.rerun:
            return {"text": "rerun is on: a cell that is run again starts from the state before it ran last"}
        return {"text": "rerun is off: every cell goes on from where the notebook stands"}

    def _describe(self, state: State) -> str:
        name, number = self._line.name_of(state), state.info.get("cell")
        first = listing.first_line(state.code)
        return f"{name} (cell [{number}]: {first})" if number else f"{name} (no variables)"


def _count(words: list[str]) -> int:
    if not words:
        return 1
    if len(words) > 1 or not words[0].isdecimal() or int(words[0]) < 1:
        raise BadRequest("a number of cells, 1 or more")
    return int(words[0])


def _one(words: list[str], usage: str) -> str:
    if len(words) != 1:
        raise BadRequest(usage)
    return words[0]
