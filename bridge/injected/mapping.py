"""Blobs laid over an array's memory, and which of them still lie there as they were: the system's own tables tell.

A page of a private mapping is the file's until somebody writes to it. So what was restored and since then only read
need not be hashed to be known. Linux alone; see proc(5) for `maps`, and the kernel's admin-guide/mm/pagemap.rst.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

from .blobs import CHUNK, LEAD, chunk_of

PAGE = mmap.PAGESIZE
FROM = 1024 * 1024  # bytes; a smaller array is read, which costs less than its page faults

_FIXED = 0x10  # MAP_FIXED on Linux; the mmap module does not name it
_ENTRY = 8  # bytes of an entry of pagemap, which is a number in the machine's byte order
_KIND = 7 if sys.byteorder == "little" else 0  # its highest byte
_PRESENT, _SWAPPED, _FILE = 0x80, 0x40, 0x20  # bits of that
_laid = False  # whether anything was ever mapped here, without which the tables need not be read


class Span(NamedTuple):
    """The place of a chunk, from `start` to `stop`; what can be mapped of it is between `first` and `last`.

    They count from the page border that lies LEAD bytes before the array. The first page holds the allocator's header.
    """

    start: int
    stop: int
    first: int
    last: int


def spans(size: int, chunk: int) -> Iterator[Span]:
    """The chunks, of `chunk` bytes, of an array of `size` bytes."""
    for start in range(0, size + LEAD, chunk):
        stop = min(start + chunk, size + LEAD)
        yield Span(start, stop, max(start, PAGE), stop - stop % PAGE)


def fits(address: int, size: int) -> bool:
    """Whether an array of that many bytes at that address can be mapped."""
    return size >= FROM and sys.platform == "linux" and address % PAGE == LEAD


def lay(path: str, address: int, span: Span) -> bool:
    """Lay a blob's pages over an array's: private, so writes stay in this process. False when it cannot be."""
    global _laid
    length, offset = span.last - span.first, span.first - span.start
    descriptor = os.open(path, os.O_RDONLY)
    try:
        if os.fstat(descriptor).st_size < offset + length:
            raise EOFError(f"blob {os.path.basename(path)} is too short")
        place = address - LEAD + span.first
        protection, flags = mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | _FIXED
        _laid = True
        return bool(_libc().mmap(place, length, protection, flags, descriptor, offset) == place)
    finally:
        os.close(descriptor)


def _libc() -> Any:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_longlong,
    ]
    return libc


Table = dict[int, tuple[int, int, str]]
"""Where a private mapping of a blob begins -> where it ends, where it begins in the file, the file's path."""


class Maps:
    """The blobs in the folder `root` that are mapped here, as of the first time that they matter."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._table: Table | None = None

    def untouched(self, address: int, data: memoryview) -> dict[int, str]:
        """The chunks of the array at that address, whose bytes are `data`, that are the very blobs mapped there.

        By their numbers, the blobs' addresses. A chunk that is not in it may still have the content of some blob.
        """
        if not (_laid and fits(address, len(data))):
            return {}
        found: dict[int, str] = {}
        written = _written(address - LEAD, len(data) + LEAD)
        for number, span in enumerate(spans(len(data), chunk_of(len(data)))):
            end, offset, path = self._at(address - LEAD + span.first)
            whole = end == address - LEAD + span.last and offset == span.first - span.start
            if (
                whole
                and span.last // PAGE <= len(written)
                and written.find(_OWN, span.first // PAGE, span.last // PAGE) < 0
                and _edges(span, data, path)
            ):
                found[number] = os.path.basename(path)
        return found

    def _at(self, place: int) -> tuple[int, int, str]:
        """What is mapped from that place on; its end is 0 when that is no blob."""
        if self._table is None:
            self._table = _table(os.path.realpath(self._root))
        return self._table.get(place, (0, 0, ""))


def _table(root: str) -> Table:
    prefix, table = os.fsencode(root) + b"/", Table()
    with open("/proc/self/maps", "rb") as maps:
        for line in maps:
            if prefix not in line:
                continue
            places, rights, offset, _device, _inode, path = line.rstrip(b"\n").split(None, 5)
            begin, end = (int(place, 16) for place in places.split(b"-"))
            if rights.endswith(b"p"):
                table[begin] = end, int(offset, 16), os.fsdecode(path)
    return table


_OWN = b"1"
_KINDS = bytes(
    _OWN[0] if kind & _SWAPPED or (kind & _PRESENT and not kind & _FILE) else 0 for kind in range(256)
)


def _written(begin: int, size: int) -> bytes:
    """For each whole page from `begin` on `_OWN` when this process has one of its own there, and not the file's.

    Empty where the system does not tell.
    """
    try:
        with open("/proc/self/pagemap", "rb", buffering=0) as pagemap:
            pagemap.seek(begin // PAGE * _ENTRY)
            return pagemap.read(size // PAGE * _ENTRY)[_KIND::_ENTRY].translate(_KINDS)
    except OSError:
        return b""


def _edges(span: Span, data: memoryview, path: str) -> bool:
    """Whether the bytes of a chunk before and after what is mapped are the file's, and all of it."""
    if span.first == span.start and span.last == span.stop == span.start + CHUNK:
        return True  # nothing of a blob is longer than a chunk
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:  # the blob is gone
        return False
    try:
        if os.fstat(descriptor).st_size != span.stop - span.start:
            return False
        head = data[max(span.start - LEAD, 0) : span.first - LEAD]
        tail = data[span.last - LEAD : span.stop - LEAD]
        skip = LEAD if span.start == 0 else 0
        return (
            os.pread(descriptor, len(head), skip) == head
            and os.pread(descriptor, len(tail), span.last - span.start) == tail
        )
    finally:
        os.close(descriptor)
