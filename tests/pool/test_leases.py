"""Who gets which kernel, as tables: no process is started here."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest

from bridge.pool.leases import Leases, Waiter


@dataclass(eq=False)
class Seat:
    """A kernel as far as a decision is concerned."""

    id: str
    used: bool = False
    alive: bool = True
    cost: float = 0.0


def cost(seat: Seat) -> float:
    return seat.cost


def leases(size: int, *seats: Seat, leased: tuple[Seat, ...] = (), starting: int = 0) -> Leases[Seat]:
    made: Leases[Seat] = Leases(size)
    made.idle = list(seats)
    made.leased = {seat.id: seat for seat in leased}
    made.starting = starting
    return made


def ask(book: Leases[Seat], *waiters: Waiter[Seat]) -> list[str | None]:
    book.waiting.extend(waiters)
    book.match()
    return [waiter.kernel.id if waiter.kernel else None for waiter in waiters]


def used(name: str, cost: float = 0.0) -> Seat:
    return Seat(name, used=True, cost=cost)


def new(name: str, cost: float = 0.0) -> Seat:
    return Seat(name, cost=cost)


@pytest.mark.parametrize(
    ("seats", "waiter", "chosen"),
    [
        ([used("a", 5), used("b", 1)], Waiter(rank=cost), "b"),
        ([used("a", 5), new("n", 1)], Waiter(rank=cost), "n"),
        ([used("a", 1), new("n", 1)], Waiter(rank=cost), "n"),
        ([used("a"), used("b")], Waiter(), "a"),
        ([used("a"), new("n")], Waiter(), "n"),
        ([used("a"), new("n")], Waiter(fresh=True), "n"),
        ([used("a")], Waiter(fresh=True), None),
        ([used("a", math.inf)], Waiter(rank=cost), None),
        ([used("a", math.inf), new("n", math.inf)], Waiter(rank=cost), "n"),
        ([used("a", math.inf), used("b", 9)], Waiter(rank=cost, only="a"), "a"),
        ([used("a", 1), used("b", 9)], Waiter(rank=cost, only="gone"), "a"),
        ([Seat("a", used=True, alive=False)], Waiter(), None),
    ],
)
def test_which_idle_kernel_is_chosen(seats: list[Seat], waiter: Waiter[Seat], chosen: str | None) -> None:
    assert ask(leases(2, *seats), waiter) == [chosen]


def test_a_new_kernel_is_left_alone_when_there_is_no_room_for_one_more_that_was_used() -> None:
    assert ask(leases(1, new("n"), used("a")), Waiter()) == ["a"]
    assert ask(leases(2, new("n"), used("a"), leased=(used("b"),)), Waiter()) == ["a"]


def test_no_more_than_size_are_leased() -> None:
    book = leases(2, new("a"), new("b"), new("c"))
    assert ask(book, Waiter(), Waiter(), Waiter()) == ["a", "b", None]
    assert sorted(book.leased) == ["a", "b"]


def test_first_come_first_served() -> None:
    busy = used("a")
    book = leases(1, leased=(busy,))
    first, second = Waiter[Seat](), Waiter[Seat]()
    assert ask(book, first, second) == [None, None]
    book.give_back(busy)
    book.match()
    assert (first.kernel, second.kernel) == (busy, None)


def test_who_waits_for_a_new_kernel_keeps_their_place() -> None:
    book = leases(2, used("a"), leased=(used("b"),))
    assert ask(book, Waiter(fresh=True), Waiter()) == [None, None]
    assert book.wanted() == 1


def test_who_waits_for_a_leased_kernel_holds_up_nobody() -> None:
    busy = used("b")
    book = leases(2, used("a"), leased=(busy,))
    tied = Waiter[Seat](only="b")
    assert ask(book, tied, Waiter()) == [None, "a"]
    book.give_back(busy)
    book.match()
    assert tied.kernel is busy


def test_who_waits_for_a_kernel_that_dies_gets_another() -> None:
    busy = used("b")
    book = leases(2, new("n"), leased=(busy,))
    tied = Waiter[Seat](only="b")
    assert ask(book, tied) == [None]
    busy.alive = False
    book.match()
    assert tied.kernel is not None
    assert tied.kernel.id == "n"


def test_a_rank_that_fails_fails_its_own_waiter() -> None:
    def bad(seat: Seat) -> float:
        raise ZeroDivisionError

    faulty, other = Waiter[Seat](rank=bad), Waiter[Seat]()
    assert ask(leases(1, new("a")), faulty, other) == [None, "a"]
    assert isinstance(faulty.error, ZeroDivisionError)


@pytest.mark.parametrize(
    ("size", "idle", "leased", "starting", "waiters", "wanted"),
    [
        (2, [], [], 0, [], 1),  # warm-up goes one at a time
        (2, [], [], 1, [], 0),
        (2, [new("a")], [], 0, [], 1),
        (2, [new("a"), new("b")], [], 0, [], 1),  # the spare
        (2, [new("a"), new("b"), new("c")], [], 0, [], 0),
        (2, [], [], 0, [Waiter(), Waiter(), Waiter()], 2),  # as many as may be leased
        (2, [], [], 1, [Waiter(), Waiter()], 1),
        (2, [used("a", math.inf)], [], 0, [Waiter(rank=cost)], 1),
        (1, [], [used("a")], 0, [Waiter()], 1),  # the spare, though nobody may have it yet
        (1, [], [used("a")], 1, [Waiter()], 0),
        (1, [new("n")], [used("a")], 0, [Waiter(), Waiter()], 0),
    ],
)
def test_how_many_to_start(
    size: int, idle: list[Seat], leased: list[Seat], starting: int, waiters: list[Waiter[Seat]], wanted: int
) -> None:
    book = leases(size, *idle, leased=tuple(leased), starting=starting)
    ask(book, *waiters)
    assert book.wanted() == wanted


@pytest.mark.parametrize(
    ("size", "idle", "leased", "starting", "ended"),
    [
        (2, [used("a"), used("b"), new("n")], [], 0, []),
        (2, [used("a"), used("b")], [used("c")], 0, ["a"]),  # three used: the oldest makes room for a spare
        (1, [used("a")], [used("b")], 1, ["a"]),
        (2, [used("a"), new("m"), new("n")], [used("b")], 0, ["a"]),
        (1, [new("m"), new("n")], [], 0, []),
    ],
)
def test_which_kernels_are_too_many(
    size: int, idle: list[Seat], leased: list[Seat], starting: int, ended: list[str]
) -> None:
    book = leases(size, *idle, leased=tuple(leased), starting=starting)
    assert [seat.id for seat in book.surplus()] == ended
    assert book.surplus() == []


@pytest.mark.parametrize(
    ("idle", "leased", "waiter", "hopeless"),
    [
        ([], [], Waiter(), True),
        ([], [used("a")], Waiter(), False),
        ([], [used("a")], Waiter(fresh=True), True),
        ([used("a", math.inf)], [], Waiter(rank=cost), True),
        ([used("a", math.inf)], [used("b")], Waiter(rank=cost), False),
    ],
)
def test_who_waits_in_vain_when_no_kernel_starts(
    idle: list[Seat], leased: list[Seat], waiter: Waiter[Seat], hopeless: bool
) -> None:
    book = leases(2, *idle, leased=tuple(leased))
    ask(book, waiter)
    assert (book.hopeless() == [waiter]) is hopeless


def test_dead_and_foreign_kernels_do_not_come_back() -> None:
    dead, busy = used("d"), used("b")
    book = leases(2, leased=(dead, busy))
    dead.alive = False
    assert [book.give_back(dead), book.give_back(busy), book.give_back(busy)] == [False, True, False]
    assert book.idle == [busy]
