"""The folder everything is kept in: its place, its creation, its version, and temporary homes."""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import secrets
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from bridge.errors import HomeDamaged, StoreError
from bridge.store import schema
from bridge.store.blobs import FolderBlobs, default_algorithm
from bridge.store.database import connect, translate
from bridge.store.locks import FileLock

_log = logging.getLogger(__name__)

_EPHEMERAL_PREFIX = "bridge-ephemeral-"
_OPENING_SECONDS = 30.0  # the bound on waiting for another process that opens or creates the same home
_HALF_MADE_SECONDS = 3600.0  # a temporary home without an owner file is left over when older than this


def default_path(environ: Mapping[str, str]) -> Path:
    """`$BRIDGE_HOME`, else `$ALBEDO_HOME`, else `bridge` under Jupyter's data directory."""
    for variable in ("BRIDGE_HOME", "ALBEDO_HOME"):
        if environ.get(variable):
            return Path(environ[variable]).expanduser()
    from jupyter_core.paths import jupyter_data_dir

    return Path(jupyter_data_dir()) / "bridge"


class Home:
    """An open home, a folder of mode 0700. `hash_seed` is the PYTHONHASHSEED of all its kernels."""

    def __init__(self, path: Path, meta: Mapping[str, str | int], owner: FileLock | None) -> None:
        self.path = path
        self.database_path = path / "states.sqlite"
        self.blobs_path = path / "blobs"
        self.logs_path = path / "logs"
        self.sessions_path = path / "sessions"
        self.pastes_path = path / "pastes"
        self.locks_path = path / "locks"
        self.version = int(meta["version"])
        self.hash_seed = int(meta["hash_seed"])
        self.algorithm = str(meta["algorithm"])
        self.ephemeral = owner is not None
        self.blobs = FolderBlobs(self.blobs_path, self.algorithm)
        self._owner = owner
        self._pid = os.getpid()
        if self.ephemeral:
            atexit.register(self.close)

    @classmethod
    def open(
        cls, path: Path | None = None, *, ephemeral: bool = False, environ: Mapping[str, str] = os.environ
    ) -> Home:
        """The home at `path`, created when missing (None: `default_path`).

        An ephemeral one is a new folder inside `path` (None: the system's temporary directory), removed by
        `close`, at the interpreter's exit, or by the next ephemeral start when its process was killed.
        HomeTooNew and HomeDamaged say which file; nothing is ever deleted or rewritten then.
        """
        owner = None
        try:
            if ephemeral:
                path, owner = _new_ephemeral(path or Path(tempfile.gettempdir()))
            path = (path or default_path(environ)).absolute()
            _make_folders(path)
        except OSError as error:
            raise StoreError(f"the home {path} cannot be made: {error.strerror}") from error
        return cls(path, _open_database(path, environ), owner)

    def size(self) -> int:
        """Bytes of all files in it."""
        return _size(self.path)

    def close(self) -> None:
        """Let go of the home; an ephemeral one is removed. Idempotent."""
        owner, self._owner = self._owner, None
        if owner is None or os.getpid() != self._pid:  # a forked child must not take its parent's home away
            return
        atexit.unregister(self.close)
        _remove_tree(self.path)
        owner.release()


def _size(folder: str | Path) -> int:
    total = 0
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:  # others may remove things
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                total += _size(entry.path)
            else:
                with contextlib.suppress(FileNotFoundError):
                    total += entry.stat(follow_symlinks=False).st_size
    return total


def _make_folders(path: Path) -> None:
    is_new = not path.exists() or not any(path.iterdir()) or (path / "states.sqlite").exists()
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    # A folder of somebody's own with other things in it keeps its mode.
    if is_new and path.stat().st_mode & 0o077:
        path.chmod(0o700)
    for name in ("blobs", "logs", "sessions", "pastes", "locks"):
        (path / name).mkdir(mode=0o700, exist_ok=True)


def _open_database(path: Path, environ: Mapping[str, str]) -> dict[str, str | int]:
    """What the database records about itself; created when there is none yet."""
    file = path / "states.sqlite"
    lock = FileLock.wait(path / "locks" / "opening", _OPENING_SECONDS)
    if lock is None:
        raise StoreError(f"another process has been opening {path} for {_OPENING_SECONDS:.0f} s")
    try:
        # SQLite gives its side files the mode of the main one.
        os.close(os.open(file, os.O_RDWR | os.O_CREAT, 0o600))
        connection = connect(file)
        try:
            if schema.is_empty(connection):
                if any((path / "blobs").iterdir()):
                    raise HomeDamaged(
                        f"{file} is empty or missing, but there is data beside it; nothing was changed"
                    )
                schema.create(connection, _new_meta(environ))
            found = schema.check(connection, str(file))
            schema.extend(connection)
            return found
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise translate(error, file) from error
    except OSError as error:
        raise StoreError(f"{file} cannot be opened: {error.strerror}") from error
    finally:
        lock.release()


def _new_meta(environ: Mapping[str, str]) -> dict[str, str | int]:
    wanted = environ.get("PYTHONHASHSEED", "")
    chosen = wanted.isdecimal() and int(wanted) < 2**32
    seed = int(wanted) if chosen else secrets.randbelow(2**32 - 1) + 1
    return {"hash_seed": seed, "algorithm": default_algorithm()}


def _new_ephemeral(place: Path) -> tuple[Path, FileLock]:
    """A new temporary home in `place`, and the lock that says its process lives."""
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    _remove_left_over(place)
    path = Path(tempfile.mkdtemp(prefix=_EPHEMERAL_PREFIX, dir=place))
    return path, FileLock.create(path / "owner.lock")


def _remove_left_over(place: Path) -> None:
    """Remove temporary homes whose process is gone; those of others and of the living stay."""
    for path in place.glob(f"{_EPHEMERAL_PREFIX}*"):
        try:
            details = path.lstat()
            if (
                (hasattr(os, "getuid") and details.st_uid != os.getuid())
                or not path.is_dir()
                or path.is_symlink()
            ):
                continue
            if (path / "owner.lock").exists():
                lock = FileLock.try_take(path / "owner.lock")
                if lock is not None:
                    _remove_tree(path)
                    lock.release()
            elif time.time() - details.st_mtime > _HALF_MADE_SECONDS:
                _remove_tree(path)
        except OSError as error:  # another start may be removing the same one: nothing here depends on it
            _log.info("left-over temporary home %s was not removed: %s", path, error)


def _remove_tree(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)
    if path.exists():
        _log.warning("temporary home %s could not be removed whole", path)
