"""A state in one file that another home can take in: its record, its cells, and the blobs that it needs.

The file is a zip. Its first member is `state-DIGEST.json`, named by the SHA-256 of its content:

    {"format": 1, "name", "code", "cells": [texts of the cells that led to it, the first one first], "info",
     "order": [names], "units": [{"key", "digest", "names", "record", "data": base64 or null, "blobs", "size"}],
     "results": [[kind, key, value] of the home's cache that go with it]}

The others are `blobs/ADDRESS`, one for each address that a unit names, stored as they are.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import secrets
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from bridge.errors import ArchiveError, Conflict, HomeDamaged
from bridge.store.blobs import is_address, verified
from bridge.store.contents import to_json
from bridge.store.manifest import Manifest, State, Unit
from bridge.store.store import Store
from bridge.store.sweep import Progress, no_progress

FORMAT = 1
WRITING, CHECKING, IMPORTING = "writing", "checking", "importing"
_LONGEST_RECORD = 1 << 30
_PIECE = 1 << 20

Result = tuple[str, str, Any]  # kind, key, value


def write(
    store: Store,
    name: str,
    state: State,
    target: Path,
    results: Sequence[Result] = (),
    progress: Progress = no_progress,
) -> int:
    """Write a state, which the caller has pinned, to a new file; gives its size in bytes.

    HomeDamaged when a blob is not what its address says; ArchiveError when the file is there or cannot be written.
    Nothing is left of a file that was not finished.
    """
    record = _encode(store, name, state, results)
    addresses = _addresses(state.manifest)
    total = sum(map(store.blobs.size, addresses))
    draft = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    done = 0
    try:
        try:
            with zipfile.ZipFile(draft, "x") as file:
                member = f"state-{hashlib.sha256(record).hexdigest()}.json"
                file.writestr(member, record, zipfile.ZIP_DEFLATED)
                for address in addresses:
                    with file.open(zipfile.ZipInfo(f"blobs/{address}"), "w", force_zip64=True) as sink:
                        for piece in verified(address, store.blobs.read(address)):
                            sink.write(piece)
                            done += len(piece)
                            progress(WRITING, done, total)
            os.link(draft, target)  # unlike a move, it never takes the place of another file
            return target.stat().st_size
        except ValueError as error:
            raise HomeDamaged(str(error)) from error
        finally:
            draft.unlink(missing_ok=True)
    except FileExistsError:
        raise ArchiveError(f"{target} exists already") from None
    except OSError as error:
        raise ArchiveError(f"{target} cannot be written: {error.strerror}") from error


class Archive:
    """An exported state, open for reading. ArchiveError for what is not whole or not such a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file = zipfile.ZipFile(path)
        except FileNotFoundError:
            raise ArchiveError(f"there is no file {path}") from None
        except OSError as error:
            raise ArchiveError(f"{path} cannot be read: {error.strerror}") from error
        except zipfile.BadZipFile as error:
            raise ArchiveError(f"{path} is damaged, or no exported state: {error}") from error
        try:
            self._record = self._read_record()
            self.name = str(self._record["name"])
            self._manifest = _decode_manifest(self._record)
        except ArchiveError:
            self._file.close()
            raise
        except (ValueError, LookupError, TypeError) as error:
            self._file.close()
            raise ArchiveError(f"{path} is damaged: its record cannot be read ({error})") from error

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def load(self, store: Store, workspace: str, name: str, progress: Progress = no_progress) -> State:
        """Store the state under a name that is free. The whole file is checked before anything is stored.

        Conflict when the name is taken; StoreError when the home cannot take it.
        """
        if name in store.names(workspace):
            raise Conflict(f"there is a state {name!r} in the workspace {workspace!r} already")
        addresses = _addresses(self._manifest)
        for _ in self._pieces(addresses, CHECKING, progress):
            pass
        total = sum(map(self._size, addresses))
        done = 0
        for address in addresses:
            store.blobs.add(address, self._pieces([address]))
            done += self._size(address)
            progress(IMPORTING, done, total)
        inputs: int | None = None
        for cell in self._record["cells"]:
            inputs = store.add_input(inputs, cell)
        for kind, key, value in self._record["results"]:
            store.cache_put(kind, key, value)
        return store.put(
            workspace,
            name,
            parent=None,
            code=self._record["code"],
            inputs=inputs,
            info=self._record["info"],
            manifest=self._manifest,
        )

    def _read_record(self) -> dict[str, Any]:
        first = self._file.infolist()[0] if self._file.infolist() else None
        if first is None or not first.filename.startswith("state-") or first.file_size > _LONGEST_RECORD:
            raise ArchiveError(f"{self.path} is no exported state")
        data = b"".join(self._chunks(first))
        if first.filename != f"state-{hashlib.sha256(data).hexdigest()}.json":
            raise ArchiveError(f"{self.path} is damaged: its record is not what its digest says")
        record: dict[str, Any] = json.loads(data)
        if record["format"] > FORMAT:
            raise ArchiveError(
                f"{self.path} was written by a later version (its format is {record['format']},"
                f" this one reads up to {FORMAT})"
            )
        return record

    def _pieces(
        self, addresses: Sequence[str], what: str = "", progress: Progress = no_progress
    ) -> Iterator[bytes]:
        """The bytes of these blobs one after the other, each found to be what its address says."""
        total, done = sum(map(self._size, addresses)), 0
        for address in addresses:
            try:
                for piece in verified(address, self._chunks(self._info(address))):
                    done += len(piece)
                    progress(what, done, total)
                    yield piece
            except ValueError as error:
                raise ArchiveError(f"{self.path} is damaged: {error}") from error

    def _chunks(self, member: zipfile.ZipInfo) -> Iterator[bytes]:
        try:
            with self._file.open(member) as source:
                yield from _in_pieces(source)
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
            raise ArchiveError(f"{self.path} is damaged: {member.filename}: {error}") from error
        except OSError as error:
            raise ArchiveError(f"{self.path} cannot be read: {error}") from error

    def _info(self, address: str) -> zipfile.ZipInfo:
        try:
            return self._file.getinfo(f"blobs/{address}")
        except KeyError:
            raise ArchiveError(f"{self.path} is damaged: it lacks the blob {address}") from None

    def _size(self, address: str) -> int:
        return self._info(address).file_size


def _in_pieces(source: IO[bytes]) -> Iterator[bytes]:
    while piece := source.read(_PIECE):
        yield piece


def _addresses(manifest: Manifest) -> list[str]:
    """What the units need, each once."""
    return list(dict.fromkeys(address for unit in manifest.units.values() for address in unit.blobs))


def _encode(store: Store, name: str, state: State, results: Sequence[Result]) -> bytes:
    record = {
        "format": FORMAT,
        "name": name,
        "code": state.code,
        "cells": store.inputs(state.inputs),
        "info": dict(state.info),
        "order": state.manifest.order,
        "units": [
            {
                "key": unit.key,
                "digest": unit.digest,
                "names": unit.names,
                "record": dict(unit.record),
                "data": None if unit.data is None else base64.b64encode(unit.data).decode(),
                "blobs": unit.blobs,
                "size": unit.size,
            }
            for unit in state.manifest.units.values()
        ],
        "results": results,
    }
    return to_json(record).encode()


def _decode_manifest(record: dict[str, Any]) -> Manifest:
    """The manifest in a record. ValueError, LookupError or TypeError for one that is none."""
    units = {}
    for one in record["units"]:
        data = None if one["data"] is None else base64.b64decode(one["data"], validate=True)
        blobs = tuple(one["blobs"])
        if not all(map(is_address, blobs)):
            raise ValueError(f"{one['key']!r} names a blob by what is no address")
        names = tuple(one["names"])
        units[one["key"]] = Unit(one["key"], one["digest"], names, one["record"], data, blobs, one["size"])
    return Manifest(units, tuple(record["order"]))
