"""Chunks of bytes in the home's blob folder, addressed by their content.

The layout is the store's: `root/address[1:3]/address`, a file written under a temporary name and then renamed.
A long buffer is cut at fixed borders: in eight or more chunks, since a small change costs a whole one, but neither in
very small nor in very large ones. Its first chunk starts with `LEAD` zero bytes, so that a chunk can be mapped
page by page over an array's memory: a large `malloc` block starts 16 bytes past a page border.
"""

from __future__ import annotations

import hashlib
import io
import os
import threading
from collections.abc import Iterator, Mapping
from typing import Any

from .workers import Workers

CHUNK = 4 * 1024 * 1024  # the largest
_SMALLEST = 1024 * 1024
LEAD = 16
_READ = 512 * 1024  # bytes of a file that are hashed at a time
_NONE: Mapping[int, str] = {}

_Bytes = bytes | bytearray | memoryview


def _hasher() -> tuple[str, Any]:
    """The address prefix and what makes a hash: xxh3-128 where xxhash is installed, else sha256."""
    try:
        import xxhash
    except ImportError:
        return "s", hashlib.sha256
    return "x", xxhash.xxh3_128


_PREFIX, _new_hash = _hasher()


def address_of(*parts: _Bytes) -> str:
    """The content address of these bytes in a row: `x` + xxh3-128, or `s` + sha256 where xxhash is missing."""
    digest = _new_hash()
    for part in parts:
        digest.update(part)
    return _PREFIX + str(digest.hexdigest())


def _address_of_file(file: io.FileIO) -> str:
    """The address of a file's content."""
    digest, buffer = _new_hash(), memoryview(bytearray(_READ))
    file.seek(0)
    while count := file.readinto(buffer):
        digest.update(buffer[:count])
    return _PREFIX + str(digest.hexdigest())


def _is_constant(part: _Bytes) -> bool:
    """Whether nobody can change these bytes."""
    return type(part.obj if isinstance(part, memoryview) else part) is bytes


def addresses_of(data: memoryview) -> list[str]:
    """The addresses under which `Folder.put_chunks` stores a long buffer without a lead."""
    return [address_of(data[start:stop]) for start, stop in _borders(len(data), 0, chunk_of(len(data)))]


def chunk_of(size: int) -> int:
    """The bytes of each chunk but the last of a buffer of that many."""
    chunk = CHUNK
    while chunk > _SMALLEST and 8 * chunk > size:
        chunk //= 2
    return chunk


def chunk_stored(size: int, lead: int, count: int) -> int:
    """The same of a buffer that is stored in `count` chunks; older homes have chunks of CHUNK bytes alone."""
    chunk = chunk_of(size)
    return chunk if count == max(1, -(-(size + lead) // chunk)) else CHUNK


class Folder:
    """The home's blob folder, as a kernel on the same file system writes and reads it."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._written: dict[
            str, int
        ] = {}  # bytes of the blobs that were written since the last `take_written`

    def path(self, address: str) -> str:
        """Where the blob of that address lies, whether it is there or not."""
        return os.path.join(self.root, address[1:3], address)

    def put(self, *parts: _Bytes) -> str:
        """Store these bytes in a row (only when they are not there yet) and give their address."""
        address = address_of(*parts)
        return address if self.relies_on(address) else self.write(address, *parts)

    def write(self, address: str, *parts: _Bytes) -> str:
        """Store these bytes, which were found to have that address; gives the address of what has been written.

        It is another one when somebody (a thread of the notebook's, a process that shares the memory) has changed
        them since: under the first, they would be taken for what other states have there.
        """
        temporary = f"{self.path(address)}.{os.getpid()}.{threading.get_ident()}.tmp"
        self._make_room(address)
        try:
            descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_TRUNC, 0o600)
            with open(descriptor, "w+b", buffering=0) as file:
                for part in parts:
                    view = memoryview(part)
                    while len(view):
                        view = view[file.write(view) :]
                if not all(map(_is_constant, parts)):
                    address = _address_of_file(file)
                    self._make_room(address)
            os.replace(temporary, self.path(address))
        except BaseException:
            # A full disk or an interrupt must not leave half a file behind.
            if os.path.exists(temporary):
                os.unlink(temporary)
            raise
        self._written[address] = sum(map(len, parts))
        return address

    def _make_room(self, address: str) -> None:
        os.makedirs(os.path.dirname(self.path(address)), mode=0o700, exist_ok=True)

    def relies_on(self, address: str) -> bool:
        """Tell a collector that somebody has just begun to rely on that blob; whether it is there."""
        try:
            os.utime(self.path(address))
        except FileNotFoundError:
            return False
        return True

    def take_written(self) -> int:
        """The bytes written since the last call."""
        written, self._written = self._written, {}
        return sum(written.values())

    def put_chunks(self, data: memoryview, lead: int = 0, known: Mapping[int, str] = _NONE) -> list[str]:
        """Store a long buffer in chunks; `lead` zero bytes are put before its first byte.

        `known` are the addresses of chunks, by number, that the caller knows to be the content of these blobs. Once
        one is found that is not there, the others are seen to by several threads: of a machine's memory that nothing
        has used yet, a file of 16 MB takes 50 ms, and two cores give it in 30.
        """
        storing = _Storing(self, data, lead, known)
        try:
            storing.store()
        finally:
            storing.workers.join()
        return [storing.addresses[number] for number in range(len(storing.addresses))]

    def read_chunks(self, addresses: list[str], size: int, lead: int = 0) -> bytearray:
        """The bytes of a long buffer, in fresh memory: one copy."""
        data = bytearray(size)
        view = memoryview(data)
        chunk = chunk_stored(size, lead, len(addresses))
        for address, (start, stop) in zip(addresses, _borders(size, lead, chunk), strict=True):
            self.read_into(address, view[start:stop], skip=lead if start == 0 else 0)
        return data

    def read(self, address: str) -> bytes:
        """A whole blob."""
        with open(self.path(address), "rb", buffering=0) as file:
            return file.read()

    def read_into(self, address: str, target: memoryview, skip: int = 0) -> None:
        """Fill `target` from a blob, from byte `skip` of it on; EOFError when it is too short."""
        with open(self.path(address), "rb", buffering=0) as file:
            if skip:
                file.seek(skip)
            while len(target):
                count = file.readinto(target)
                if not count:
                    raise EOFError(f"blob {address} is too short")
                target = target[count:]


class _Storing:
    """The chunks of one long buffer, on their way into the folder."""

    def __init__(self, folder: Folder, data: memoryview, lead: int, known: Mapping[int, str]) -> None:
        self.addresses: dict[int, str] = {}
        self.workers = Workers()
        self._folder, self._data, self._lead, self._known = folder, data, lead, known
        borders = list(_borders(len(data), lead, chunk_of(len(data))))
        self._count = len(borders)
        self._waiting = enumerate(borders)

    def store(self) -> None:
        """Store chunks that nobody has begun with, until there are no more."""
        folder = self._folder
        for number, (start, stop) in self._waiting:
            address = self._known.get(number)
            if address is None or not folder.relies_on(address):
                parts = bytes(self._lead if start == 0 else 0), self._data[start:stop]
                address = address_of(*parts)
                if not folder.relies_on(address):
                    self.workers.hire(self.store, self._count - number - 1)
                    address = folder.write(address, *parts)
            self.addresses[number] = address


def _borders(size: int, lead: int, chunk: int) -> Iterator[tuple[int, int]]:
    """The (start, stop) of each chunk in a buffer of that many bytes, `lead` bytes being put before it."""
    start, stop = 0, chunk - lead
    while start < size or start == 0:
        yield start, min(stop, size)
        start, stop = stop, stop + chunk
