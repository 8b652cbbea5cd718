"""States by name: what is put is found, exactly, by this process and by later ones."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from bridge.errors import StateNotFound, StoreError
from bridge.store.manifest import Manifest, State, Unit
from bridge.store.names import Page
from bridge.store.store import Store
from tests.store.support import manifest, opened, put, unit

INFO: dict[str, Any] = {
    "execution_count": 3,
    "definitions": ["def f(): ..." * 200, "second"],
    "empty": {},
    "none": None,
    "float": 0.1 + 0.2,
    "large": 2**100,
    "text": "ä\ud800\0\n",
    "nested": {"b": [1, {"a": True}], "a": [[]]},
    "skipped": [{"name": "x" * 300, "reason": "no"}],
    "": "an empty key",
}


def everything(state: State) -> tuple[Any, ...]:
    """All of a state, in an order that must be kept, too."""
    return (
        state.id,
        state.parent,
        state.created,
        state.code,
        state.inputs,
        [*state.info.items()],
        [*state.manifest.units.items()],
        state.manifest.order,
    )


def test_a_state_comes_back_exactly_after_a_restart(path: Path) -> None:
    with opened(path) as store:
        address = store.blobs.put(b"large" * 1000)
        units = (
            unit("b", b"\0\xff" * 100, size=1, nested={"z": [1, None], "a": "\ud800"}),
            unit("a", None, (address,)),
            Unit("no names", "d", (), {}, b"", (), 0),
            Unit("two", "e", ("x\ud800", "y"), INFO, b"two", (address, address), 12345),
        )
        cells = store.add_input(store.add_input(None, "first"), "second")
        made = store.put(
            "w",
            "s",
            parent=77,
            code="x = 'ä\ud800'\n" * 50,
            inputs=cells,
            info=INFO,
            manifest=manifest(*units),
        )
        assert everything(made)[3:] == (
            "x = 'ä\ud800'\n" * 50,
            cells,
            [*INFO.items()],
            [(each.key, each) for each in units],
            ("b", "a", "x\ud800", "y"),
        )
    with opened(path) as store:
        found = store.find("w", "s")
        assert found is not None
        assert everything(found) == everything(made)


def test_numbers_that_are_not_finite_come_back(path: Path) -> None:
    with opened(path) as store:
        put(store, "w", "s", info={"inf": math.inf, "nan": math.nan})
    with opened(path) as store:
        found = store.find("w", "s")
        assert found is not None
        assert found.info["inf"] == math.inf
        assert math.isnan(found.info["nan"])


def test_what_the_caller_changes_afterwards_does_not_reach_the_state(store: Store) -> None:
    info = {"list": [1]}
    units = {"x": unit("x")}
    store.put("w", "s", parent=None, code="", inputs=None, info=info, manifest=Manifest(units, ("x",)))
    info["list"].append(2)
    units.clear()
    found = store.find("w", "s")
    assert found is not None
    assert (found.info, list(found.manifest.units)) == ({"list": [1]}, ["x"])


def test_units_are_one_object_in_all_states(path: Path) -> None:
    with opened(path) as store:
        put(store, "w", "a", unit("x"), unit("y"))
        put(store, "w", "b", unit("x"), unit("z"))
    with opened(path) as store:
        first, second = store.find("w", "a"), store.find("w", "b")
        assert first is not None
        assert second is not None
        assert first.manifest.units["x"] is second.manifest.units["x"]


@pytest.mark.parametrize(
    "other",
    [
        Unit("x", "d", ("x",), {}, b"1", (), 1),
        Unit("x", "d", ("x",), {}, None, (), 2),
        Unit("x", "d", ("x",), {}, b"", (), 2),
        Unit("x", "d", ("x",), {"a": 1}, b"1", (), 2),
        Unit("x", "d", ("x", "y"), {}, b"1", (), 2),
        Unit("y", "d", ("x",), {}, b"1", (), 2),
        Unit("x", "e", ("x",), {}, b"1", (), 2),
    ],
    ids=["size", "no data", "empty data", "record", "names", "key", "digest"],
)
def test_units_that_differ_in_anything_are_kept_apart(path: Path, other: Unit) -> None:
    one = Unit("x", "d", ("x",), {}, b"1", (), 2)
    with opened(path) as store:
        put(store, "w", "one", one)
        put(store, "w", "other", other)
    with opened(path) as store:
        for name, expected in (("one", one), ("other", other)):
            found = store.find("w", name)
            assert found is not None
            assert [*found.manifest.units.values()] == [expected]


def test_names_are_listed_oldest_first_and_a_replaced_one_keeps_its_place(store: Store) -> None:
    for name in ("c", "a", "b"):
        put(store, "w", name)
    old = store.find("w", "a")
    new = put(store, "w", "a", code="again")
    assert store.names("w") == ["c", "a", "b"]
    found = store.find("w", "a")
    assert old is not None
    assert found is new
    assert (found.id, found.code) != (old.id, old.code)
    assert store.delete("w", "a")
    put(store, "w", "a")
    assert store.names("w") == ["c", "b", "a"]


@pytest.mark.parametrize(
    "name", ["x" * 255, "a/b?c", "ä:ö", "\ud800", "a\0b", "'; DROP TABLE names; --", " "]
)
def test_a_name_is_any_text(path: Path, name: str) -> None:
    with opened(path) as store:
        put(store, name, name)
    with opened(path) as store:
        assert store.names(name) == [name]
        assert store.names("*") == store.names(None) == [f"{name}:{name}"]
        assert store.find(name, name) is not None
        assert store.find("elsewhere", f"{name}:{name}") is not None
        assert store.delete(name, name)


def test_another_workspaces_states_are_found_by_both_names_unless_a_name_here_is_the_same(
    store: Store,
) -> None:
    there = put(store, "a:b", "c:d")
    assert store.find("w", "a:b:c:d") is there
    here = put(store, "w", "a:b:c:d")
    assert store.find("w", "a:b:c:d") is here
    assert store.find("w", "c:d") is None
    assert store.find("w", "nowhere:c") is None


def test_deleting_and_clearing(store: Store) -> None:
    for name in ("initial", "a", "b"):
        put(store, "w", name)
    put(store, "other", "a")
    assert store.delete("w", "a")
    assert not store.delete("w", "a")
    assert not store.delete("nowhere", "a")
    assert (store.find("w", "a"), store.names("w")) == (None, ["initial", "b"])
    put(store, "w", "c")
    store.clear("w")
    assert store.names("w") == ["initial"]
    store.clear("w", keep=())
    store.clear("nowhere")
    assert (store.names("w"), store.names("other"), store.names("nowhere")) == ([], ["a"], [])


def test_details_list_what_a_client_asks_for(store: Store) -> None:
    first = put(store, "w", "first", unit("x", b"123"), code="x = 1")
    second = put(store, "w", "second", unit("x", b"123"), unit("y", b"45"), parent=first.id, code="y = 2")
    third = put(store, "w", "third", parent=second.id)
    store.delete("w", "second")
    assert [
        (each["name"], each["id"], each["parent"], each["parent_name"]) for each in store.details("w")
    ] == [
        ("first", first.id, None, None),
        ("third", third.id, second.id, None),
    ]
    assert store.details("w")[0] == {
        "workspace": "w",
        "name": "first",
        "id": first.id,
        "parent": None,
        "parent_name": None,
        "created": first.created,
        "code": "x = 1",
        "bytes": 3,
    }
    put(store, "w", "fourth", parent=first.id)
    assert store.details("w")[-1]["parent_name"] == "first"


def test_a_list_in_pages(store: Store) -> None:
    for number in range(7):
        for workspace in ("w", "v:v"):
            put(store, workspace, f"s{number}", code=str(number))
    assert store.names("w", Page(limit=3)) == ["s0", "s1", "s2"]
    assert store.names("w", Page("s2", 3)) == ["s3", "s4", "s5"]
    assert store.names("w", Page("s5")) == ["s6"]
    assert store.names("w", Page("s6", 3)) == []
    assert store.names("*", Page("v:v:s2", 3)) == ["w:s3", "v:v:s3", "w:s4"]
    assert [each["code"] for each in store.details("w", Page("s2", 2))] == ["3", "4"]
    assert [(each["workspace"], each["name"]) for each in store.details("*", Page("w:s5"))] == [
        ("v:v", "s5"),
        ("w", "s6"),
        ("v:v", "s6"),
    ]
    for page in (Page("nobody"), Page("v:v:s1")):
        with pytest.raises(StateNotFound, match="to go on from"):
            store.names("w", page)


def test_a_state_by_its_id(store: Store) -> None:
    state = put(store, "w", "s")
    assert store.state(state.id) is state
    assert store.name_of(state.id) == ("w", "s")
    store.delete("w", "s")
    assert store.name_of(state.id) is None
    assert store.state(state.id) is state
    store.collect(grace=0)
    assert store.state(state.id) is None


def test_nothing_is_stored_when_a_blob_or_a_cell_is_not_there(store: Store) -> None:
    put(store, "w", "s", code="old")
    with pytest.raises(StoreError, match="blobs of 'x' are not in the home"):
        put(store, "w", "s", unit("new"), unit("x", None, ("x" + "0" * 32,)))
    with pytest.raises(StoreError, match="cell 99"):
        put(store, "w", "s", inputs=99)
    found = store.find("w", "s")
    assert found is not None
    assert found.code == "old"
    put(store, "w", "s", unit("new"))  # what the failed ones began to store is not taken for stored


def test_cells_are_a_chain_that_branches(path: Path) -> None:
    with opened(path) as store:
        first = store.add_input(None, "a = 1")
        left = store.add_input(first, "b = 'ä\ud800'")
        right = store.add_input(first, "a = 1")
    with opened(path) as store:
        assert store.inputs(None) == []
        assert store.inputs(left) == ["a = 1", "b = 'ä\ud800'"]
        assert store.inputs(right) == ["a = 1", "a = 1"]


def test_a_closed_store_says_so(path: Path) -> None:
    with opened(path) as store:
        put(store, "w", "s")
    with pytest.raises(StoreError, match="closed"):
        store.names("w")
    with pytest.raises(StoreError, match="closed"):
        put(store, "w", "s")
    store.close()


def test_many_states_of_many_units_take_little_room(path: Path) -> None:
    units = {f"k{index}": unit(f"k{index}", b"d" * 100) for index in range(1000)}
    with opened(path) as store:
        parent = put(store, "w", "s", *units.values()).id
        store.collect()
        before = (path / "states.sqlite").stat().st_size
        for number in range(200):
            key = f"k{number * 37 % 1000}"
            units[key] = unit(key, b"new %d" % number)
            parent = put(store, "w", f"s{number}", *units.values(), parent=parent).id
        store.collect()
        grown = (path / "states.sqlite").stat().st_size - before
    assert grown < 200 * 1500
