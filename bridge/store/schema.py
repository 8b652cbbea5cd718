"""The tables of a home's database, their version, and the creation and checking of the file."""

from __future__ import annotations

import sqlite3

from bridge.errors import HomeDamaged, HomeTooNew

VERSION = 1
APPLICATION_ID = 0x42726467  # "Brdg" in the file's header: a database of ours

# Row numbers are never used twice (AUTOINCREMENT): caches in several processes go by them.
# Names are BLOBs because a name may hold a lone surrogate, which SQLite's TEXT cannot.
DDL = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;

CREATE TABLE workspaces (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name BLOB NOT NULL UNIQUE,
    labelled INTEGER NOT NULL,
    created REAL NOT NULL,              -- seconds since the epoch, as `used`
    used REAL NOT NULL
);
CREATE TABLE opened (                   -- who has which workspace open
    owner TEXT NOT NULL, workspace INTEGER NOT NULL, PRIMARY KEY (owner, workspace)
) WITHOUT ROWID;

CREATE TABLE states (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    parent INTEGER,                     -- may name a state that is gone
    created TEXT NOT NULL,
    code INTEGER NOT NULL,              -- pieces.id
    inputs INTEGER,                     -- inputs.id
    info TEXT NOT NULL,                 -- JSON [[key, value] | [key], ...]; [key] takes the next of `extra`
    extra BLOB NOT NULL,                -- packed pieces.id, as the next two
    units BLOB NOT NULL,
    names BLOB NOT NULL,
    bytes INTEGER NOT NULL
);
CREATE TABLE names (
    place INTEGER PRIMARY KEY AUTOINCREMENT,
    workspace INTEGER NOT NULL,
    name BLOB NOT NULL,
    state INTEGER NOT NULL,
    UNIQUE (workspace, name)
);
CREATE INDEX names_state ON names (state);

CREATE TABLE units (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    ident BLOB NOT NULL UNIQUE,         -- hash of all that follows
    meta TEXT NOT NULL,                 -- JSON [key, digest, names, record, size]
    data BLOB,
    blobs TEXT                          -- addresses, one a line; NULL for none
);
CREATE INDEX units_blobs ON units (id) WHERE blobs IS NOT NULL;

CREATE TABLE pieces (                   -- lists of units.id, of names, texts: whatever states share
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    ident BLOB NOT NULL UNIQUE,
    body BLOB NOT NULL
);

CREATE TABLE inputs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    parent INTEGER,
    code INTEGER NOT NULL,              -- pieces.id
    created REAL NOT NULL
);

CREATE TABLE pins (owner TEXT NOT NULL, state INTEGER NOT NULL, PRIMARY KEY (owner, state)) WITHOUT ROWID;
CREATE TABLE orphans (state INTEGER PRIMARY KEY);         -- states that lost their name
CREATE TABLE doomed (address TEXT PRIMARY KEY) WITHOUT ROWID;    -- blobs that no unit needs any more

CREATE TABLE cache (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL,
    key BLOB NOT NULL,
    value TEXT NOT NULL,
    UNIQUE (kind, key)
);
"""

# Tables that came later. A version that does not know them leaves them alone, so the version stays.
ADDED = """
CREATE TABLE IF NOT EXISTS sessions (
    id TEXT PRIMARY KEY,
    cwd TEXT,
    created REAL NOT NULL,              -- seconds since the epoch, as `replied`
    replied REAL                        -- the last execute reply; NULL before the first, and after a reset
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS holds (      -- which states the kernels of whom hold
    owner TEXT NOT NULL, state INTEGER NOT NULL, PRIMARY KEY (owner, state)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS evicted (    -- names whose states went for want of room
    workspace INTEGER NOT NULL, name BLOB NOT NULL, moment TEXT NOT NULL, PRIMARY KEY (workspace, name)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS names_workspace ON names (workspace);    -- and the place: a page is read in order
"""

# Columns that came later, with the defaults that rows of other versions have.
ADDED_COLUMNS = (
    ("names", "labelled", "INTEGER NOT NULL DEFAULT 0"),  # given on purpose: its state is never evicted
    ("states", "used", "TEXT"),  # the last use, as `created`; NULL before the first
)


def is_empty(connection: sqlite3.Connection) -> bool:
    """Whether the database holds no tables: a new file, or one whose creation was cut short."""
    return bool(connection.execute("SELECT COUNT(*) = 0 FROM sqlite_master").fetchone()[0])


def create(connection: sqlite3.Connection, meta: dict[str, str | int]) -> None:
    """Make all tables and record `meta`, in one transaction. The caller knows the file to be empty."""
    # Both must precede the first table; freed pages can then be given back to the disk a few at a time.
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.executescript("BEGIN IMMEDIATE;" + DDL)
    connection.executemany("INSERT INTO meta VALUES (?, ?)", [*meta.items(), ("epoch", 0)])
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {VERSION}")
    connection.execute("COMMIT")


def extend(connection: sqlite3.Connection) -> None:
    """Make the tables and columns that the file lacks because an earlier version made it."""
    connection.executescript(ADDED)
    for table, column, kind in ADDED_COLUMNS:
        if column not in {name for _, name, *_ in connection.execute(f"PRAGMA table_info({table})")}:
            connection.execute(f"ALTER TABLE {table} ADD COLUMN {column} {kind}")


def check(connection: sqlite3.Connection, path: str) -> dict[str, str | int]:
    """What was recorded at creation. HomeDamaged for another program's file, HomeTooNew for later ones."""
    if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        raise HomeDamaged(f"{path} is not a database of this program; nothing in it was changed")
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > VERSION:
        raise HomeTooNew(
            f"{path} was written by a later version of this program"
            f" (its format is {version}, this one reads up to {VERSION})"
        )
    return dict(connection.execute("SELECT key, value FROM meta").fetchall()) | {"version": version}
