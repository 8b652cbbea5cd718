"""Combining two manifests: whose units are taken, whole or in part."""

from __future__ import annotations

from bridge.engine.surgery import combine
from tests.engine.manifests import manifest, unit


def test_the_source_wins_and_unknown_names_are_ignored() -> None:
    source = manifest(unit("p", digest="source p"), unit("q", digest="source q"))
    entry = manifest(unit("p", digest="entry p"), unit("r", digest="entry r"))
    made = combine(source, ["p", "nowhere"], entry, ["p", "r", "neither"])
    assert {key: one.digest for key, one in made.units.items()} == {"u:p": "source p", "u:r": "entry r"}
    assert made.order == ("p", "r")


def test_a_whole_group_is_taken_as_it_is() -> None:
    pair = unit("a", "b", digest="pair", size=10**9)
    made = combine(manifest(pair), ["a", "b"], manifest(), [])
    assert made.units == {"u:a": pair}


def test_a_group_that_is_split_keeps_its_bytes_and_loses_the_other_name() -> None:
    pair = unit("a", "b", digest="pair", meta={"a": ["list", None], "b": ["list", None]})
    made = combine(manifest(pair), ["b"], manifest(unit("a", digest="other a")), ["a"])
    part = made.units["u:b"]
    assert part.names == ("b",)
    assert part.record["roots"] == ["b"]
    assert part.record["meta"] == {"b": ["list", None]}
    assert part.data == pair.data
    assert part.digest != pair.digest
    assert made.units["u:a"].digest == "other a"


def test_a_class_comes_with_its_instances_without_its_name() -> None:
    box = unit("Box", nodes=["Box#1"], digest="box")
    made = combine(manifest(box, unit("b", refs=["Box#1"])), ["b"], manifest(), [])
    assert set(made.units) == {"u:b", "n:Box#1"}
    assert made.units["n:Box#1"].names == ()
    assert made.units["n:Box#1"].record["nodes"] == ["Box#1"]
    assert made.order == ("b",)


def test_one_class_serves_the_instances_of_both_sides() -> None:
    source = manifest(unit("Box", nodes=["Box#1"], digest="new"), unit("b", refs=["Box#1"]))
    entry = manifest(unit("Box", nodes=["Box#1"], digest="old"), unit("c", refs=["Box#1"]))
    made = combine(source, ["b", "Box"], entry, ["c"])
    owners = [one for one in made.units.values() if "Box#1" in one.record["nodes"]]
    assert [one.digest for one in owners] == ["new"]


def test_the_environment_is_the_sources() -> None:
    source = manifest(unit("\0env:cwd", digest="source"), unit("x", "\0out:3", digest="both"))
    entry = manifest(unit("\0env:cwd", digest="entry"), unit("\0env:random", digest="entry"))
    made = combine(source, [], entry, [])
    assert made.units["u:\0env:cwd"].digest == "source"
    assert "u:\0env:random" not in made.units
    assert made.units["u:\0out:3"].names == ()
