"""Made-up units and manifests for tests of pure engine code."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bridge.store.manifest import Manifest, State, Unit


def unit(
    *roots: str,
    digest: str = "d",
    nodes: Iterable[str] = (),
    refs: Iterable[str] = (),
    size: int = 10,
    **record: Any,
) -> Unit:
    """A unit with these roots; its key is what the helper would give it."""
    ordered = sorted(roots)
    nodes = sorted(nodes)
    return Unit(
        key=f"u:{ordered[0]}" if ordered else f"n:{nodes[0]}",
        digest=digest,
        names=tuple(root for root in ordered if not root.startswith("\0")),
        record={"roots": ordered, "nodes": nodes, "refs": sorted(refs), "engine": "pickle", **record},
        data=b"",
        blobs=(),
        size=size,
    )


def manifest(*units: Unit, order: Iterable[str] | None = None) -> Manifest:
    """A manifest of these units."""
    names = order if order is not None else (name for one in units for name in one.names)
    return Manifest({one.key: one for one in units}, tuple(names))


def state(content: Manifest, number: int = 1) -> State:
    """A state of that content."""
    return State(number, None, "2026-01-01T00:00:00.000000Z", "", None, {}, content)
