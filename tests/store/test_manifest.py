"""The pure half: packing of row numbers, cutting of lists."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from bridge.store.manifest import cut_names, cut_rows, pack, timestamp, to_bytes, to_text, unpack

ROWS = [
    [],
    [0],
    [1, 2, 3],
    [5, 4, 3, 1_000_000, 2],
    [2**40, 1, 2**62],
    [-1, -64, -65, 64, 63],
    list(range(1, 2000)),
]


@pytest.mark.parametrize("rows", ROWS, ids=lambda rows: f"{len(rows)}-{rows[:1]}")
def test_packed_numbers_come_back(rows: list[int]) -> None:
    assert unpack(pack(rows)) == tuple(rows)


def test_neighbours_take_a_byte_each() -> None:
    assert len(pack(range(1, 1001))) == 1000


def test_bytes_that_end_inside_a_number_are_an_error() -> None:
    with pytest.raises(ValueError, match="too early"):
        unpack(pack([1, 10_000])[:-1])


@pytest.mark.parametrize("rows", [*ROWS, [32] * 1000], ids=lambda rows: f"{len(rows)}-{rows[:1]}")
def test_pieces_together_are_the_list(rows: list[int]) -> None:
    pieces = cut_rows(rows)
    assert [row for piece in pieces for row in piece] == rows
    assert all(0 < len(piece) <= 256 for piece in pieces)


@pytest.mark.parametrize("change", ["replace", "insert", "delete"])
def test_one_change_leaves_nearly_all_pieces_as_they_were(change: str) -> None:
    before = list(range(1, 1001))
    after = list(before)
    if change == "replace":
        after[500] = 5000
    elif change == "insert":
        after.insert(500, 5000)
    else:
        del after[500]
    assert len(set(cut_rows(after)) - set(cut_rows(before))) == 1


def test_a_name_at_the_end_changes_the_last_piece_only() -> None:
    order = tuple(f"name{index}" for index in range(1000))
    assert len(set(cut_names((*order, "more"))) - set(cut_names(order))) == 1
    assert tuple(name for piece in cut_names(order) for name in piece) == order


def test_timestamps_are_utc_with_microseconds() -> None:
    moment = datetime(2026, 12, 2, 1, 2, 3, 45, timezone(timedelta(hours=2)))
    assert timestamp(moment) == "2026-12-01T23:02:03.000045Z"


@pytest.mark.parametrize("name", ["", "x", "ä/ü:\0\n", "\ud800 alone", "🌲"])
def test_any_text_is_a_name(name: str) -> None:
    assert to_text(to_bytes(name)) == name
