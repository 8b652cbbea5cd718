"""Large immutable byte strings by the address of their content, and where they lie."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from bridge.errors import HomeDamaged, StoreError

_ADDRESS = re.compile(r"x[0-9a-f]{32}|s[0-9a-f]{64}")


def is_address(text: str) -> bool:
    """Whether the text has the form of an address."""
    return _ADDRESS.fullmatch(text) is not None


def verified(address: str, pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The same pieces; ValueError at the end when they are not what the address says."""
    digest = _hasher(address)
    for piece in pieces:
        digest.update(piece)
        yield piece
    if address[1:] != digest.hexdigest():
        raise ValueError(f"the blob {address} is not what its address says")


def _hasher(address: str) -> Any:
    if address.startswith("s"):
        return hashlib.sha256()
    try:
        import xxhash
    except ImportError as error:
        raise StoreError(f"the blob {address} is addressed with xxh3: install xxhash") from error
    return xxhash.xxh3_128()


def default_algorithm() -> str:
    """The algorithm of a new home: "xxh3" where xxhash is installed, else "sha256"."""
    try:
        import xxhash  # noqa: F401
    except ImportError:
        return "sha256"
    return "xxh3"


def address_of(data: bytes | memoryview, algorithm: str) -> str:
    """The content's address: "x" and 32 hex digits of xxh3-128, or "s" and 64 of SHA-256."""
    if algorithm == "sha256":
        return "s" + hashlib.sha256(data).hexdigest()
    if algorithm != "xxh3":
        raise StoreError(f"this home addresses its content with {algorithm!r}, which is not known here")
    try:
        import xxhash
    except ImportError as error:
        raise StoreError("this home addresses its content with xxh3: install xxhash") from error
    return "x" + xxhash.xxh3_128_hexdigest(data)


class BlobStore(ABC):
    """Where blobs lie. Called by the store and the engine; kernels write local folders by themselves."""

    @abstractmethod
    def put(self, data: bytes | memoryview) -> str:
        """Keep the bytes and give their address; bytes kept before count as written now."""

    @abstractmethod
    def get(self, address: str) -> bytes:
        """The bytes at the address. HomeDamaged when they are not there."""

    @abstractmethod
    def add(self, address: str, pieces: Iterable[bytes]) -> None:
        """Keep bytes whose address is known; bytes kept before count as written now, and `pieces` are left alone.

        An error of `pieces` leaves nothing.
        """

    @abstractmethod
    def read(self, address: str) -> Iterator[bytes]:
        """The bytes at the address, in pieces. HomeDamaged when they are not there."""

    @abstractmethod
    def has(self, address: str) -> bool:
        """Whether the address is kept."""

    @abstractmethod
    def age(self, address: str, now: float) -> float | None:
        """Seconds from the last write to `now` (seconds since the epoch); None when not kept."""

    @abstractmethod
    def size(self, address: str) -> int:
        """Bytes at the address; 0 when not kept."""

    @abstractmethod
    def delete(self, address: str) -> int:
        """Forget the address and give the bytes freed; 0 when it was not kept."""

    @abstractmethod
    def list(self) -> Iterator[str]:
        """Every kept address, in no order."""

    def tidy(self, older_than: float, now: float) -> int:
        """Remove what broken-off writes left behind over so many seconds ago; gives the bytes freed."""
        return 0


class FolderBlobs(BlobStore):
    """Blobs as files, `root/ab/xab…`, each written under a temporary name and then moved into its place."""

    def __init__(self, root: Path, algorithm: str) -> None:
        self.root = root
        self._algorithm = algorithm
        self._base = str(root)

    def path(self, address: str) -> str:
        """Where the file of `address` is or would be. StoreError for what is not an address."""
        if not _ADDRESS.fullmatch(address):
            raise StoreError(f"{address!r} is not a blob's address")
        return os.path.join(self._base, address[1:3], address)

    def put(self, data: bytes | memoryview) -> str:
        """Keep the bytes and give their address. StoreError when the disk is full; nothing is left then."""
        address = address_of(data, self._algorithm)
        self.add(address, [data])
        return address

    def add(self, address: str, pieces: Iterable[bytes | memoryview]) -> None:
        """Keep the pieces as the file of that address. StoreError when the disk is full; nothing is left then."""
        path = self.path(address)
        try:
            os.utime(path)  # the sweep spares what is young
            return
        except FileNotFoundError:
            pass  # the usual case: these bytes are new
        folder = os.path.dirname(path)
        draft = os.path.join(folder, f".{secrets.token_hex(8)}.tmp")
        try:
            os.makedirs(folder, mode=0o700, exist_ok=True)
            try:
                with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                    file.writelines(pieces)
                os.replace(draft, path)
            except BaseException:
                Path(draft).unlink(missing_ok=True)
                raise
        except OSError as error:
            raise StoreError(f"a blob could not be written to {folder}: {error.strerror}") from error

    def read(self, address: str) -> Iterator[bytes]:
        """The file's bytes, a mebibyte at a time."""
        try:
            with open(self.path(address), "rb") as file:
                while piece := file.read(1 << 20):
                    yield piece
        except OSError as error:
            raise HomeDamaged(f"the blob {self.path(address)} cannot be read: {error.strerror}") from error

    def get(self, address: str) -> bytes:
        """The file's bytes."""
        try:
            return Path(self.path(address)).read_bytes()
        except OSError as error:
            raise HomeDamaged(f"the blob {self.path(address)} cannot be read: {error.strerror}") from error

    def has(self, address: str) -> bool:
        """Whether the file is there."""
        return os.path.exists(self.path(address))

    def age(self, address: str, now: float) -> float | None:
        """Seconds since the file was written or reused."""
        try:
            return now - os.stat(self.path(address)).st_mtime
        except FileNotFoundError:
            return None

    def size(self, address: str) -> int:
        """The file's length."""
        try:
            return os.stat(self.path(address)).st_size
        except FileNotFoundError:
            return 0

    def delete(self, address: str) -> int:
        """Remove the file."""
        return _remove(self.path(address))

    def list(self) -> Iterator[str]:
        """The names of all files that are blobs."""
        return (name for _, name in self._files() if _ADDRESS.fullmatch(name))

    def tidy(self, older_than: float, now: float) -> int:
        """Remove temporary files of processes that were killed while writing."""
        freed = 0
        for path, name in self._files():
            if not _ADDRESS.fullmatch(name):
                try:
                    old = now - os.stat(path).st_mtime > older_than
                except FileNotFoundError:  # its writer has just finished
                    continue
                freed += _remove(path) if old else 0
        return freed

    def _files(self) -> Iterator[tuple[str, str]]:
        for folder in os.scandir(self._base):
            if folder.is_dir(follow_symlinks=False):
                for entry in os.scandir(folder.path):
                    yield entry.path, entry.name


def _remove(path: str) -> int:
    try:
        size = os.stat(path).st_size
        os.unlink(path)
    except FileNotFoundError:
        return 0
    return size
