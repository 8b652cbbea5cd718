"""Files whose lock says that a process is alive: the lock goes with the process, however that ends."""

from __future__ import annotations

import fcntl
import os
import secrets
import time
from pathlib import Path


def _try_lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_at(path: Path, fd: int) -> bool:
    """Whether the open file is still the one of that name: its last holder may have removed it."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(fd))
    except FileNotFoundError:
        return False


class FileLock:
    """One held lock on a file of its own. Descriptors are not inherited by programs the process starts."""

    def __init__(self, path: Path, fd: int) -> None:
        self.path = path
        self._fd: int | None = fd

    @classmethod
    def create(cls, path: Path) -> FileLock:
        """A new lock file under `path`, which appears there already locked. OSError when that fails."""
        draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        fd = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        _try_lock(fd)
        os.replace(draft, path)
        return cls(path, fd)

    @classmethod
    def try_take(cls, path: Path, *, create: bool = False) -> FileLock | None:
        """The lock of `path` if nobody holds it; None when somebody does or the file is not there."""
        try:
            fd = os.open(path, os.O_RDWR | (os.O_CREAT if create else 0), 0o600)
        except FileNotFoundError:
            return None
        if _try_lock(fd) and _is_at(path, fd):
            return cls(path, fd)
        os.close(fd)
        return None

    @classmethod
    def wait(cls, path: Path, timeout: float) -> FileLock | None:
        """The lock of `path` (made when missing) once it is free; None after `timeout` seconds."""
        end = time.monotonic() + timeout
        while True:
            lock = cls.try_take(path, create=True)
            if lock is not None or time.monotonic() >= end:
                return lock
            time.sleep(0.01)  # flock has no timeout of its own; the loop ends by `timeout`

    def release(self, *, remove: bool = False) -> None:
        """Let go, and with `remove` take the file away first, while nobody else can hold it. Idempotent."""
        if self._fd is None:
            return
        if remove:
            self.path.unlink(missing_ok=True)
        os.close(self._fd)
        self._fd = None


class Owner:
    """The presence of one open store in a home: a lock file named after it, held until `close`.

    Rows in the store that say "in use by X" count only while X's file is locked.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.id = f"{os.getpid()}-{secrets.token_hex(6)}"
        self._lock = FileLock.create(folder / f"{self.id}.lock")

    def is_alive(self, owner: str) -> bool:
        """Whether the store called `owner` is still open, in this process or another."""
        if owner == self.id:
            return True
        path = self._folder / f"{owner}.lock"
        lock = FileLock.try_take(path)
        if lock is None:
            return path.exists()
        lock.release(remove=True)
        return False

    def others(self) -> list[str]:
        """The ids of all other stores that have this home open; files of dead ones are removed on the way."""
        names = [entry.name for entry in os.scandir(self._folder)]
        owners = [
            name[: -len(".lock")] for name in names if name.endswith(".lock") and not name.startswith(".")
        ]
        return [owner for owner in owners if owner != self.id and self.is_alive(owner)]

    def close(self) -> None:
        """Leave the home."""
        self._lock.release(remove=True)
