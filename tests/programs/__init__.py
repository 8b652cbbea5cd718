"""Notebooks as tables of cells, written so that a state that is not quite what it was shows in what they print.

Each is run as it stands in a plain kernel, and cell by cell from states: `tests/test_differential.py` compares. What
they print is stable in a plain kernel: no addresses, no times, no order that follows `id()`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Program:
    """One notebook. `fresh` are the numbers of the cells that are tried in fresh kernels too (all in the soak run).

    One with `files` is given an empty folder to work in.
    """

    id: str
    cells: tuple[str, ...]
    fresh: tuple[int, ...] = ()
    needs: tuple[str, ...] = ()
    files: bool = False
