"""Workspaces: the name spaces of state names. The functions work inside the caller's transaction."""

from __future__ import annotations

import secrets
import sqlite3
import time
from collections.abc import Callable, Collection, Iterator
from datetime import datetime, timezone
from typing import Any

from bridge.store.database import Transaction
from bridge.store.manifest import timestamp, to_bytes, to_text

UNLABELLED, LABELLED, KEPT = range(3)
"""What is told of a workspace: it expires when unused, it does not, and its states are never evicted either."""


def split_name(name: str) -> Iterator[tuple[str, str]]:
    """Every way to read `name` as workspace and state name: both may hold colons."""
    at = name.find(":")
    while at >= 0:
        yield name[:at], name[at + 1 :]
        at = name.find(":", at + 1)


def find_row(connection: sqlite3.Connection, name: str) -> int | None:
    """The row of the workspace, or None."""
    found = connection.execute("SELECT id FROM workspaces WHERE name = ?", (to_bytes(name),)).fetchone()
    return None if found is None else int(found[0])


def use(transaction: Transaction, name: str, *, labelled: int = UNLABELLED) -> int:
    """The row of the workspace, made when missing, now the one used last; a label is never taken away."""
    now = time.time()
    row = find_row(transaction.connection, name)
    if row is None:
        row = transaction.execute(
            "INSERT INTO workspaces (name, labelled, created, used) VALUES (?, ?, ?, ?)",
            (to_bytes(name), labelled, now, now),
        ).lastrowid
        assert row is not None  # always set after an INSERT
    else:
        statement = "UPDATE workspaces SET used = MAX(used, ?), labelled = MAX(labelled, ?) WHERE id = ?"
        transaction.execute(statement, (now, labelled, row))
    return row


def new_name(transaction: Transaction) -> str:
    """A name nobody uses, such as `w-20261202-4f3a`."""
    day = datetime.now(timezone.utc).strftime("%Y%m%d")
    digits = 2
    while True:  # ends: each turn has 256 times as many names to choose from
        name = f"w-{day}-{secrets.token_hex(digits)}"
        if find_row(transaction.connection, name) is None:
            return name
        digits += 1


def last_name(transaction: Transaction) -> str | None:
    """The workspace used last in this home, by anybody."""
    found = transaction.execute("SELECT name FROM workspaces ORDER BY used DESC, id DESC LIMIT 1").fetchone()
    return None if found is None else to_text(found[0])


def last_number(connection: sqlite3.Connection, workspace: int | None) -> int:
    """The number given out last in this workspace, 0 when none was."""
    found = connection.execute("SELECT value FROM meta WHERE key = ?", (f"number:{workspace}",)).fetchone()
    return 0 if found is None else int(found[0])


def next_number(transaction: Transaction, workspace: int) -> int:
    """A number that was never given out in this workspace, 1 first."""
    number = last_number(transaction.connection, workspace) + 1
    transaction.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (f"number:{workspace}", number))
    return number


def drop_names(transaction: Transaction, workspace: int, keep: tuple[str, ...] = ()) -> int:
    """Take all names but `keep` from a workspace; gives how many."""
    kept = [to_bytes(name) for name in keep]
    where = f"workspace = ? AND name NOT IN ({','.join('?' * len(kept))})"
    transaction.execute(
        f"INSERT OR IGNORE INTO orphans SELECT state FROM names WHERE {where}", (workspace, *kept)
    )
    transaction.execute("DELETE FROM evicted WHERE workspace = ?", (workspace,))
    return transaction.execute(f"DELETE FROM names WHERE {where}", (workspace, *kept)).rowcount


def describe(connection: sqlite3.Connection, is_alive: Callable[[str], bool]) -> list[dict[str, Any]]:
    """All workspaces, oldest first: name, labelled, created, used, states (count), open (to anybody)."""
    open_rows = {
        row for row, owner in connection.execute("SELECT workspace, owner FROM opened") if is_alive(owner)
    }
    return [
        {
            "name": to_text(name),
            "labelled": bool(labelled),
            "created": timestamp(datetime.fromtimestamp(created, timezone.utc)),
            "used": timestamp(datetime.fromtimestamp(used, timezone.utc)),
            "states": count,
            "open": row in open_rows,
        }
        for row, name, labelled, created, used, count in connection.execute(
            "SELECT id, name, labelled, created, used,"
            " (SELECT COUNT(*) FROM names WHERE workspace = workspaces.id) FROM workspaces ORDER BY id"
        )
    ]


def due(connection: sqlite3.Connection, before: float, is_alive: Callable[[str], bool]) -> list[int]:
    """The rows of workspaces without a label, last used before that moment, that nobody has open."""
    rows = connection.execute(
        "SELECT id FROM workspaces WHERE labelled = 0 AND used < ?", (before,)
    ).fetchall()
    owners = "SELECT owner FROM opened WHERE workspace = ?"
    return [
        row for (row,) in rows if not any(is_alive(owner) for (owner,) in connection.execute(owners, (row,)))
    ]


def states_of(connection: sqlite3.Connection, rows: Collection[int]) -> set[int]:
    """The states that have no names but in these workspaces."""
    spaces: dict[int, set[int]] = {}
    for state, workspace in connection.execute("SELECT state, workspace FROM names"):
        spaces.setdefault(state, set()).add(workspace)
    return {state for state, found in spaces.items() if found.issubset(rows)}


def expire(transaction: Transaction, before: float, is_alive: Callable[[str], bool]) -> int:
    """Remove the workspaces that are due; gives how many."""
    rows = due(transaction.connection, before, is_alive)
    for row in rows:
        drop_names(transaction, row)
        transaction.execute("DELETE FROM opened WHERE workspace = ?", (row,))
        transaction.execute("DELETE FROM workspaces WHERE id = ?", (row,))
    return len(rows)
