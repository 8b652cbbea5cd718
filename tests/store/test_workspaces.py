"""Workspaces: opening, listing, expiring."""

from __future__ import annotations

import re
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from bridge.store.store import Store
from tests.store.support import opened, put, unit, worker

DAY = 86400.0


def row(store: Store, name: str) -> dict[str, Any]:
    return next(each for each in store.workspaces() if each["name"] == name)


def test_new_ones_have_short_names_of_their_own(store: Store) -> None:
    names = {store.open_workspace(None) for _ in range(300)}  # more than a hundred names of four digits clash
    assert len(names) == 300
    assert all(re.fullmatch(r"w-\d{8}-[0-9a-f]{4,8}", name) for name in names)
    assert f"{datetime.now(timezone.utc):%Y}" in min(names)


def test_the_last_one_is_the_one_used_last(path: Path) -> None:
    with opened(path) as store:
        first = store.open_workspace("last")
        assert re.match(r"w-\d{8}-", first)
        second = store.open_workspace(None)
        assert store.open_workspace("last") == second
        put(store, first, "s")
    with opened(path) as store:
        assert store.open_workspace("last") == first


def test_only_a_given_name_is_a_label(store: Store) -> None:
    new = store.open_workspace(None)
    assert not row(store, new)["labelled"]
    store.open_workspace("last")
    assert not row(store, new)["labelled"]
    assert store.open_workspace("mine") == "mine"
    assert row(store, "mine")["labelled"]
    store.open_workspace(new)
    assert row(store, new)["labelled"]


def test_the_list_says_what_there_is(path: Path) -> None:
    with opened(path) as store:
        before = datetime.now(timezone.utc)
        store.open_workspace("first")
        put(store, "first", "a")
        put(store, "first", "b")
        put(store, "second", "a")
        listed = store.workspaces()
        assert [(each["name"], each["states"], each["open"]) for each in listed] == [
            ("first", 2, True),
            ("second", 1, False),
        ]
        created, used = (
            datetime.fromisoformat(listed[0][key].replace("Z", "+00:00")) for key in ("created", "used")
        )
        assert (before - created).total_seconds() < 0.001
        assert created <= used
    with opened(path) as store:
        assert not row(store, "first")["open"]


def test_idle_ones_without_label_expire(path: Path) -> None:
    with opened(path) as store:
        labelled, idle = store.open_workspace("mine"), store.open_workspace(None)
        address = store.blobs.put(b"blob")
        put(store, labelled, "s", unit("x"))
        put(store, idle, "s", unit("y", None, (address,)))
        assert store.expire_workspaces(DAY, time.time() + 2 * DAY) == 0  # open here
    with opened(path) as store:
        here = store.open_workspace(None)
        assert store.expire_workspaces(DAY, time.time()) == 0  # used lately
        assert store.expire_workspaces(DAY, time.time() + 2 * DAY) == 1
        assert store.names(None) == ["mine:s"]
        assert [each["name"] for each in store.workspaces()] == ["mine", here]
        store.collect(grace=0)
        assert not store.blobs.has(address)
        assert store.expire_workspaces(DAY, time.time() + 2 * DAY) == 0


def test_one_that_a_living_process_has_open_does_not_expire(store: Store) -> None:
    with worker("open_workspace", store.home.path, "-") as process:
        assert process.stdout is not None
        name = process.stdout.readline().strip()
        assert row(store, name)["open"]
        assert store.expire_workspaces(DAY, time.time() + 2 * DAY) == 0
        process.kill()
        process.wait(30)
        assert not row(store, name)["open"]
        assert store.expire_workspaces(DAY, time.time() + 2 * DAY) == 1
