"""Several processes and threads in one home, processes killed at any moment, and disks without room."""

from __future__ import annotations

import json
import random
import threading
import time
from pathlib import Path

import pytest

from bridge.store.manifest import State
from bridge.store.names import Page
from bridge.store.store import Store
from tests.store.support import opened, put, unit, worker


def test_every_state_that_was_reported_survives_a_kill_at_any_moment(path: Path) -> None:
    """Two processes store, replace and sweep in one home; each in turn is killed after a number of lines,
    wherever it is then. All that either reported must be there, whole."""
    chance = random.Random(7)
    reported: dict[str, set[str]] = {"a": set(), "b": set()}
    for _ in range(8):
        with worker("put_forever", path, "a") as first, worker("put_forever", path, "b") as second:
            for workspace, process in (("a", first), ("b", second)):
                assert process.stdout is not None
                for _ in range(chance.randrange(1, 60)):
                    line = process.stdout.readline()
                    assert line, f"{workspace} ended by itself"
                    reported[workspace].add(line.strip())
                process.kill()
                reported[workspace].update(process.stdout.read().split())
        with opened(path) as store:
            check(store, reported)
    assert sum(map(len, reported.values())) > 200


def check(store: Store, reported: dict[str, set[str]]) -> None:
    """All that was reported is there, with every blob, and so is what was replaced last."""
    for workspace, names in reported.items():
        assert names <= set(store.names(workspace))
        for name in store.names(workspace):
            state = store.find(workspace, name)
            assert state is not None
            number = state.info["number"] if name == "replaced" else int(name[1:])
            last = state.manifest.units[f"k{number % 50}"]
            assert last.record["number"] == number
            for each in state.manifest.units.values():
                for address in each.blobs:
                    content = f"blob {workspace} {each.record['number']}".encode() * 100
                    assert store.blobs.get(address) == content


def test_two_processes_store_at_once(path: Path) -> None:
    with (
        opened(path) as store,
        worker("put_many", path, "a") as first,
        worker("put_many", path, "b") as second,
    ):
        for process in (first, second):
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in (first, second):
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        for process in (first, second):
            assert process.communicate(timeout=60)[0] == "200\n"
        for workspace in "ab":
            assert store.names(workspace) == [f"{workspace}-{number}" for number in range(200)]
            state = store.find(workspace, f"{workspace}-199")
            assert state is not None
            assert state.manifest.units["own"].data == f"{workspace} 199".encode()


def test_a_list_of_names_is_right_whatever_another_store_did_meanwhile(path: Path) -> None:
    """Names are remembered: of a list that was read before, only what is new is read."""
    chance, every = random.Random(5), Page(limit=1_000_000)
    with opened(path) as one, opened(path) as other:
        for turn in range(300):
            store, space = chance.choice((one, other)), chance.choice("vw")
            name = f"s{chance.randrange(12)}"
            kind = chance.choices(("put", "delete", "clear", "expire"), (60, 30, 2, 1))[0]
            if kind == "put":
                put(store, space, name, unit("k"))
            elif kind == "delete":
                store.delete(space, name)
            elif kind == "clear":
                store.clear(space, keep=(name,))
            else:
                store.expire_workspaces(0.0, time.time() + 10)
            for each in chance.sample((one, other), chance.randrange(3)):
                for workspace in "vwx":
                    found = each.names(workspace)
                    assert found == each.names(workspace, every), turn
                    found.clear()  # the caller's own


def test_a_state_that_another_process_replaced_is_the_new_one(path: Path) -> None:
    with opened(path) as first, opened(path) as second:
        put(first, "w", "s", code="old")
        found = second.find("w", "s")
        assert found is not None
        put(second, "w", "s", code="new")
        seen = first.find("w", "s")
        assert seen is not None
        assert (found.code, seen.code) == ("old", "new")


def test_many_threads_store_find_pin_delete_and_sweep_at_once(store: Store) -> None:
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            parent: State | None = None
            for turn in range(40):
                units = [unit("common"), unit("mine", b"%d %d" % (number, turn))]
                state = put(store, "w", f"s{number}", *units, parent=parent.id if parent else None)
                with store.pin(state):
                    put(store, "w", f"s{number}", *units, parent=state.id)
                    again = store.state(state.id)
                    assert again is not None
                    assert [*again.manifest.units.values()] == units
                    if turn % 10 == number:
                        store.collect(grace=0)
                parent = store.find("w", f"s{number}")
                assert parent is not None
                assert parent.manifest.units["mine"] == units[1]
        except BaseException as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []
    assert sorted(store.names("w")) == [f"s{number}" for number in range(8)]
    store.collect(grace=0)
    for number in range(8):
        state = store.find("w", f"s{number}")
        assert state is not None
        assert state.manifest.units["mine"].data == b"%d 39" % number


@pytest.mark.filterwarnings("default")
def test_without_room_nothing_is_stored_and_the_store_goes_on(path: Path) -> None:
    with worker("fill_disk", path, "-") as process:
        out, _ = process.communicate(timeout=60)
    lines = out.splitlines()
    assert lines[0].startswith(f"put: {path}/states.sqlite") or lines[0].startswith("put: no room"), out
    assert lines[1].startswith("blob: a blob could not be written"), out
    assert lines[2:] == ["names: ['before'] before = 1", "names: ['before', 'after']", "blobs: []"]
    with opened(path) as store:
        found = store.find("w", "after")
        assert found is not None
        assert found.manifest.units["x"].size == 1_000_000


def test_a_database_that_may_not_grow_says_so_in_plain_words(store: Store) -> None:
    """SQLite's own "full", which a real disk gives."""
    put(store, "w", "s", code="old")
    pages = store._database._writer.execute("PRAGMA page_count").fetchone()[0]
    store._database._writer.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(Exception, match="no room left on the disk") as caught:
        put(store, "w", "s", unit("x", b"x" * 1_000_000))
    assert type(caught.value).__name__ == "StoreError"
    found = store.find("w", "s")
    assert found is not None
    assert found.code == "old"
    with store.pin(found):
        pass
    store.cache_put("repr", "x", "y" * 90_000)
    store._database._writer.execute("PRAGMA max_page_count = 1000000")
    assert put(store, "w", "s", unit("x", b"x" * 1_000_000)).manifest.units["x"].size == 1_000_000
    assert json.dumps(store.names("w")) == '["s"]'
