"""`jupyter bridge gc`, `export` and `import`, as they are typed."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import pytest

from bridge import home_commands
from bridge.cli import command
from tests.store.support import opened, put, unit
from tests.store.test_sweep import blob
from tests.support import Client, text_of

MIB = 1 << 20


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with two named states, and one of 3 MiB that was deleted."""
    path = tmp_path / "home"
    with opened(path) as store:
        store.open_workspace("w")
        put(store, "w", "s1", unit("x"))
        put(store, "w", "big", unit("x", None, (blob(store, os.urandom(3 * MIB)),)))
        put(store, "w", "s2", unit("y", None, (blob(store, os.urandom(MIB)),)))
        store.delete("w", "big")
    return path


def test_gc_says_what_it_frees(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["gc", "--home", str(home), "--dry-run"]) == 0
    first, what = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{home}: 4.")
    assert what == "would have freed 1 state and 1 file, 3.0 MiB"
    assert command(["gc", "--home", str(home)]) == 0
    before, what, after = capsys.readouterr().out.splitlines()
    assert before == first
    assert what == "freed 1 state and 1 file, 3.0 MiB"
    assert after.startswith(f"{home}: 1.")
    assert command(["gc", "--home", str(home)]) == 0
    out, err = capsys.readouterr()
    assert "freed 0 states and 0 files, 0 bytes" in out
    assert err == ""


def test_gc_removes_what_nobody_used_for_long(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(home) as store:
        old = store.open_workspace(None)
        put(store, old, "s", unit("z", b"zz"))
        store._database.pragma("UPDATE workspaces SET used = 0")
    left_over = home / "sessions" / "gone.state"
    left_over.write_bytes(b"0123456789")
    os.utime(left_over, (0, 0))
    for words in (["--dry-run"], []):
        assert command(["gc", "--home", str(home), *words]) == 0
        out = capsys.readouterr().out
        assert "removed 1 workspace unused for 14 days" in out
        assert "removed 1 file of sessions unused for 14 days, 10 bytes" in out
        assert "freed 2 states and 1 file, 3.0 MiB" in out
    assert not left_over.exists()
    monkeypatch.setenv("BRIDGE_STATE_EXPIRY_SECONDS", "soon")
    assert command(["gc", "--home", str(home)]) == 2
    assert capsys.readouterr().err.startswith("jupyter bridge gc: BRIDGE_STATE_EXPIRY_SECONDS must be")


def test_gc_evicts_under_a_size(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with opened(home) as store:
        for number in range(6):
            put(store, "w", f"old{number}", unit("x", None, (blob(store, os.urandom(4 * MIB)),)))
        store._database.pragma("UPDATE states SET created = '2020' WHERE id > 3")
    words = ["gc", "--home", str(home), "--max-home", "16M"]
    assert command([*words, "--dry-run"]) == 0
    assert "would have evicted 3 states used least recently, about 12.0 MiB" in capsys.readouterr().out
    assert command(words) == 0
    assert "\nevicted 3 states used least recently, about 12.0 MiB" in capsys.readouterr().out
    with opened(home) as store:
        assert store.names("w") == ["s1", "s2", "old3", "old4", "old5"]


def test_gc_beside_a_server_spares_what_it_uses(client: Client, capsys: pytest.CaptureFixture[str]) -> None:
    _, health = client.get("/health")
    client.run("import os\nbig = os.urandom(500_000)", new="gc-a")
    client.run("more = os.urandom(500_000)", "gc-a", "gc-b")
    client.delete("/states/gc-a")
    assert command(["gc", "--home", health["home"]]) == 0
    assert "\nfreed " in capsys.readouterr().out
    assert text_of(client.run("len(big) + len(more)", "gc-b")) == "1000000"


def test_a_state_goes_into_a_file_and_comes_back(client: Client, tmp_path: Path) -> None:
    file = tmp_path / "it.state"
    _, health = client.get("/health")
    code = "import numpy as np\nbig = np.arange(100_000)\nview = big[1:]\ndef total(): return int(view.sum())"
    client.run(code, new="to-go")
    name = f"{health['workspace']}:to-go"
    assert command(["export", "--home", health["home"], name, str(file)]) == 0
    client.delete("/states/to-go")
    assert command(["import", "--home", health["home"], str(file), "--name", "back"]) == 0
    code = "import inspect\nbig[1] = 5\ntotal(), inspect.getsource(total), len(In)"
    value = sum(range(100_000)) + 4
    expected = f"({value}, 'def total(): return int(view.sum())\\n', 3)"
    assert text_of(client.run(code, "imported:back")) == expected


def test_what_cannot_be_done_is_one_line(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nowhere = home.parent / "nowhere"
    for words, line in {
        ("gc", "--home", str(nowhere)): f"there is no home at {nowhere}",
        ("gc", "--home", str(home), "--max-home", "1M"): "argument --max-home: must be at least 16M",
        ("export", "--home", str(home), "s9", "f"): "there is no state named 's9'",
        ("export", "--home", str(home), "s1", "f", "--workspace", "v"): "there is no workspace 'v'",
        ("import", "--home", str(home), str(nowhere)): f"there is no file {nowhere}",
        (
            "import",
            "--home",
            str(home),
            "f",
            "--workspace",
            "a:b",
        ): "argument --workspace: must be a name of 1 to",
    }.items():
        try:
            code: object = command(list(words))
        except SystemExit as ended:
            code = ended.code
        out, err = capsys.readouterr()
        assert (code, out) == (2, "")
        assert err.startswith(f"jupyter bridge {words[0]}: {line}")
        assert err.count("\n") == 1
    assert not nowhere.exists()


@pytest.mark.parametrize("terminal", [True, False])
def test_work_that_takes_its_time_shows_a_bar_on_a_terminal(
    terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Screen(io.StringIO):
        def isatty(self) -> bool:
            return terminal

    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(home_commands, "SILENT_SECONDS", 0.0)
    bars = home_commands.Bars("B")
    for done in (0, 512, 1024):
        bars("writing", done, 1024)
    bars.close()
    assert ("writing:   0%" in screen.getvalue()) == terminal
    monkeypatch.setattr(home_commands, "SILENT_SECONDS", 100.0)
    before = screen.getvalue()
    bars = home_commands.Bars("B")
    bars("writing", 1024, 1024)
    bars.close()
    assert screen.getvalue() == before
