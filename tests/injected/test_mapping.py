"""Arrays over mapped blobs: what was only read is known without being hashed, and what was written is never missed."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bridge.injected import arrays, blobs, mapping

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells which pages were written")

SIZE = 5_000_001  # of 8 bytes: more than malloc ever takes from its heap, and no whole number of pages


class Bench:
    """An array that was restored from a folder, and what is hashed when it is stored again."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = blobs.Folder(str(path))
        self.chunks = self.store(np.arange(SIZE, dtype=float))
        self.array = self.load(self.chunks)
        self.hashed: list[int] = []
        address_of = blobs.address_of

        def counted(*parts: Any) -> str:
            self.hashed.append(sum(map(len, parts)))
            return address_of(*parts)

        monkeypatch.setattr(blobs, "address_of", counted)

    def store(self, array: Any) -> list[str]:
        return arrays.store(array, self.folder, mapping.Maps(self.folder.root))

    def load(self, chunks: list[str]) -> Any:
        return arrays.load(arrays.Stored(self.folder, chunks, SIZE * 8), np.dtype(float), (SIZE,), "C", True)


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(tmp_path, monkeypatch)


def test_what_was_only_read_is_not_hashed(bench: Bench) -> None:
    assert float(bench.array.sum()) == SIZE * (SIZE - 1) / 2
    assert bench.store(bench.array) == bench.chunks
    assert bench.hashed == []


PER_CHUNK = blobs.CHUNK // 8


@pytest.mark.parametrize("index", [0, 1, PER_CHUNK - 3, PER_CHUNK - 2, 3 * PER_CHUNK, SIZE - 1])
def test_what_was_written_is_stored_and_nothing_else(bench: Bench, index: int) -> None:
    bench.array[index] = -1
    chunks = bench.store(bench.array)
    changed = (index + blobs.LEAD // 8) // PER_CHUNK
    assert [n for n, pair in enumerate(zip(chunks, bench.chunks, strict=True)) if len(set(pair)) > 1] == [
        changed
    ]
    assert len(bench.hashed) == 1
    again = bench.load(chunks)
    assert np.array_equal(again, bench.array)
    assert bench.load(bench.chunks)[index] == index


def test_a_blob_that_went_while_it_was_mapped_is_written_again(bench: Bench) -> None:
    os.unlink(bench.folder.path(bench.chunks[1]))
    assert bench.store(bench.array) == bench.chunks
    assert os.path.exists(bench.folder.path(bench.chunks[1]))
    assert len(bench.hashed) == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda array: array.sort(),
        lambda array: array.__setitem__(slice(None), array[::-1].copy()),
        lambda array: memoryview(array).cast("B").__setitem__(slice(blobs.CHUNK, blobs.CHUNK + 1), b"\7"),
    ],
)
def test_however_it_was_written_it_comes_back(bench: Bench, change: Callable[[Any], Any]) -> None:
    change(bench.array)
    assert np.array_equal(bench.load(bench.store(bench.array)), bench.array)


def test_another_array_in_its_place_is_hashed(bench: Bench) -> None:
    del bench.array
    fresh = np.zeros(SIZE)
    bench.store(fresh)
    assert sum(bench.hashed) == SIZE * 8 + blobs.LEAD


MB = 1024 * 1024


@pytest.mark.parametrize("smallest", [blobs._SMALLEST, blobs.CHUNK], ids=["now", "an older home"])
@pytest.mark.parametrize("size", [8, MB - 16, MB - 8, MB, 4 * MB - 16, 4 * MB - 8, 16 * MB, 24 * MB, 40 * MB])
def test_an_array_of_any_size_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, smallest: int
) -> None:
    folder, array = blobs.Folder(str(tmp_path)), np.arange(size // 8)
    with monkeypatch.context() as patch:
        patch.setattr(blobs, "_SMALLEST", smallest)
        chunks = arrays.store(array, folder, mapping.Maps(folder.root))
        packed = folder.put_chunks(memoryview(array).cast("B"))
    again = arrays.load(arrays.Stored(folder, chunks, size), array.dtype, array.shape, "C", True)
    assert np.array_equal(again, array)
    assert folder.read_chunks(packed, size) == array.tobytes()
    again[-1] = -1
    assert np.array_equal(array[:-1], again[:-1])


def test_a_change_costs_an_eighth_of_an_array_at_most_or_a_megabyte(tmp_path: Path) -> None:
    folder = blobs.Folder(str(tmp_path))
    for size in (3 * MB, 8 * MB, 17 * MB, 100 * MB):
        array = np.arange(size // 8) + size
        arrays.store(array, folder, mapping.Maps(folder.root))
        folder.take_written()
        array[1000] = -1
        arrays.store(array, folder, mapping.Maps(folder.root))
        assert 0 < folder.take_written() <= max(MB, size // 8)
