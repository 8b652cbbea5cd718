"""The cache of small results."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridge.store import results
from bridge.store.store import Store
from tests.store.support import opened


def test_results_are_kept_by_kind_and_key(path: Path) -> None:
    with opened(path) as store:
        store.cache_put("hash", "x", "abc")
        store.cache_put("repr", "x", {"data": ["ä\ud800", None]})
        store.cache_put("hash", "x", "newer")
    with opened(path) as store:
        assert store.cache_get("hash", "x") == "newer"
        assert store.cache_get("repr", "x") == {"data": ["ä\ud800", None]}
        assert store.cache_get("hash", "y") is None


def test_one_that_is_too_long_is_not_kept(store: Store) -> None:
    store.cache_put("repr", "x", "r" * results.LONGEST_VALUE)
    assert store.cache_get("repr", "x") is None


@pytest.mark.parametrize("bound", [{"entries": 3}, {"total": 24}])
def test_the_oldest_go_first(store: Store, bound: dict[str, int]) -> None:
    for key in "abcde":
        store.cache_put("hash", key, "123456")  # eight characters of JSON
    store.cache_put("hash", "b", "again!")
    store._results.trim(**bound)
    assert [key for key in "abcde" if store.cache_get("hash", key) is not None] == ["b", "d", "e"]


def test_it_stays_bounded_without_being_asked(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    trim = store._results.trim
    monkeypatch.setattr(store._results, "trim", lambda: trim(entries=10))
    for number in range(200):
        store.cache_put("hash", str(number), number)
    assert sum(store.cache_get("hash", str(number)) is not None for number in range(200)) < 100
    assert store.cache_get("hash", "199") == 199
