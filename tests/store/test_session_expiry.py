"""Which files of sessions are removed, as a table; and sweeps of real homes."""

from __future__ import annotations

import os
import resource
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridge import Kernel, Settings
from bridge.engine.expiry import Expiry
from bridge.errors import BadRequest, Conflict, SessionNotFound, StoreError
from bridge.store import session_expiry
from bridge.store.home import Home
from bridge.store.session_expiry import DAY, Activity, File, Kind, due
from bridge.store.sessions import SessionStore
from bridge.store.store import Store
from tests.concurrency import until
from tests.support import ROOT

NOW, RETENTION = 1_000_000_000.0, 14 * DAY
LONG_AGO, LATELY = NOW - RETENTION - 1, NOW - RETENTION + 1
YESTERDAY, TODAY = NOW - DAY - 1, NOW - DAY + 1


@pytest.mark.parametrize(
    ("kind", "modified", "session", "expected"),
    [
        (Kind.STATE, LONG_AGO, Activity(LONG_AGO, False), True),
        (Kind.STATE, NOW, Activity(LONG_AGO, False), True),  # the reply counts, not the file's time
        (Kind.STATE, LONG_AGO, Activity(LATELY, False), False),
        (Kind.STATE, LONG_AGO, Activity(None, False), False),  # no reply yet: never
        (Kind.STATE, LONG_AGO, Activity(LONG_AGO, True), False),  # live, or not to be told
        (Kind.STATE, YESTERDAY, None, True),  # an orphan
        (Kind.STATE, TODAY, None, False),
        (Kind.DRAFT, YESTERDAY, Activity(NOW, False), True),
        (Kind.DRAFT, YESTERDAY, Activity(NOW, True), False),
        (Kind.DRAFT, TODAY, Activity(NOW, False), False),
        (Kind.DRAFT, YESTERDAY, None, True),
        (Kind.PASTE, LONG_AGO, Activity(NOW, True), True),  # whatever its session does
        (Kind.PASTE, LATELY, Activity(LONG_AGO, False), False),
        (Kind.PASTE, LONG_AGO, None, True),
        (Kind.PASTE, LATELY, None, False),
    ],
)
def test_the_policy(kind: Kind, modified: float, session: Activity | None, expected: bool) -> None:
    file = File(Path("f"), "s", kind, modified, 1)
    sessions = {} if session is None else {"s": session}
    assert list(due(sessions, [file], NOW, RETENTION)) == [file] * expected


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home.open(tmp_path / "home")


@pytest.fixture
def store(home: Home) -> Iterator[SessionStore]:
    made = SessionStore(home)
    yield made
    made.close()


def age(path: Path, seconds: float) -> None:
    os.utime(path, (time.time() - seconds,) * 2)


def sweep_in_process(home: Home, retention: float = 60) -> str:
    done = subprocess.run(
        [sys.executable, "-m", session_expiry.__name__, str(home.path), str(retention)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stderr == ""
    return done.stdout


def test_a_sweep_of_a_home(home: Home, store: SessionStore) -> None:
    long_ago = time.time() - 1000
    for name in ("old", "fresh", "held", "silent"):
        store.create(name, None)
        store.write_state(name, b"12345")
        age(store.state_path(name), 10 * DAY)
    for name in ("old", "held"):
        store._note(name, long_ago)
    store.note_reply("fresh")
    orphan, young = store.files / "gone.state", store.files / "young.state"
    for path in (orphan, young):
        path.write_bytes(b"abc")
    age(orphan, 2 * DAY)
    old_paste = store.add_paste("fresh", "paste", "text")
    new_paste = store.add_paste("fresh", "paste", "text")
    age(old_paste, 100)
    lock = store.lock("held")
    try:
        assert sweep_in_process(home) == "python state expiry: reclaimed 3 files (12 bytes)\n"
    finally:
        lock.release()
    left = {path.name for path in store.files.iterdir()}
    assert left == {"fresh.state", "held.state", "silent.state", "young.state"}
    assert (old_paste.exists(), new_paste.exists()) == (False, True)
    assert sweep_in_process(home) == "python state expiry: reclaimed 1 files (5 bytes)\n"  # held no longer
    assert sweep_in_process(home) == ""
    assert [record.id for record in store.all()] == ["old", "fresh", "held", "silent"]


def test_a_reply_that_comes_during_the_sweep_saves_the_file(store: SessionStore) -> None:
    store.create("s", None)
    store.write_state("s", b"x")
    store._note("s", 1.0)
    found = list(due({"s": Activity(1.0, False)}, session_expiry.list_files(store), time.time(), 60))
    assert len(found) == 1
    store.note_reply("s")
    assert session_expiry.remove(store, found, time.time(), 60) == (0, 0)
    assert store.read_state("s") == b"x"


@pytest.fixture
def overdue(store: SessionStore) -> Path:
    """The state file of a session that is due."""
    store.create("s", None)
    store.write_state("s", b"12345")
    store._note("s", 1.0)
    return store.state_path("s")


def test_a_session_of_which_nothing_can_be_told_is_protected(
    home: Home, store: SessionStore, overdue: Path
) -> None:
    lock = home.locks_path / "sessions" / "s.lock"
    lock.mkdir()  # it cannot be opened, whoever asks
    store.create("other", None)
    store.write_state("other", b"123")
    store._note("other", 1.0)
    assert sweep_in_process(home) == "python state expiry: reclaimed 1 files (3 bytes)\n"
    assert overdue.exists()
    lock.rmdir()
    assert sweep_in_process(home) == "python state expiry: reclaimed 1 files (5 bytes)\n"


def test_a_store_that_fails_during_the_sweep_protects_what_is_left(
    store: SessionStore, overdue: Path
) -> None:
    found = session_expiry.list_files(store)
    with store._database.write() as transaction:
        transaction.execute("ALTER TABLE sessions RENAME TO elsewhere", ())
    with pytest.raises(StoreError):
        session_expiry.remove(store, found, time.time(), 60)
    assert overdue.exists()


@pytest.mark.soak
def test_a_store_that_does_not_answer_in_time_protects_everything(
    home: Home, store: SessionStore, overdue: Path
) -> None:
    """The sweep waits for the database as long as anybody would, half a minute."""
    store.close()
    holder = sqlite3.connect(home.database_path, isolation_level=None)
    try:
        holder.execute("PRAGMA locking_mode = EXCLUSIVE")
        holder.execute("UPDATE sessions SET replied = 2.0")
        assert sweep_in_process(home) == ""
    finally:
        holder.close()
    assert overdue.exists()
    assert sweep_in_process(home) == "python state expiry: reclaimed 1 files (5 bytes)\n"


def test_a_home_that_fails_ends_the_sweep_quietly(tmp_path: Path) -> None:
    home = Home.open(tmp_path / "home")
    home.database_path.write_bytes(b"no database" * 1000)
    assert sweep_in_process(home) == ""


def test_the_engine_sweeps_and_logs_one_line(
    home: Home, store: SessionStore, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "bridge")
    store.create("old", None)
    store.write_state("old", b"12345")
    store._note("old", 1.0)
    states = Store(home)
    expiry = Expiry(states, 60, first=0.0)
    try:
        until(lambda: "reclaimed" in caplog.text, "the sweep's line")
    finally:
        expiry.close()
        states.close()
    assert [r.message for r in caplog.records if "reclaimed" in r.message] == [
        "python state expiry: reclaimed 1 files (5 bytes)"
    ]
    assert store.read_state("old") is None


def test_state_files_are_private_and_replaced_whole(store: SessionStore) -> None:
    store.create("s", None)
    store.write_state("s", b"first")
    path = store.state_path("s")
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    store.write_state("s", b"second", set_aside=True)
    assert (path.read_bytes(), path.with_suffix(".damaged").read_bytes()) == (b"second", b"first")
    assert len(list(store.files.iterdir())) == 2
    store.forget("s")
    assert list(store.files.iterdir()) == []
    with pytest.raises(SessionNotFound):
        store.find("s")


def test_an_unreadable_file_is_named(store: SessionStore) -> None:
    store.create("s", None)
    store.state_path("s").mkdir()
    with pytest.raises(StoreError, match=r"s\.state cannot be read"):
        store.read_state("s")


def test_a_write_that_fails_midway_leaves_the_old_file(store: SessionStore) -> None:
    store.write_state("s", b"old")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(StoreError, match=r"s\.state cannot be written"):
            store.write_state("s", bytes(2000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert store.read_state("s") == b"old"
    assert [path.name for path in store.files.iterdir()] == ["s.state"]


def test_pastes_are_numbered_and_labelled(store: SessionStore) -> None:
    store.create("s", None)
    paths = [
        store.add_paste("s", "paste", "ä"),
        store.add_paste("s", "paste", "b"),
        store.add_paste("s", "cell", "c"),
    ]
    assert [path.name for path in paths] == ["paste-1.md", "paste-2.md", "cell-1.md"]
    assert paths[0].read_text(encoding="utf-8") == "ä"
    assert paths[0].stat().st_mode & 0o777 == 0o600
    with pytest.raises(BadRequest):
        store.add_paste("s", "../up", "x")
    with pytest.raises(SessionNotFound):
        store.add_paste("t", "paste", "x")


def test_a_session_has_one_owner(home: Home, store: SessionStore) -> None:
    other = SessionStore(home)
    try:
        lock = store.lock("s")
        with pytest.raises(Conflict, match="another server"):
            other.lock("s")
        lock.release(remove=True)
        other.lock("s").release()
    finally:
        other.close()


def test_a_start_removes_old_orphans_alone(home: Home, store: SessionStore) -> None:
    store.create("known", None)
    for name in ("known", "gone", "young"):
        store.state_path(name).write_bytes(b"abc")
    for name in ("known", "gone"):
        age(store.state_path(name), 30 * DAY)
    kernel = Kernel(Settings(home=home.path, pool_size=1))
    try:
        assert {path.name for path in store.files.iterdir()} == {"known.state", "young.state"}
    finally:
        kernel.close()
