"""A state in a file: written, taken in by another home, and refused when anything of it is not as it was."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any

import pytest

from bridge.errors import ArchiveError, Conflict, HomeDamaged
from bridge.store.archive import Archive, write
from bridge.store.manifest import State
from bridge.store.store import Store
from tests.store.support import invariants, opened, put, unit

INFO = {"count": 7, "text": "lone \ud800", "large": "i" * 999}


@pytest.fixture
def state(store: Store) -> State:
    """A state with values inside and in blobs, which two units share, and a line of two cells."""
    blobs = tuple(store.blobs.put(bytes([number]) * 5000) for number in range(3))
    cells = store.add_input(store.add_input(None, "one = 1"), "two = \N{SNOWMAN}")
    return put(
        store,
        "w",
        "s",
        unit("x", b"\x00\xff", meta={"a": [1, None]}),
        unit("y", None, blobs),
        unit("z", None, blobs[1:]),
        code="two",
        inputs=cells,
        info=INFO,
    )


def content(store: Store, state: State) -> tuple[Any, ...]:
    """All that a state is, wherever it is stored."""
    manifest = state.manifest
    return dict(manifest.units), manifest.order, state.code, dict(state.info), store.inputs(state.inputs)


def test_another_home_has_the_same_state(store: Store, state: State, tmp_path: Path) -> None:
    file = tmp_path / "s.state"
    told: list[tuple[str, int, int]] = []
    results = [("cell", "/tmp/f.py", ["text", 1])]
    size = write(store, "s", state, file, results, lambda *step: told.append(step))
    assert size == file.stat().st_size
    assert told[-1] == ("writing", 15_000, 15_000)
    with opened(tmp_path / "other") as other, Archive(file) as archive:
        assert archive.name == "s"
        loaded = archive.load(other, "v", "t", lambda *step: told.append(step))
        assert told[-1] == ("importing", 15_000, 15_000)
        assert content(other, loaded) == content(store, state)
        assert set(other.blobs.list()) == set(store.blobs.list())
        assert other.cache_get("cell", "/tmp/f.py") == ["text", 1]
    invariants(tmp_path / "other")
    with opened(tmp_path / "other") as other:
        found = other.find("v", "t")
        assert found is not None
        assert content(other, found) == content(store, state)


def test_a_taken_name_or_file_is_left_as_it_is(store: Store, state: State, tmp_path: Path) -> None:
    file = tmp_path / "s.state"
    write(store, "s", state, file)
    before = file.read_bytes()
    with pytest.raises(ArchiveError, match="exists already"):
        write(store, "s", state, file)
    assert file.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["s.state"]
    with Archive(file) as archive, pytest.raises(Conflict, match="'s' in the workspace 'w' already"):
        archive.load(store, "w", "s")
    assert store.find("w", "s") == state


def test_whatever_byte_is_changed_or_lost_nothing_wrong_is_stored(
    store: Store, state: State, tmp_path: Path
) -> None:
    file, broken = tmp_path / "s.state", tmp_path / "broken.state"
    write(store, "s", state, file)
    whole = file.read_bytes()
    steps = range(0, len(whole), max(1, len(whole) // 150))
    cases = [whole[:at] + bytes([whole[at] ^ 0x21]) + whole[at + 1 :] for at in steps]
    cases += [whole[:at] for at in steps]
    refused = 0
    with opened(tmp_path / "other") as other:
        for number, case in enumerate(cases):
            broken.write_bytes(case)
            try:
                with Archive(broken) as archive:
                    loaded = archive.load(other, "v", f"s{number}")
            except ArchiveError:
                refused += 1
                assert other.names("v") == []
                assert list(other.blobs.list()) == []
            else:  # what was changed says nothing: a time, or an attribute
                assert content(other, loaded) == content(store, state)
                other.clear("v")
                other.collect(grace=0)
    assert refused > 0.95 * len(cases)


@pytest.mark.parametrize("name", ["nothing", "text", "folder", "zip", "later"])
def test_what_is_no_such_file_is_said_in_one_line(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    expected = {
        "nothing": "there is no file",
        "text": "is damaged, or no exported state",
        "folder": "cannot be read",
        "zip": "is no exported state",
        "later": "its record is not what its digest says",
    }
    if name == "text":
        path.write_text("words")
    elif name == "folder":
        path.mkdir()
    elif name != "nothing":
        with zipfile.ZipFile(path, "w") as file:
            file.writestr("words" if name == "zip" else "state-0.json", "{}")
    with pytest.raises(ArchiveError, match=expected[name]) as caught:
        Archive(path)
    assert "\n" not in str(caught.value)


def test_a_damaged_home_writes_no_file(store: Store, state: State, tmp_path: Path) -> None:
    address = state.manifest.units["y"].blobs[0]
    Path(store.home.blobs.path(address)).write_bytes(os.urandom(5000))
    with pytest.raises(HomeDamaged, match=f"{address} is not what its address says"):
        write(store, "s", state, tmp_path / "s.state")
    assert [path.name for path in tmp_path.iterdir()] == ["home"]
