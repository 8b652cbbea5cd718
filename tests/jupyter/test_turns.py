"""The order of the messages, without any kernel."""

from __future__ import annotations

from typing import Any

from bridge.jupyter.turns import Turns
from bridge.pool.wire import Letter, Wire

WIRE = Wire(b"key")


def letter(kind: str, **header: Any) -> Letter:
    made = WIRE.letter(kind, {})
    made.put(0, {**made.header, **header})
    return made


def ready() -> Turns:
    turns = Turns()
    assert turns.resume() == []
    return turns


def test_nothing_goes_before_there_is_a_kernel() -> None:
    turns = Turns()
    info, comm = letter("kernel_info_request"), letter("comm_open")
    assert turns.arrive(info) == turns.arrive(comm) == []
    assert turns.resume() == [info, comm]


def test_one_cell_at_a_time_and_what_follows_it_in_order() -> None:
    turns = ready()
    one, two, asked = letter("execute_request"), letter("execute_request"), letter("complete_request")
    assert turns.arrive(one) == [one]
    assert turns.arrive(asked) == [asked]
    assert turns.arrive(two) == turns.arrive(asked) == []
    assert turns.end() == [two, asked]


def test_comms_and_subshells_wait_for_no_cell() -> None:
    turns = ready()
    turns.arrive(letter("execute_request"))
    turns.arrive(letter("execute_request"))
    for free in (letter("comm_msg"), letter("execute_request", subshell_id="a")):
        assert turns.arrive(free) == [free]


def test_an_abort_takes_the_cells_and_leaves_the_rest() -> None:
    turns = ready()
    cells = [letter("execute_request") for _ in range(3)]
    asked = letter("inspect_request")
    for each in (*cells[:2], asked, cells[2]):
        turns.arrive(each)
    assert turns.abort() == cells[1:]
    assert turns.end() == [asked]
