"""Functions under `functools.lru_cache`: what they had cached, in order, and how often it was asked for.

A wrapper is opaque to Python. What is in it is read, and its counts are set, where CPython's own layout proves right.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import sys
import types
from typing import TYPE_CHECKING, Any

from . import rebuild, reducers

if TYPE_CHECKING:
    from .reducers import Saving

_WORD = ctypes.sizeof(ctypes.c_void_p)


def reduce(saving: Saving, obj: Any) -> Any:
    """A function under `lru_cache`, with its cache as far as it can be read."""
    if reducers.by_reference(obj):
        return NotImplemented
    parameters = obj.cache_parameters()
    maxsize, typed = parameters["maxsize"], parameters["typed"]
    function = obj.__wrapped__
    state = {key: value for key, value in obj.__dict__.items() if key != "__wrapped__"}
    entries = _cache_entries(obj, maxsize, function)
    counts = obj.cache_info()[:2]
    return (
        rebuild.counted,
        (function, maxsize, typed, entries, counts),
        state or None,
        None,
        None,
        rebuild.set_dict,
    )


def _cache_entries(wrapper: Any, maxsize: int | None, function: Any) -> list[tuple[Any, Any]] | None:
    """What is cached, oldest first, or None where that cannot be read back."""
    plain = type(function) is types.FunctionType and function.__closure__ is None
    if maxsize == 0 or (maxsize is not None and not plain):
        return None
    cache = next(
        (held for held in gc.get_referents(wrapper) if type(held) is dict and held is not wrapper.__dict__),
        None,
    )
    if not cache:
        return None
    if maxsize is None:
        return list(cache.items())
    entries = _linked_entries({id(link): key for key, link in cache.items()})
    # Keyword arguments stand behind a mark that is private to functools.
    marked = any(type(part) is object for key in cache if type(key) is tuple for part in key)
    return None if marked else entries


def _linked_entries(links: dict[int, Any]) -> list[tuple[Any, Any]] | None:
    """The keys and results of a bounded cache in the order of their use; `links` are its links' addresses and keys.

    The links are opaque to Python: their layout is `lru_list_elem` of CPython's _functoolsmodule.c (prev, next, hash,
    key, result after the object's head). None where that does not prove right.
    """
    word = ctypes.sizeof(ctypes.c_void_p)

    def word_of(address: int, number: int) -> int:
        return int(ctypes.c_void_p.from_address(address + object.__basicsize__ + number * word).value or 0)

    if sys.implementation.name != "cpython" or any(word_of(at, 3) != id(key) for at, key in links.items()):
        return None
    first = next(iter(links))
    for _ in links:
        before = word_of(first, 0)
        if before not in links:
            break
        first = before
    entries: list[tuple[Any, Any]] = []
    while first in links and len(entries) < len(links):
        entries.append((links[first], ctypes.cast(word_of(first, 4), ctypes.py_object).value))
        first = word_of(first, 1)
    return entries if len(entries) == len(links) else None


def set_counts(wrapper: Any, hits: int, misses: int) -> None:
    """Make these a wrapper's counts of hits and misses, where it is known where they lie."""
    places = _places()
    if places is not None:
        for place, count in zip(places, (hits, misses), strict=True):
            ctypes.c_ssize_t.from_address(id(wrapper) + place).value = count


@functools.cache
def _places() -> tuple[int, int] | None:
    """Where in a wrapper the two counts lie, in bytes from its start: found out with two whose counts are known."""
    if sys.implementation.name != "cpython":
        return None
    found = []
    for hits, misses in ((31, 17), (23, 41)):
        wrapper = functools.lru_cache(maxsize=None)(lambda key: key)
        for key in range(misses):
            wrapper(key)
        for _ in range(hits):
            wrapper(0)
        size = type(wrapper).__basicsize__
        words = [ctypes.c_ssize_t.from_address(id(wrapper) + place).value for place in range(0, size, _WORD)]
        found.append(
            [{at * _WORD for at, word in enumerate(words) if word == count} for count in (hits, misses)]
        )
    places = [one & other for one, other in zip(*found, strict=True)]
    return (places[0].pop(), places[1].pop()) if all(len(each) == 1 for each in places) else None


reducers.enter(functools._lru_cache_wrapper, reduce)
