"""A home of a test's own, and a store on it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bridge.store.store import Store
from tests.store.support import opened


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the test's home is, once something opens it."""
    return tmp_path / "home"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    """A store on a new home."""
    with opened(path) as made:
        yield made
