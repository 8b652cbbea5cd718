"""Which files of sessions have had their time, and the process that removes them.

`python -m bridge.store.session_expiry HOME RETENTION` is one sweep of one home: never in a request, nor in the server's
process. It prints one line when it removed something; a file system or a store that fails ends it without a word.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from bridge.errors import BridgeError
from bridge.store.home import Home
from bridge.store.sessions import DAMAGED, SUFFIX, SessionStore

DAY = 24 * 3600.0
"""Seconds that a file is kept which belongs to no session, or was never finished."""


class Kind(Enum):
    """What a file is: a state file (one set aside because nobody could read it, too), a draft of one, a paste."""

    STATE = "state"
    DRAFT = "draft"
    PASTE = "paste"


@dataclass(frozen=True, slots=True)
class File:
    """One file of a session, known to the store or not. `modified` in seconds since the epoch, `size` in bytes."""

    path: Path
    session: str
    kind: Kind
    modified: float
    size: int


@dataclass(frozen=True, slots=True)
class Activity:
    """What is known of a session: its last reply, if any; `busy` when it is live or that cannot be told."""

    replied: float | None
    busy: bool


def due(
    sessions: Mapping[str, Activity], files: Iterable[File], now: float, retention: float
) -> Iterator[File]:
    """The files to delete: of sessions without a reply for `retention` seconds, old pastes, old orphans."""
    for file in files:
        session = sessions.get(file.session)
        age = now - file.modified
        if file.kind is Kind.PASTE:
            is_due = age > retention
        elif session is None:
            is_due = age > DAY
        elif session.busy:
            is_due = False
        elif file.kind is Kind.DRAFT:
            is_due = age > DAY
        else:
            is_due = session.replied is not None and now - session.replied > retention
        if is_due:
            yield file


def orphans(sessions: Iterable[str], files: Iterable[File], now: float) -> Iterator[File]:
    """The old files of no session that the store knows."""
    known = set(sessions)
    strays = [file for file in files if file.session not in known and file.kind is not Kind.PASTE]
    return due({}, strays, now, DAY)


def list_files(store: SessionStore) -> list[File]:
    """All files of a home's sessions. OSError when they cannot be listed."""
    return [*_state_files(store.files), *_pastes(store.pastes)]


def _state_files(folder: Path) -> Iterator[File]:
    for path in folder.iterdir():
        if path.name.startswith("."):  # `.ID.state.1234abcd`
            yield from _file(path, path.name[1:].partition(".")[0], Kind.DRAFT)
        elif path.suffix in (SUFFIX, DAMAGED):
            yield from _file(path, path.stem, Kind.STATE)


def _pastes(folder: Path) -> Iterator[File]:
    for session in folder.iterdir():
        for path in session.iterdir() if session.is_dir() else ():
            yield from _file(path, session.name, Kind.PASTE)


def _file(path: Path, session: str, kind: Kind) -> Iterator[File]:
    with contextlib.suppress(FileNotFoundError):  # renamed or deleted meanwhile
        details = path.lstat()
        yield File(path, session, kind, details.st_mtime, details.st_size)


def remove(store: SessionStore, files: Iterable[File], now: float, retention: float) -> tuple[int, int]:
    """Delete those of these files that are still due once their session is ours: how many, and their bytes."""
    count = size = 0
    for file in files:
        with store.lock_if_free(file.session) as is_free:
            if file.kind is Kind.PASTE or (is_free and _is_still_due(store, file, now, retention)):
                file.path.unlink(missing_ok=True)
                count, size = count + 1, size + file.size
    return count, size


def _is_still_due(store: SessionStore, file: File, now: float, retention: float) -> bool:
    """Whether nothing has become of the session since it was listed; a reply moves its time."""
    known = {record.id: Activity(record.replied, False) for record in store.all()}
    return any(due(known, [file], now, retention))


def sweep(store: SessionStore, retention: float, now: float) -> tuple[int, int]:
    """Delete what is due: how many files, and their bytes. OSError, StoreError."""
    idle = {record.id: Activity(record.replied, False) for record in store.all()}
    return remove(store, list(due(idle, list_files(store), now, retention)), now, retention)


def look(store: SessionStore, retention: float, now: float) -> tuple[int, int]:
    """What `sweep` would delete: how many files, and their bytes. OSError, StoreError."""
    known = {record.id: Activity(record.replied, False) for record in store.all()}
    found = list(due(known, list_files(store), now, retention))
    return len(found), sum(file.size for file in found)


def remove_orphans(store: SessionStore, now: float) -> tuple[int, int]:
    """Delete the old files of no session: how many, and their bytes. OSError, StoreError."""
    known = [record.id for record in store.all()]
    return remove(store, list(orphans(known, list_files(store), now)), now, DAY)


def report(count: int, size: int) -> str:
    """The log line of a sweep that deleted something."""
    return f"python state expiry: reclaimed {count} files ({size} bytes)"


def main(argv: Sequence[str]) -> int:
    """One sweep of the home `argv[0]` with a retention of `argv[1]` seconds."""
    try:
        store = SessionStore(Home.open(Path(argv[0])))
        try:
            count, size = sweep(store, float(argv[1]), time.time())
        finally:
            store.close()
    except (OSError, BridgeError):
        return os.EX_IOERR  # the server's log is not for it: the next sweep comes
    if count:
        print(report(count, size))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
