"""What a pickler met: its memo, in which every object is that two units can share."""

from __future__ import annotations

import contextlib
import gc
import io
import pickle
from collections.abc import Iterator
from typing import Any

_GET, _LONG_GET, _STOP = b"h", b"j", b"."  # BINGET, LONG_BINGET: see `pickletools`
_PUT, _LONG_PUT = b"q", b"r"
_PROTOCOL = 2  # the last one whose pickles name the place of each object in the memo
_START = bytes([0x80, _PROTOCOL])


def objects(pickler: Any) -> dict[int, Any]:
    """Every object that the pickler met, by id. Of 300,000 this takes three times as long as to pickle them."""
    with _collector_paused():
        memo = pickler.memo
        entries = memo.copy() if hasattr(memo, "copy") else memo
        return {key: entry[1] for key, entry in entries.items()}


class Probe:
    """Tells of single objects whether a pickler met them, without a list of all.

    A second pickler gets the memo, which C copies fast: what is in it is pickled as its place there and nothing else.
    """

    def __init__(self, pickler: Any) -> None:
        memo = pickler.memo
        self._memo = memo if isinstance(memo, dict) else None
        if self._memo is None:
            self._file = io.BytesIO()
            self._pickler = _Prober(self._file, protocol=_PROTOCOL)
            self._pickler.memo = memo
            self._size = self._place([], _PUT, _LONG_PUT, len(_START) + 1)

    def has(self, obj: Any) -> bool:
        """Whether it met this object; never of an object that is not put into memos, such as a number."""
        if self._memo is not None:
            return id(obj) in self._memo
        place = self._place(obj, _GET, _LONG_GET, len(_START))
        return place is not None and place < self._size

    def _place(self, obj: Any, short: bytes, long: bytes, start: int) -> Any:
        """The place in the memo that the object's pickle names at `start`, when it ends there."""
        self._file.seek(0)
        self._file.truncate()
        try:
            self._pickler.dump(obj)
        except Exception:  # it is not in the memo, and more than a container
            return None
        said = self._file.getvalue()
        for code, size in ((short, 1), (long, 4)):
            end = start + 1 + size
            if said[start : start + 1] == code and said[end:] == _STOP:
                return int.from_bytes(said[start + 1 : end], "little")
        return None


class _Prober(pickle.Pickler):
    def reducer_override(self, obj: Any) -> Any:
        """Runs no code of the user's: whatever gets here was not in the memo."""
        raise LookupError


@contextlib.contextmanager
def _collector_paused() -> Iterator[None]:
    """A list of very many objects, made and dropped, has the collector look at all that there is, over and over."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
