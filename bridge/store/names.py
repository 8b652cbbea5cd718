"""State names: what each points to, and what became of it. The functions work inside the caller's transaction."""

from __future__ import annotations

import sqlite3
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from bridge.errors import StateEvicted, StateNotFound
from bridge.store import workspaces as spaces
from bridge.store.contents import Contents, read_epoch
from bridge.store.database import Transaction
from bridge.store.manifest import to_bytes, to_text


def find(connection: sqlite3.Connection, workspace: str, name: str) -> int | None:
    """The state of that name, or None. "other:name" is in another workspace unless it is a name here.

    StateEvicted when there was one and it went for want of room.
    """
    pairs = [(workspace, name), *spaces.split_name(name)]
    for table, column in (("names", "state"), ("evicted", "moment")):
        for space, each in pairs:
            found = connection.execute(
                f"SELECT t.{column} FROM workspaces w JOIN {table} t ON t.workspace = w.id"
                " WHERE w.name = ? AND t.name = ?",
                (to_bytes(space), to_bytes(each)),
            ).fetchone()
            if found is not None and table == "names":
                return int(found[0])
            if found is not None:
                raise StateEvicted(
                    f"the state {name!r} was evicted at {found[0]}, to keep the home under its size limit"
                )
    return None


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a list of names: those after the name `after`, `limit` of them at most (-1: all)."""

    after: str | None = None
    limit: int = -1

    def start(self, connection: sqlite3.Connection, workspace: str | None) -> int:
        """The place after which it begins. StateNotFound when there is no such name to go on from."""
        if self.after is None:
            return 0
        pairs = spaces.split_name(self.after) if workspace is None else [(workspace, self.after)]
        for space, name in pairs:
            found = connection.execute(
                "SELECT place FROM names WHERE workspace = ? AND name = ?",
                (spaces.find_row(connection, space), to_bytes(name)),
            ).fetchone()
            if found is not None:
                return int(found[0])
        raise StateNotFound(f"there is no state named {self.after!r} to go on from")


ALL = Page()


class Lists:
    """Whole lists of names as they were read last: the next time only the names that are new since are read.

    Its user sees to it that one thread at a time asks. A name keeps its place in the list while it is there, and no
    place is given twice: where as many names are there as were known and have come since, none has gone.
    """

    _KEPT = 8  # workspaces

    def __init__(self) -> None:
        self._known: OrderedDict[int, tuple[int, list[str]]] = OrderedDict()  # the last place, and the names

    def names(self, connection: sqlite3.Connection, workspace: str) -> list[str]:
        """All names of the workspace, oldest first; a list of the caller's own."""
        row = spaces.find_row(connection, workspace)
        if row is None:
            return []
        last, known = self._known.pop(row, (0, []))
        (count,) = connection.execute("SELECT COUNT(*) FROM names WHERE workspace = ?", (row,)).fetchone()
        fresh = _read(connection, row, last)
        if len(known) + len(fresh) != count:
            known, fresh = [], _read(connection, row, 0)
        known.extend(to_text(name) for _, name in fresh)
        self._known[row] = (fresh[-1][0] if fresh else last, known)
        if len(self._known) > self._KEPT:
            self._known.popitem(last=False)
        return list(known)


def _read(
    connection: sqlite3.Connection, workspace: int | None, after: int, limit: int = -1
) -> list[tuple[int, bytes]]:
    """Places and names of a workspace after a place, in order."""
    return connection.execute(
        "SELECT place, name FROM names WHERE workspace = ? AND place > ? ORDER BY place LIMIT ?",
        (workspace, after, limit),
    ).fetchall()


def find_all(connection: sqlite3.Connection, workspace: str | None, page: Page = ALL) -> list[str]:
    """The workspace's state names, oldest first; for None those of all, as "workspace:name"."""
    start = page.start(connection, workspace)
    if workspace is None:
        rows = connection.execute(
            "SELECT w.name, n.name FROM names n JOIN workspaces w ON w.id = n.workspace"
            " WHERE place > ? ORDER BY place LIMIT ?",
            (start, page.limit),
        )
        return [f"{to_text(space)}:{to_text(name)}" for space, name in rows]
    found = _read(connection, spaces.find_row(connection, workspace), start, page.limit)
    return [to_text(name) for _, name in found]


def describe(
    connection: sqlite3.Connection, contents: Contents, workspace: str | None, page: Page = ALL
) -> list[dict[str, Any]]:
    """States without their content, oldest first; see Store.details."""
    where, values = (
        ("", ()) if workspace is None else ("n.workspace = ? AND", (spaces.find_row(connection, workspace),))
    )
    rows = connection.execute(
        "SELECT w.name, n.name, s.id, s.parent, (SELECT p.name FROM names p WHERE p.state = s.parent"
        " AND p.workspace = n.workspace ORDER BY place LIMIT 1), s.created, s.code, s.bytes"
        " FROM names n JOIN states s ON s.id = n.state JOIN workspaces w ON w.id = n.workspace"
        f" WHERE {where} n.place > ? ORDER BY n.place LIMIT ?",
        (*values, page.start(connection, workspace), page.limit),
    ).fetchall()
    codes = contents.load_pieces(connection, [row[6] for row in rows], read_epoch(connection))
    return [
        {
            "workspace": to_text(space),
            "name": to_text(name),
            "id": row,
            "parent": parent,
            "parent_name": None if parent_name is None else to_text(parent_name),
            "created": created,
            "code": codes[code][1],
            "bytes": size,
        }
        for space, name, row, parent, parent_name, created, code, size in rows
    ]


def point(transaction: Transaction, workspace: int, name: str, state: int, *, labelled: bool = False) -> bool:
    """Make the name point to the state; whether it pointed to another before."""
    key = (workspace, to_bytes(name))
    old = transaction.execute("SELECT state FROM names WHERE workspace = ? AND name = ?", key).fetchone()
    if old is None:
        transaction.execute(
            "INSERT INTO names (workspace, name, state, labelled) VALUES (?, ?, ?, ?)",
            (*key, state, labelled),
        )
        transaction.execute("DELETE FROM evicted WHERE workspace = ? AND name = ?", key)
        return False
    transaction.execute(
        "UPDATE names SET state = ?, labelled = ? WHERE workspace = ? AND name = ?", (state, labelled, *key)
    )
    transaction.execute("INSERT OR IGNORE INTO orphans VALUES (?)", old)
    return True


def remove(transaction: Transaction, workspace: str, name: str) -> bool:
    """Take the name away; whether it was there, or its state had been evicted."""
    key = (spaces.find_row(transaction.connection, workspace), to_bytes(name))
    where = "WHERE workspace = ? AND name = ?"
    transaction.execute(f"INSERT OR IGNORE INTO orphans SELECT state FROM names {where}", key)
    counts = [
        transaction.execute(f"DELETE FROM {table} {where}", key).rowcount for table in ("names", "evicted")
    ]
    return any(counts)
