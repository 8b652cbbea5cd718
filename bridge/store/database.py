"""The connections to a home's SQLite file, its transactions, and the translation of SQLite's errors."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bridge.errors import HomeDamaged, StoreError

BUSY_SECONDS = 30.0  # how long a write waits for other threads and processes
_CHUNK = 500  # parameters of one statement; older SQLite builds take 999


def translate(error: sqlite3.Error, path: Path) -> StoreError:
    """Our error for one of SQLite's, naming the file."""
    # SQLite's "malformed" and "not a database" are raised as DatabaseError itself, all others as subclasses.
    if type(error) is sqlite3.DatabaseError:
        return HomeDamaged(
            f"{path} is damaged ({error}); nothing was deleted, put a copy of it in its place or move it away"
        )
    text = str(error)
    if "full" in text:
        return StoreError(f"no room left on the disk for {path}: nothing was stored")
    if "locked" in text or "busy" in text:
        return StoreError(f"{path} is kept busy by another process: no turn within {BUSY_SECONDS:.0f} s")
    return StoreError(f"{path} cannot be used: {text}")


def connect(path: Path) -> sqlite3.Connection:
    """An open connection in manual transaction mode, usable from any thread (one at a time)."""
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA synchronous = NORMAL")
    # The log is cut when it is begun anew, so that its length says how much is still to be written back.
    connection.execute("PRAGMA journal_size_limit = 0")
    # Checkpoints sync the disk; the store's own thread does them, this is only the bound if it cannot.
    connection.execute("PRAGMA wal_autocheckpoint = 20000")
    return connection


def select_in(
    connection: sqlite3.Connection, statement: str, values: Sequence[Any]
) -> Iterator[tuple[Any, ...]]:
    """The rows of `statement`, whose `{}` stands for the list of values, however many these are."""
    for start in range(0, len(values), _CHUNK):
        part = values[start : start + _CHUNK]
        yield from connection.execute(statement.format(",".join("?" * len(part))), part)


class Transaction:
    """One write transaction. What it read and wrote becomes known to caches only after the commit."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.execute = connection.execute
        self.executemany = connection.executemany
        self._after: list[Callable[[], None]] = []

    def after_commit(self, action: Callable[[], None]) -> None:
        """Run `action` once the transaction is durable and before any other of this process begins."""
        self._after.append(action)

    def committed(self) -> None:
        """Run what was promised; called by the database."""
        for action in self._after:
            action()


class Database:
    """One writing and one reading connection, each behind a lock, so that reads never wait for a writer."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._write_lock = threading.Lock()
        self._read_lock = threading.Lock()
        self._closed = False
        try:
            self._writer = connect(path)
            self._reader = connect(path)
        except sqlite3.Error as error:
            raise translate(error, path) from error

    @contextmanager
    def write(self) -> Iterator[Transaction]:
        """A transaction that commits at the end of the block and is undone by any exception."""
        if not self._write_lock.acquire(timeout=BUSY_SECONDS):
            raise StoreError(
                f"{self.path} is kept busy by another thread: no turn within {BUSY_SECONDS:.0f} s"
            )
        try:
            self._check_open()
            transaction = Transaction(self._writer)
            try:
                self._writer.execute("BEGIN IMMEDIATE")
                yield transaction
                self._writer.execute("COMMIT")
            except BaseException:
                self._undo(self._writer)
                raise
            transaction.committed()
        except sqlite3.Error as error:
            raise translate(error, self.path) from error
        finally:
            self._write_lock.release()

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """A connection on which all statements of the block see one moment of the database."""
        with self._read_lock:
            self._check_open()
            with self._reading(self._reader) as connection:
                yield connection

    @contextmanager
    def long_read(self) -> Iterator[sqlite3.Connection]:
        """As `read`, on a connection of its own: for work that would keep others waiting."""
        try:
            connection = connect(self.path)
        except sqlite3.Error as error:
            raise translate(error, self.path) from error
        try:
            with self._reading(connection):
                yield connection
        finally:
            connection.close()

    def pragma(self, statement: str) -> None:
        """Run a PRAGMA that writes, outside any transaction."""
        with self._write_lock:
            self._check_open()
            try:
                self._writer.execute(statement).fetchall()
            except sqlite3.Error as error:
                raise translate(error, self.path) from error

    def checkpoint(self) -> None:
        """Write the log back into the database as far as is possible without holding anybody up."""
        try:
            connection = connect(self.path)
            try:
                connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            finally:
                connection.close()
        except sqlite3.Error as error:
            raise translate(error, self.path) from error

    def close(self) -> None:
        """Close both connections once the statements that run now have ended. Idempotent."""
        with self._write_lock, self._read_lock:
            if not self._closed:
                self._closed = True
                self._reader.close()
                self._writer.close()

    @contextmanager
    def _reading(self, connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
        try:
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                self._undo(connection)
        except sqlite3.Error as error:
            raise translate(error, self.path) from error

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError(f"the store of {self.path} is closed")

    @staticmethod
    def _undo(connection: sqlite3.Connection) -> None:
        if connection.in_transaction:  # a full disk makes SQLite undo it by itself
            connection.execute("ROLLBACK")
