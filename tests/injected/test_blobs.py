"""Chunks in the blob folder: written by several threads as by one, and never under another content's address."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from bridge.injected import blobs, workers

SIZE = 8 * blobs.CHUNK
BOUND = 30.0


@pytest.fixture(params=[1, 4], ids=["one core", "four cores"])
def folder(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> blobs.Folder:
    monkeypatch.setattr(workers, "_cores", lambda: request.param)
    return blobs.Folder(str(tmp_path))


def numbers() -> memoryview:
    return memoryview(np.arange(SIZE // 8)).cast("B")


def stored(folder: blobs.Folder) -> dict[str, int]:
    """The size of each blob; all of them have the content that they are called by, and nothing else is there."""
    found = {path.name: path for path in Path(folder.root).rglob("*") if path.is_file()}
    assert found.keys() == {blobs.address_of(path.read_bytes()) for path in found.values()}
    return {name: path.stat().st_size for name, path in found.items()}


def test_a_long_buffer_is_stored_whole_and_in_order(folder: blobs.Folder) -> None:
    data = numbers()
    addresses = folder.put_chunks(data)
    assert addresses == blobs.addresses_of(data)
    assert sum(stored(folder).values()) == folder.take_written() == SIZE
    assert folder.read_chunks(addresses, SIZE) == data


def test_equal_chunks_are_one_blob(folder: blobs.Folder) -> None:
    addresses = folder.put_chunks(memoryview(bytes(SIZE)))
    assert len(set(addresses)) == 1
    assert list(stored(folder).values()) == [blobs.CHUNK]
    assert folder.take_written() == blobs.CHUNK


def test_what_is_there_is_not_written_again(folder: blobs.Folder) -> None:
    data = np.arange(SIZE // 8)
    folder.put_chunks(memoryview(data).cast("B"))
    folder.take_written()
    data[-1] = 0
    folder.put_chunks(memoryview(data).cast("B"))
    assert folder.take_written() == blobs.CHUNK


def test_no_thread_and_no_hold_on_the_buffer_is_left(folder: blobs.Folder) -> None:
    data = np.arange(SIZE // 8)
    before = sys.getrefcount(data), threading.enumerate(), _threads()
    folder.put_chunks(memoryview(data).cast("B"))
    assert (sys.getrefcount(data), threading.enumerate(), _threads()) == before


def _threads() -> list[str]:
    return sorted(os.listdir("/proc/self/task")) if sys.platform == "linux" else []


def test_a_buffer_that_is_written_to_meanwhile_is_stored_as_what_it_was_at_some_moment(
    folder: blobs.Folder,
) -> None:
    data = np.zeros(SIZE // 8)
    over = threading.Event()

    def change() -> None:
        while not over.is_set():
            data.fill(1)
            data.fill(0)

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(8):
            addresses = folder.put_chunks(memoryview(data).cast("B"))
            assert stored(folder).keys() >= set(addresses)
            for path in Path(folder.root).rglob("*"):
                if path.is_file():
                    path.unlink()
    finally:
        over.set()
        thread.join(BOUND)


class Full:
    """A task of which every piece but the first fails, in a thread other than the first's."""

    def __init__(self) -> None:
        self.pieces: Iterator[int] = iter(range(8))
        self.workers = workers.Workers()
        self.failed = threading.Event()

    def work(self) -> None:
        for piece in self.pieces:
            if piece:
                self.failed.set()
                raise OSError("the disk is full")
            self.workers.hire(self.work, 1)
            assert self.failed.wait(BOUND)


def test_what_goes_wrong_in_another_thread_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_cores", lambda: 2)
    task = Full()
    with pytest.raises(OSError, match="full"):  # the first thread goes on, and meets the next piece
        task.work()
    with pytest.raises(OSError, match="full"):
        task.workers.join()
    task.workers.join()


def test_where_no_thread_is_to_be_had_the_first_does_it_all(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(*_: object) -> int:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(workers, "_cores", lambda: 4)
    monkeypatch.setattr(workers, "start_new_thread", refuse)
    folder = blobs.Folder(str(tmp_path))
    folder.put_chunks(numbers())
    assert sum(stored(folder).values()) == SIZE
