"""`pytest -m bench -s` prints the tables of single paths, for reading; `make bench` that of whole workloads."""

from __future__ import annotations

import pytest

from tests.benchmarks import bench_bridge, bench_jupyter, bench_loops, bench_many


@pytest.mark.bench
def test_print_the_table() -> None:
    print()
    bench_bridge.main()


@pytest.mark.bench
def test_print_what_the_bridge_kernel_adds() -> None:
    print()
    bench_jupyter.main()


@pytest.mark.bench
def test_print_what_user_code_costs() -> None:
    print()
    bench_loops.main()


@pytest.mark.bench
def test_print_what_many_states_cost() -> None:
    print()
    bench_many.main()
