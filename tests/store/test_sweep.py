"""What is freed, and what never is."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bridge.errors import StateNotFound, StoreError
from bridge.store import housekeeping, sweep
from bridge.store.contents import read_epoch
from bridge.store.housekeeping import Housekeeper
from bridge.store.store import Store
from tests.store.support import opened, put, unit, worker

TABLES = ("states", "units", "pieces", "inputs", "pins", "orphans", "doomed")


def counts(store: Store, *tables: str) -> list[int]:
    """How many rows the tables have, asked from outside."""
    connection = sqlite3.connect(store.home.database_path)
    try:
        return [
            connection.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0] for table in tables or TABLES
        ]
    finally:
        connection.close()


def blob(store: Store, content: bytes, age: float = 1000) -> str:
    """The address of a blob that was written so many seconds ago."""
    address = store.blobs.put(content)
    moment = time.time() - age
    os.utime(store.blobs.path(address), (moment, moment))
    return address


def test_the_last_state_takes_everything_with_it(store: Store) -> None:
    cells = store.add_input(store.add_input(None, "one"), "two")
    parent = None
    for name in ("a", "b", "c"):
        address = blob(store, name.encode() * 100)
        parent = put(
            store,
            "w",
            name,
            unit("x", None, (address,)),
            unit("y", b"12"),
            parent=parent,
            inputs=cells,
            info={"i": "i" * 999},
        ).id
    store.clear("w")
    assert store.collect(grace=0).bytes == 3 * 100 + 2
    assert counts(store) == [0] * len(TABLES)
    assert list(store.blobs.list()) == []


def test_what_another_state_needs_stays(path: Path) -> None:
    with opened(path) as store:
        shared, own = blob(store, b"shared"), blob(store, b"own")
        cell = store.add_input(None, "shared")
        old, new = store.add_input(cell, "old"), store.add_input(cell, "new")
        put(
            store,
            "w",
            "old",
            unit("x", None, (shared, own)),
            unit("y"),
            code="old",
            inputs=old,
            info={"i": "i" * 999},
        )
        put(store, "w", "new", unit("x", None, (shared,)), unit("y"), inputs=new, info={"i": "i" * 999})
        store.delete("w", "old")
        assert store.collect(grace=0).bytes == len(b"own")
        assert counts(store, "states", "units", "inputs") == [1, 2, 2]
    with opened(path) as store:
        state = store.find("w", "new")
        assert state is not None
        assert [*state.manifest.units.values()] == [unit("x", None, (shared,)), unit("y")]
        assert state.info == {"i": "i" * 999}
        assert store.inputs(state.inputs) == ["shared", "new"]
        assert set(store.blobs.list()) == {shared}


def test_replacing_frees_the_old_state(store: Store) -> None:
    put(store, "w", "s", unit("x", b"old" * 100))
    put(store, "w", "s", unit("x", b"new"))
    assert store.collect(grace=0).bytes == 300
    assert counts(store, "states", "units") == [1, 1]


def test_young_files_wait_for_their_time(store: Store) -> None:
    old, young = blob(store, b"old"), blob(store, b"young", age=0)
    put(store, "w", "s", unit("x", None, (old, young)))
    store.delete("w", "s")
    assert store.collect().bytes == len(b"old")
    assert list(store.blobs.list()) == [young]
    assert counts(store, "units", "doomed") == [0, 1]
    os.utime(store.blobs.path(young), (0, 0))
    assert store.collect().bytes == len(b"young")
    assert counts(store, "doomed") == [0]


def test_a_file_that_waits_is_kept_when_a_new_state_needs_it(store: Store) -> None:
    address = blob(store, b"again", age=0)
    put(store, "w", "s", unit("x", None, (address,)))
    store.delete("w", "s")
    store.collect()
    put(store, "w", "t", unit("other", None, (address,)))
    os.utime(store.blobs.path(address), (0, 0))
    store.collect(grace=0)
    assert store.blobs.get(address) == b"again"


def test_a_pinned_state_stays_whole(store: Store) -> None:
    address = blob(store, b"blob")
    state = put(store, "w", "s", unit("x", None, (address,)), unit("y"))
    with store.pin(state):
        with store.pin(state):
            store.delete("w", "s")
        store.collect(grace=0)
        assert store.state(state.id) is state
        assert store.blobs.get(address) == b"blob"
        put(store, "w", "child", *state.manifest.units.values(), parent=state.id)
        store.delete("w", "child")
    store.collect(grace=0)
    assert store.state(state.id) is None
    assert not store.blobs.has(address)
    assert counts(store) == [0] * len(TABLES)


def test_what_was_freed_cannot_be_pinned(store: Store) -> None:
    state = put(store, "w", "s")
    store.delete("w", "s")
    store.collect(grace=0)
    with pytest.raises(StateNotFound), store.pin(state):
        pass
    assert counts(store, "pins") == [0]


def test_another_processs_pin_holds_as_long_as_it_lives(store: Store) -> None:
    address = blob(store, b"blob")
    state = put(store, "w", "s", unit("x", None, (address,)))
    with worker("pin", store.home.path, "s") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "pinned\n"
        store.delete("w", "s")
        store.collect(grace=0)
        assert store.state(state.id) is not None
        assert store.blobs.has(address)
        process.kill()
        process.wait(30)
    store.collect(grace=0)
    assert store.state(state.id) is None
    assert not store.blobs.has(address)
    assert counts(store, "pins") == [0]
    assert [file.name for file in store.home.locks_path.glob("*.lock")] == [f"{store._owner.id}.lock"]


def test_with_another_process_in_the_home_young_files_are_always_spared(store: Store) -> None:
    address = blob(store, b"young", age=0)
    put(store, "w", "s", unit("x", None, (address,)))
    with worker("open_workspace", store.home.path, "-") as process:
        assert process.stdout is not None
        process.stdout.readline()
        store.delete("w", "s")
        store.collect(grace=0, strays=0)
        assert store.blobs.has(address)
    store.collect(grace=0)
    assert not store.blobs.has(address)


def test_what_another_store_freed_is_stored_anew(path: Path) -> None:
    """The first store remembers rows that are no longer there."""
    with opened(path) as first, opened(path) as second:
        units = [unit(f"k{index}") for index in range(200)]
        state = put(first, "w", "s", *units, code="the same", info={"i": "i" * 999})
        second.delete("w", "s")
        second.collect()
        assert counts(first, "units", "pieces") == [0, 0]
        put(first, "w", "t", *units, code="the same", info={"i": "i" * 999}, parent=state.id)
    with opened(path) as store:
        found = store.find("w", "t")
        assert found is not None
        assert [*found.manifest.units.values()] == units
        assert (found.code, found.info) == ("the same", {"i": "i" * 999})


def test_what_this_store_freed_is_stored_anew(path: Path) -> None:
    with opened(path) as store:
        units = [unit(f"k{index}") for index in range(200)]
        for name in ("s", "t"):
            state = put(store, "w", name, *units, code="the same")
            store.delete("w", name)
            store.collect()
        put(store, "w", "u", *units, code="the same", parent=state.id)
    with opened(path) as store:
        found = store.find("w", "u")
        assert found is not None
        assert [*found.manifest.units.values()] == units


def test_rows_freed_a_moment_ago_are_not_taken_from_their_state(path: Path) -> None:
    """Right after a sweep the freed state itself may still be remembered, as the parent of the next."""
    with opened(path) as store:
        units = [unit(f"k{index}") for index in range(200)]
        state = put(store, "w", "s", *units)
        store.delete("w", "s")
        store._sweeper.collect(0, None)
        put(store, "w", "t", *units, parent=state.id)
        assert counts(store, "units") == [200]


def test_rows_read_before_another_store_freed_them_are_not_remembered(path: Path) -> None:
    """A read that began before the freeing ends after this store has heard of it."""
    with opened(path) as writer:
        put(writer, "w", "s", unit("x"))
    with opened(path) as store, opened(path) as other:
        with store._database.long_read() as connection:
            epoch = read_epoch(connection)
            rows = [row for (row,) in connection.execute("SELECT id FROM units")]
            other.delete("w", "s")
            other._sweeper.collect(0, None)
            put(store, "w", "hears of it")
            units = store._contents.load_units(connection, rows, epoch)
        put(store, "w", "t", *units.values())
        assert counts(store, "units") == [1]


def test_what_is_stored_or_pinned_during_a_sweep_is_spared(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A state, a pin and a cell come between the look at the garbage and its removal."""
    with opened(path) as store:
        address = blob(store, b"blob")
        units = [unit("x", None, (address,)), *(unit(f"k{index}") for index in range(100))]
        cells = store.add_input(store.add_input(None, "one"), "two")
        put(store, "w", "gone", *units, code="the same", inputs=cells)
        pinned = put(store, "w", "pinned", unit("p"), code="pinned")
        store.clear("w", keep=())
        find: Callable[..., sweep.Garbage] = sweep._find_garbage
        cell: list[int] = []

        def find_and_be_late(*arguments: object) -> sweep.Garbage:
            garbage = find(*arguments)
            assert len(garbage.marks.units) == 102
            put(store, "w", "late", *units, code="the same", inputs=cells)
            cell.append(store.add_input(cells, "three"))
            pin.__enter__()
            return garbage

        pin = store.pin(pinned)
        monkeypatch.setattr(sweep, "_find_garbage", find_and_be_late)
        store.collect(grace=0)
        monkeypatch.undo()
        assert store.inputs(cell[0]) == ["one", "two", "three"]
        assert store.state(pinned.id) is not None
        pin.__exit__(None, None, None)
        assert counts(store, "states", "units") == [2, 102]
    with opened(path) as store:
        late = store.find("w", "late")
        assert late is not None
        assert [*late.manifest.units.values()] == units
        assert (late.code, store.inputs(late.inputs)) == ("the same", ["one", "two"])
        assert store.blobs.get(address) == b"blob"


def test_strays_go_when_asked_for(store: Store) -> None:
    needed, stray, young = (
        blob(store, b"needed"),
        blob(store, b"stray", age=5000),
        blob(store, b"young", age=0),
    )
    put(store, "w", "s", unit("x", None, (needed,)))
    os.utime(store.blobs.path(needed), (0, 0))
    store.collect()
    assert set(store.blobs.list()) == {needed, stray, young}
    assert store.collect(strays=3600).bytes == len(b"stray")
    assert set(store.blobs.list()) == {needed, young}
    store.collect(grace=0, strays=0)
    assert set(store.blobs.list()) == {needed}


def test_a_stray_that_a_state_needs_at_the_last_moment_stays(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = blob(store, b"stray", age=5000)
    tidy = store.blobs.tidy

    def tidy_and_be_late(older_than: float, now: float) -> int:
        put(store, "w", "s", unit("x", None, (address,)))
        return tidy(older_than, now)

    monkeypatch.setattr(store.blobs, "tidy", tidy_and_be_late)  # comes after the look at the files
    assert store.collect(strays=3600).bytes == 0
    assert store.blobs.get(address) == b"stray"


def test_cells_that_no_state_came_to_need_go_in_time(store: Store) -> None:
    store.add_input(None, "unused")
    put(store, "w", "s")
    store.delete("w", "s")
    store.collect()
    assert counts(store, "inputs") == [1]
    put(store, "w", "s")
    store.delete("w", "s")
    store.collect(grace=0)
    assert counts(store, "inputs") == [0]


def test_the_database_shrinks(store: Store) -> None:
    for number in range(50):
        put(store, "w", f"s{number}", unit("x", os.urandom(100_000)))
    store.collect()
    before = store.home.database_path.stat().st_size
    store.clear("w")
    store.collect(grace=0)
    assert before > 5_000_000
    assert store.home.database_path.stat().st_size < 500_000


def test_a_missing_blob_keeps_its_unit_from_being_stored_again(store: Store) -> None:
    """A unit whose blob was freed is not taken for stored, though this process has stored it before."""
    address = blob(store, b"blob")
    units = [unit("x", None, (address,))]
    put(store, "w", "s", *units)
    store.delete("w", "s")
    store.collect(grace=0)
    with pytest.raises(StoreError, match="not in the home"):
        put(store, "w", "t", *units)


@pytest.mark.parametrize("reopened", [False, True])
def test_it_happens_by_itself_after_a_deletion(path: Path, reopened: bool) -> None:
    with opened(path) as store:
        address = blob(store, b"blob")
        put(store, "w", "s", unit("x", None, (address,)))
        if reopened:
            store._housekeeper.close()
        store.delete("w", "s")
        if not reopened:
            assert until(lambda: not store.blobs.has(address))
    with opened(path) as store:
        assert until(lambda: not store.blobs.has(address))


def until(condition: Callable[[], bool]) -> bool:
    """Whether the condition comes true within half a minute."""
    end = time.monotonic() + 30
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def test_housekeeping_goes_on_after_an_error(caplog: pytest.LogCaptureFixture) -> None:
    outcomes: list[Exception | bool] = [StoreError("no room"), False]
    done: list[bool] = []

    def run(with_strays: bool) -> bool:
        outcome = outcomes.pop(0)
        done.append(with_strays)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    keeper = Housekeeper(run, lambda: None)
    keeper.start()
    keeper.garbage()
    assert until(lambda: len(done) == 1)
    keeper.garbage()
    assert until(lambda: len(done) == 2)
    keeper.close()
    keeper.close()
    assert done == [False, False]
    assert "no room" in caplog.text


def test_a_state_that_its_line_goes_on_from_is_pinned_for_a_moment(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(housekeeping, "SETTLE_SECONDS", 3600.0)
    with opened(path) as store, opened(path) as other:
        state = put(store, "w", "s", goes_on=True)
        assert counts(other, "pins") == [1]
        with store.pin(state):
            put(store, "w", "t", parent=state.id, goes_on=True)
            assert counts(other, "pins") == [2]
        put(store, "w", "u", goes_on=True)
        assert counts(other, "pins") == [1]
        store.delete("w", "s")
        store.collect(grace=0)
        assert store.state(state.id) is None
        assert counts(other, "pins") == [0]


def test_a_state_deleted_while_it_was_used_is_freed_without_being_asked(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(housekeeping, "SETTLE_SECONDS", 0.01)
    with opened(path) as store, opened(path) as other:
        state = put(store, "w", "s")
        with store.pin(state):
            other.delete("w", "s")
        assert until(lambda: other.state(state.id) is None)
