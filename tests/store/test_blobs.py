"""Blobs in a folder."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

import pytest
import xxhash

from bridge.errors import HomeDamaged, StoreError
from bridge.store.blobs import FolderBlobs, address_of


@pytest.fixture
def blobs(tmp_path: Path) -> FolderBlobs:
    return FolderBlobs(tmp_path, "xxh3")


def test_addresses_follow_from_content_and_algorithm() -> None:
    assert address_of(b"abc", "xxh3") == "x" + xxhash.xxh3_128(b"abc").hexdigest()
    assert address_of(memoryview(b"abc"), "sha256") == "s" + hashlib.sha256(b"abc").hexdigest()
    with pytest.raises(StoreError, match="'md5'"):
        address_of(b"abc", "md5")


def test_put_get_has_list_delete(blobs: FolderBlobs) -> None:
    address = blobs.put(b"abc")
    other = blobs.put(memoryview(b""))
    assert blobs.get(address) == b"abc"
    assert blobs.get(other) == b""
    assert set(blobs.list()) == {address, other}
    assert blobs.has(address)
    assert blobs.delete(address) == 3
    assert blobs.delete(address) == 0
    assert not blobs.has(address)
    with pytest.raises(HomeDamaged, match=address):
        blobs.get(address)


def test_files_lie_where_kernels_put_them(blobs: FolderBlobs) -> None:
    address = blobs.put(b"abc")
    file = blobs.root / address[1:3] / address
    assert file.read_bytes() == b"abc"
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700


def test_a_blob_that_is_there_becomes_young_and_is_not_written_again(blobs: FolderBlobs) -> None:
    address = blobs.put(b"abc")
    file = Path(blobs.path(address))
    os.utime(file, (1000, 1000))
    inode = file.stat().st_ino
    assert blobs.age(address, 2000) == 1000
    assert blobs.put(b"abc") == address
    assert file.stat().st_ino == inode
    age = blobs.age(address, time.time())
    assert age is not None
    assert age < 100
    assert blobs.age("x" + "0" * 32, 0) is None


@pytest.mark.parametrize("address", ["", "../../etc/passwd", "x" + "0" * 31, "x" + "G" * 32, "s" + "0" * 32])
def test_what_is_no_address_reaches_no_file(blobs: FolderBlobs, address: str) -> None:
    for call in (blobs.get, blobs.has, blobs.delete):
        with pytest.raises(StoreError, match="not a blob's address"):
            call(address)


def test_tidying_removes_old_drafts_only(blobs: FolderBlobs) -> None:
    kept = Path(blobs.path(blobs.put(b"abc")))
    old, young = kept.parent / ".old.tmp", kept.parent / "whatever a kernel calls its drafts"
    for file in (old, young):
        file.write_bytes(b"12345")
    os.utime(old, (1000, 1000))
    os.utime(kept, (1000, 1000))
    assert blobs.tidy(3600, time.time()) == 5
    assert {file.name for file in kept.parent.iterdir()} == {kept.name, young.name}
