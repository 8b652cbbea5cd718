"""The log file: private, rotated, and shared by the servers of one home."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest

from bridge.logs import FILE, SharedLog
from tests.support import ROOT


def record(text: str) -> logging.LogRecord:
    return logging.LogRecord("bridge", logging.INFO, "", 0, text, None, None)


def test_one_servers_rotation_is_followed_by_the_other(tmp_path: Path) -> None:
    path = tmp_path / FILE
    one, other = (SharedLog(path, maxBytes=100, backupCount=3, encoding="utf-8") for _ in range(2))
    other.emit(record("first"))
    for number in range(4):
        one.emit(record(f"{number} " + "x" * 60))
    assert (tmp_path / f"{FILE}.1").exists()
    other.emit(record("last"))
    assert path.read_text().endswith("last\n")
    one.close()
    other.close()


def test_a_removed_folder_is_not_made_again(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    log = SharedLog(folder / FILE, encoding="utf-8")
    log.emit(record("first"))
    (folder / FILE).unlink()
    log.emit(record("second"))
    assert (folder / FILE).read_text() == "second\n"
    (folder / FILE).unlink()
    folder.rmdir()
    log.emit(record("third"))
    assert not folder.exists()
    log.close()


def test_a_line_that_a_full_disk_does_not_take_is_dropped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / FILE
    path.symlink_to("/dev/full")
    log = SharedLog(path, maxBytes=100, backupCount=3, encoding="utf-8", delay=True)
    for _ in range(9):
        log.emit(record("lost"))  # rotation included
    path.unlink()
    for _ in range(2):
        log.emit(record("kept"))
    log.close()
    assert (path.read_text(), capsys.readouterr().err) == ("kept\n", "")


def test_warnings_and_failed_threads_go_to_the_file_and_nowhere_else(tmp_path: Path) -> None:
    code = (
        "import logging, pathlib, sys, threading, warnings\n"
        "from bridge.logs import start_logging\n"
        "start_logging(pathlib.Path(sys.argv[1]), False)\n"
        "warnings.warn('a warning')\n"
        "thread = threading.Thread(target=lambda: 1 / 0)\n"
        "thread.start(); thread.join()\n"
        "logging.getLogger('bridge.x').info('of ours')\n"
        "logging.getLogger('other').info('chatter')\n"
        "logging.getLogger('other').warning('a lone \\ud800')\n"
    )
    folder = tmp_path / "logs"
    ran = subprocess.run(
        [sys.executable, "-c", code, folder], cwd=ROOT, capture_output=True, timeout=60, check=True
    )
    assert (ran.stdout, ran.stderr) == (b"", b"")
    text = (folder / FILE).read_text()
    for word in ("a warning", "ZeroDivisionError", "of ours", r"a lone \ud800"):
        assert word in text
    assert "chatter" not in text
    assert (folder / FILE).stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700
