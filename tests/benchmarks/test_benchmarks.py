"""`make bench` prints the table of `bench_bridge`; figures are for reading, nothing is asserted of them."""

from __future__ import annotations

import pytest

from tests.benchmarks import bench_bridge


@pytest.mark.bench
def test_print_the_table() -> None:
    print()
    bench_bridge.main()
