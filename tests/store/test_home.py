"""The folder: its place, creation, version, damage, and temporary homes."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest

from bridge.errors import HomeDamaged, HomeTooNew, StoreError
from bridge.store.home import Home, default_path
from bridge.store.store import Store
from tests.store.support import opened, put, unit, worker


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"BRIDGE_HOME": "/a", "ALBEDO_HOME": "/b"}, "/a"),
        ({"BRIDGE_HOME": "", "ALBEDO_HOME": "/b"}, "/b"),
        ({"BRIDGE_HOME": "~/c"}, str(Path.home() / "c")),
    ],
)
def test_the_place_comes_from_the_environment(environ: dict[str, str], expected: str) -> None:
    assert default_path(environ) == Path(expected)


def test_the_place_is_else_in_jupyters_data_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path))
    assert default_path({}) == tmp_path / "bridge"


def test_nobody_else_can_read_it(store: Store) -> None:
    put(store, "w", "s", unit("x", None, (store.blobs.put(b"blob"),)))
    everything = [store.home.path, *store.home.path.rglob("*")]
    assert {path.stat().st_mode & 0o777 for path in everything if path.is_dir()} == {0o700}
    assert {path.stat().st_mode & 0o777 for path in everything if path.is_file()} == {0o600}
    assert any(path.name.endswith("-wal") for path in everything)


def test_a_folder_with_other_things_in_it_keeps_its_mode(path: Path) -> None:
    path.mkdir(mode=0o755)
    (path / "mine").touch()
    Home.open(path).close()
    assert path.stat().st_mode & 0o777 == 0o755


def test_what_was_decided_at_the_creation_stays(path: Path) -> None:
    first = Home.open(path, environ={})
    again = Home.open(path, environ={"PYTHONHASHSEED": "7"})
    assert 1 <= first.hash_seed < 2**32
    assert (again.hash_seed, again.algorithm, again.version) == (first.hash_seed, "xxh3", 1)


@pytest.mark.parametrize(
    ("value", "is_taken"), [("7", True), ("0", True), ("random", False), ("4294967296", False)]
)
def test_the_users_hash_seed_is_taken_at_the_creation(path: Path, value: str, is_taken: bool) -> None:
    seed = Home.open(path, environ={"PYTHONHASHSEED": value}).hash_seed
    assert (seed == int(value)) if is_taken else 1 <= seed < 2**32


def test_several_processes_may_create_it_at_once(path: Path) -> None:
    with worker("create", path, "-") as first, worker("create", path, "-") as second:
        for process in (first, second):
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        seeds = []
        for process in (first, second):
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        for process in (first, second):
            assert process.stdout is not None
            seeds.append(process.stdout.readline())
    assert seeds[0] == seeds[1] == f"{Home.open(path).hash_seed}\n"


def test_a_creation_cut_short_is_done_again(path: Path) -> None:
    path.mkdir()
    (path / "states.sqlite").touch()
    with opened(path) as store:
        assert store.names(None) == []


def test_a_later_version_is_refused(path: Path) -> None:
    Home.open(path)
    with sqlite3.connect(path / "states.sqlite") as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(HomeTooNew, match=r"states\.sqlite was written by a later version.*99"):
        Home.open(path)


def test_another_programs_database_is_refused(path: Path) -> None:
    path.mkdir()
    with sqlite3.connect(path / "states.sqlite") as connection:
        connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    with pytest.raises(HomeDamaged, match=r"states\.sqlite is not a database of this program"):
        Home.open(path)


def read_all(path: Path) -> None:
    with opened(path) as store:
        for number in range(100):
            store.find("w", f"s{number}")


@pytest.mark.parametrize("damage", ["overwritten", "emptied", "missing", "cut"])
def test_damage_is_named_and_nothing_is_deleted(path: Path, damage: str) -> None:
    with opened(path) as store:
        for number in range(100):
            put(store, "w", f"s{number}", unit("x", None, (store.blobs.put(b"%d" % number),)))
    file = path / "states.sqlite"
    content = file.read_bytes()
    if damage == "missing":
        file.unlink()
    else:
        damaged = {
            "overwritten": b"junk" * 1024 + content[4096:],
            "emptied": b"",
            "cut": content[: len(content) // 3],
        }
        file.write_bytes(damaged[damage])
    before = sorted((found.name, found.stat().st_size) for found in path.rglob("*") if found != file)
    size = file.stat().st_size if file.exists() else 0
    with pytest.raises(HomeDamaged, match=r"states\.sqlite"):
        read_all(path)
    after = {found.name for found in path.rglob("*")}
    assert {name for name, _ in before} <= after | {"states.sqlite-wal", "states.sqlite-shm"}
    assert file.stat().st_size == size
    assert sum(1 for found in (path / "blobs").rglob("*") if found.is_file()) == 100


def test_a_page_that_is_junk_is_named_when_it_is_read(path: Path) -> None:
    with opened(path) as store:
        put(store, "w", "s", unit("x", b"d" * 50_000))
    file = path / "states.sqlite"
    content = file.read_bytes()
    place = content.index(b"d" * 4000) // 4096 * 4096
    file.write_bytes(content[: 4096 * 2] + b"\xff" * (place - 4096 * 2) + content[place:])
    with pytest.raises(HomeDamaged, match=r"states\.sqlite"), opened(path) as store:
        store.find("w", "s")


def test_a_place_where_no_home_can_be_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot be made"):
        Home.open(tmp_path / "file")


def test_an_ephemeral_home_goes_when_it_is_closed(tmp_path: Path) -> None:
    home = Home.open(tmp_path, ephemeral=True)
    store = Store(home)
    put(store, "w", "s", unit("x"))
    assert home.path.parent == tmp_path
    assert home.path.stat().st_mode & 0o777 == 0o700
    store.close()
    home.close()
    home.close()
    assert list(tmp_path.iterdir()) == []


def test_an_ephemeral_home_goes_at_the_interpreters_exit(tmp_path: Path) -> None:
    with worker("ephemeral", tmp_path, "end") as process:
        out, _ = process.communicate(timeout=30)
    assert Path(out.strip()).parent == tmp_path
    assert list(tmp_path.iterdir()) == []


def test_a_later_start_removes_what_a_killed_one_left_and_nothing_else(tmp_path: Path) -> None:
    keepsake = tmp_path / "bridge-ephemeral-not-a-folder"
    keepsake.touch()
    with worker("ephemeral", tmp_path, "wait") as killed, worker("ephemeral", tmp_path, "wait") as living:
        assert killed.stdout is not None
        assert living.stdout is not None
        left_over, kept = (Path(out.readline().strip()) for out in (killed.stdout, living.stdout))
        killed.kill()
        killed.wait(30)
        assert left_over.exists()
        Home.open(tmp_path, ephemeral=True).close()
        assert set(tmp_path.iterdir()) == {kept, keepsake}
        assert (kept / "states.sqlite").exists()
    shutil.rmtree(kept)
