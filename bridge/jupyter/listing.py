"""A notebook's states as a text tree and as an HTML table. Pure."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bridge.store.manifest import State

LINE = 60
NAMES = 6
HERE = "← here"
CELL = "text-align: left; white-space: nowrap"


@dataclass(frozen=True, slots=True)
class Row:
    """One state. `number` is its cell's, `size` in bytes, `created` in seconds since the epoch."""

    id: int
    parent: int | None
    names: tuple[str, ...]
    number: int | None
    code: str
    created: float
    size: int
    changed: tuple[str, ...]
    failed: bool
    here: bool

    def cell(self) -> str:
        """The cell's number and first line."""
        number = f"[{self.number}] " if self.number else ""
        return number + first_line(self.code) + (" (failed)" if self.failed else "")

    def changes(self) -> str:
        """The variables that the cell changed."""
        more = f" and {len(self.changed) - NAMES} more" if len(self.changed) > NAMES else ""
        return ", ".join(self.changed[:NAMES]) + more


def row(state: State, names: Sequence[str], here: bool) -> Row:
    """The row of a state with these names."""
    info: Any = state.info
    return Row(
        state.id,
        state.parent,
        tuple(names),
        info.get("cell"),
        state.code,
        datetime.fromisoformat(state.created.replace("Z", "+00:00")).timestamp(),
        sum(unit.size for unit in state.manifest.units.values()),
        tuple(info.get("changed", ())),
        bool(info.get("failed")),
        here,
    )


@dataclass(frozen=True, slots=True)
class Listing:
    """States, the oldest first; `hidden` older ones are not shown. `now` in seconds since the epoch."""

    rows: list[Row]
    hidden: int
    branch: str | None
    now: float

    def text(self) -> str:
        """A tree: each state under the one that it was made from, which is indented only where the tree forks."""
        children: dict[int | None, list[Row]] = {}
        shown = {each.id for each in self.rows}
        for each in self.rows:
            children.setdefault(each.parent if each.parent in shown else None, []).append(each)
        lines = [f"({self.hidden} older states are not shown: %states all)"] if self.hidden else []
        waiting = [(each, 0) for each in reversed(children.get(None, []))]
        while waiting:
            each, depth = waiting.pop()
            lines.append("│ " * depth + self._line(each))
            below = children.get(each.id, [])
            # The newest child goes on in its parent's column, those before it stand to the right.
            waiting += [(child, depth) for child in below[-1:]]
            waiting += [(child, depth + 1) for child in reversed(below[:-1])]
        return "\n".join(lines)

    def _line(self, each: Row) -> str:
        parts = [
            ", ".join(each.names),
            each.cell(),
            age(self.now - each.created),
            size(each.size),
            each.changes(),
        ]
        return "  ".join(part for part in parts if part) + (f"  {HERE}" if each.here else "")

    def html(self) -> str:
        """A table, one state a row."""
        head = "".join(
            f"<th style='text-align: left'>{title}</th>"
            for title in ("state", "from", "cell", "when", "size", "changed")
        )
        names = {each.id: each.names[0] for each in self.rows}
        body = []
        for each in self.rows:
            cells = [
                f"<b>{html.escape(', '.join(each.names))}</b>" + (f" {HERE}" if each.here else ""),
                html.escape(names.get(each.parent or -1, "")),
                f"<code>{html.escape(each.cell())}</code>",
                age(self.now - each.created),
                size(each.size),
            ]
            columns = "".join(f"<td style='{CELL}'>{cell}</td>" for cell in cells)
            # What changed may be long, and wraps.
            changes = f"<td style='text-align: left'>{html.escape(each.changes())}</td>"
            body.append(f"<tr>{columns}{changes}</tr>")
        caption = f"<caption>{self.hidden} older states are not shown</caption>" if self.hidden else ""
        return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"


def first_line(code: str) -> str:
    """The first line of a cell that says something, cut to LINE characters."""
    line = next((line.strip() for line in code.splitlines() if line.strip()), "")
    return line if len(line) <= LINE else line[: LINE - 1] + "…"


def age(seconds: float) -> str:
    """How long ago, in the largest unit that fits."""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{int(seconds // length)} {unit} ago"
    return f"{max(0, int(seconds))} s ago"


def size(number: int) -> str:
    """Bytes in the largest unit that fits."""
    amount = float(number)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000 or unit == "GB":
            break
        amount /= 1000
    return f"{amount:.0f} {unit}" if unit == "B" or amount >= 100 else f"{amount:.1f} {unit}"
