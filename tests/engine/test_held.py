"""What a switch loads and drops, and which kernel is the cheapest."""

from __future__ import annotations

import pytest

from bridge.engine.held import Held, cost, home_of_live, plan
from bridge.store.manifest import Unit
from tests.engine.manifests import manifest, state, unit

BOX = unit("Box", nodes=["Box#1"], digest="box 1")
CHANGED_BOX = unit("Box", nodes=["Box#1"], digest="box 2")
INSTANCE = unit("b", refs=["Box#1"], digest="b")
NUMBER = unit("n", digest="n")


def held(*units: Unit) -> Held:
    return Held("k1", units={one.key: one for one in units})


@pytest.mark.parametrize(
    ("have", "want", "dropped", "loaded"),
    [
        ([], [NUMBER], [], ["u:n"]),
        ([NUMBER], [NUMBER], [], []),
        ([NUMBER], [], ["u:n"], []),
        ([NUMBER], [unit("n", digest="other")], ["u:n"], ["u:n"]),
        ([BOX, INSTANCE, NUMBER], [BOX, INSTANCE, NUMBER], [], []),
        # An instance of a class that is loaded anew must be loaded anew too; a number need not.
        ([BOX, INSTANCE, NUMBER], [CHANGED_BOX, INSTANCE, NUMBER], ["u:Box", "u:b"], ["u:Box", "u:b"]),
        # ... and so must whatever refers to that instance's own node.
        (
            [BOX, unit("Sub", nodes=["Sub#1"], refs=["Box#1"]), unit("s", refs=["Sub#1"]), NUMBER],
            [CHANGED_BOX, unit("Sub", nodes=["Sub#1"], refs=["Box#1"]), unit("s", refs=["Sub#1"]), NUMBER],
            ["u:Box", "u:Sub", "u:s"],
            ["u:Box", "u:Sub", "u:s"],
        ),
    ],
)
def test_a_switch_loads_what_differs(
    have: list[Unit], want: list[Unit], dropped: list[str], loaded: list[str]
) -> None:
    steps = plan(held(*have), manifest(*want))
    assert list(steps.drop) == dropped
    assert [one.key for one in steps.load] == loaded


def test_what_a_failed_cell_may_have_changed_is_dropped_and_loaded() -> None:
    mine = held(NUMBER, INSTANCE, BOX)
    mine.spoil(["u:n", "u:new"])
    assert mine.state is None
    steps = plan(mine, manifest(NUMBER, INSTANCE, BOX))
    assert steps.drop == ("u:n", "u:new")
    assert [one.key for one in steps.load] == ["u:n"]


def test_the_kernel_that_holds_the_state_is_the_cheapest() -> None:
    target = state(manifest(unit("a", digest="a", size=1 << 30), NUMBER, unit("m", size=1 << 20)), 7)
    exact, near, empty, bound = held(), held(unit("a", digest="a", size=1 << 30)), held(), held()
    exact.adopt(target, [])
    bound.bound = ["thread 'T'"]
    costs = [cost(one, target) for one in (exact, near, empty, bound)]
    assert costs == sorted(costs)
    assert len(set(costs)) == 4
    bound.adopt(target, [])
    assert cost(bound, target) == cost(exact, target), "a bound kernel serves the state that it holds"


def test_which_kernel_has_a_little_less_to_load_decides_nothing() -> None:
    target = state(manifest(NUMBER, unit("a", digest="a", size=1000)), 7)
    assert cost(held(NUMBER), target) == cost(held(), target)


def test_an_import_to_be_made_again_counts() -> None:
    modules = unit("\0env:modules")
    target = state(manifest(NUMBER, modules), 7)
    assert cost(held(modules), target) < cost(held(NUMBER), target)


def test_live_values_draw_their_state_to_their_kernel() -> None:
    live = unit("g", digest="live:k1:1", engine="live", reason="it is a generator", path="g")
    content = manifest(live, NUMBER)
    assert home_of_live(content) == "k1"
    assert home_of_live(manifest(NUMBER)) is None
    other = Held("k2")
    assert cost(held(), state(content)) < cost(other, state(content))
