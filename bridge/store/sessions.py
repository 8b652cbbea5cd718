"""A home's sessions: their records, state files and pastes, and the lock that says who has one open."""

from __future__ import annotations

import os
import re
import secrets
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bridge.errors import BadRequest, Conflict, SessionNotFound, StoreError
from bridge.store.database import Database
from bridge.store.home import Home
from bridge.store.locks import FileLock

ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
SUFFIX = ".state"
DAMAGED = ".damaged"
LOCK_SECONDS = 0.2  # an expiry sweep may have a look
_COLUMNS = "id, cwd, created, replied"


@dataclass(frozen=True, slots=True)
class Record:
    """What the store knows of a session; times in seconds since the epoch.

    `replied` is that of its last execute reply, None before the first and after a reset: a session with one has a
    state file, unless that expired or its first cell took the kernel down.
    """

    id: str
    cwd: str | None
    created: float
    replied: float | None


class SessionStore:
    """The sessions of one home, for any number of threads and processes.

    A file is written whole under a temporary name and then renamed: whoever is killed at any moment, or meets a full
    disk, leaves the old one. Errors: StoreError, SessionNotFound, Conflict.
    """

    def __init__(self, home: Home) -> None:
        self.files = home.sessions_path
        self.pastes = home.pastes_path
        self._locks = home.locks_path / "sessions"
        self._database = Database(home.database_path)
        try:
            self._locks.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise StoreError(f"{self._locks} cannot be made: {error.strerror}") from error

    def close(self) -> None:
        """Let go of the database."""
        self._database.close()

    # -- records

    def create(self, session_id: str, cwd: str | None) -> None:
        """A new session; Conflict for an id in use, BadRequest for one that is none."""
        if not ID.fullmatch(session_id):
            raise BadRequest("a session_id has 1 to 64 letters, digits, `_` and `-`")
        with self._database.write() as transaction:
            try:
                transaction.execute(
                    "INSERT INTO sessions (id, cwd, created) VALUES (?, ?, ?)", (session_id, cwd, time.time())
                )
            except sqlite3.IntegrityError:
                raise Conflict(f"there is a session {session_id!r} already") from None

    def find(self, session_id: str) -> Record:
        """The session's record, read anew. SessionNotFound."""
        with self._database.read() as connection:
            row = connection.execute(
                f"SELECT {_COLUMNS} FROM sessions WHERE id = ?", (session_id,)
            ).fetchone()
        if row is None:
            raise SessionNotFound(f"there is no session {session_id!r}")
        return Record(*row)

    def all(self) -> list[Record]:
        """Every session's record, oldest first."""
        with self._database.read() as connection:
            rows = connection.execute(f"SELECT {_COLUMNS} FROM sessions ORDER BY created, id").fetchall()
        return [Record(*row) for row in rows]

    def note_reply(self, session_id: str) -> None:
        """The session has been given an execute reply just now."""
        self._note(session_id, time.time())

    def forget(self, session_id: str) -> None:
        """Delete the record, the state file and the pastes of a session that the caller has locked."""
        self.remove_state(session_id)
        self._unlink(self.files / f"{session_id}{DAMAGED}")
        for path in self._pastes_of(session_id):
            self._unlink(path)
        folder = self.pastes / session_id
        if folder.is_dir():
            folder.rmdir()
        with self._database.write() as transaction:
            transaction.execute("DELETE FROM sessions WHERE id = ?", (session_id,))

    def _note(self, session_id: str, replied: float | None) -> None:
        with self._database.write() as transaction:
            transaction.execute("UPDATE sessions SET replied = ? WHERE id = ?", (replied, session_id))

    # -- ownership

    def lock(self, session_id: str) -> FileLock:
        """The session's lock, held until it is released or this process ends. Conflict when another server holds it."""
        try:
            lock = FileLock.wait(self._lock_path(session_id), LOCK_SECONDS)
        except OSError as error:
            raise StoreError(f"session {session_id!r} cannot be locked: {error.strerror}") from error
        if lock is None:
            raise Conflict(f"session {session_id!r} is in use by another server on this home")
        return lock

    @contextmanager
    def lock_if_free(self, session_id: str) -> Iterator[bool]:
        """Hold the session's lock for the length of the block; whether it could be had. For who can do without."""
        try:
            lock = FileLock.try_take(self._lock_path(session_id), create=True)
        except OSError:
            lock = None  # it cannot be told, so it counts as held
        try:
            yield lock is not None
        finally:
            if lock is not None:
                lock.release(remove=True)

    def _lock_path(self, session_id: str) -> Path:
        return self._locks / f"{session_id}.lock"

    # -- state files

    def state_path(self, session_id: str) -> Path:
        """Where the session's state file is, or would be."""
        return self.files / f"{session_id}{SUFFIX}"

    def state_bytes(self, session_id: str) -> int | None:
        """The size of the state file; None when there is none."""
        try:
            return self.state_path(session_id).stat().st_size
        except OSError:
            return None

    def read_state(self, session_id: str) -> bytes | None:
        """The state file; None when there is none. StoreError when it cannot be read."""
        path = self.state_path(session_id)
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreError(f"the state file {path.name} cannot be read: {error.strerror}") from error

    def write_state(self, session_id: str, data: bytes | memoryview, *, set_aside: bool = False) -> None:
        """Replace the state file. StoreError leaves the old one.

        `set_aside` keeps the old one as `ID.damaged`: nobody could read it, and nobody's data is thrown away.
        """
        path = self.state_path(session_id)
        try:
            with _draft(path) as draft:
                _write(draft, data)
                if set_aside and path.exists():
                    os.replace(path, path.with_suffix(DAMAGED))
                os.replace(draft, path)
        except OSError as error:
            raise StoreError(f"the state file {path.name} cannot be written: {error.strerror}") from error

    def remove_state(self, session_id: str) -> None:
        """Delete the state file; the session is as one that never ran a cell."""
        self._unlink(self.state_path(session_id))
        self._note(session_id, None)

    # -- pastes

    def add_paste(self, session_id: str, label: str, text: str) -> Path:
        """Keep a text as the next `LABEL-N.md` of the session; its path."""
        self.find(session_id)
        if not ID.fullmatch(label):
            raise BadRequest("the label `input` has 1 to 64 letters, digits, `_` and `-`")
        folder = self.pastes / session_id
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            with _draft(folder / "paste") as draft:
                _write(draft, text.encode())
                number = 1
                while True:  # ends: each turn takes a number that is in use
                    path = folder / f"{label}-{number}.md"
                    try:
                        os.link(draft, path)  # fails where a file is, unlike a rename
                        return path
                    except FileExistsError:
                        number += 1
        except OSError as error:
            raise StoreError(f"the paste cannot be written: {error.strerror}") from error

    def _pastes_of(self, session_id: str) -> list[Path]:
        folder = self.pastes / session_id
        return sorted(folder.iterdir()) if folder.is_dir() else []

    @staticmethod
    def _unlink(path: Path) -> None:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(f"{path} cannot be removed: {error.strerror}") from error


@contextmanager
def _draft(path: Path) -> Iterator[Path]:
    """A name beside `path` to write under, which is gone after the block."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        yield draft
    finally:
        draft.unlink(missing_ok=True)


def _write(path: Path, data: bytes | memoryview) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
