"""The engine of one kernel that most files here share, each its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bridge import Kernel, Settings


@pytest.fixture(scope="module")
def kernel(nothing_left_behind: None) -> Iterator[Kernel]:
    """One engine with one kernel: what a cell breaks would be met by the next."""
    made = Kernel(Settings(ephemeral=True, pool_size=1))
    try:
        yield made
    finally:
        made.close()
