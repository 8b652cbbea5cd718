"""An execution's id, and an interrupt that meets it before, while and after its cell runs."""

from __future__ import annotations

import pytest

from bridge.engine.running import Registry
from bridge.errors import Conflict


def test_an_id_is_taken_until_its_execution_ends() -> None:
    registry = Registry()
    first = registry.begin("a", "1")
    with pytest.raises(Conflict, match="'a'"):
        registry.begin("a", "2")
    registry.end(first, {})
    assert registry.find("a") is None
    registry.begin("a", "3")


def test_an_interrupt_of_a_waiting_execution_ends_its_wait() -> None:
    running = Registry().begin("a", "1")
    assert running.interrupt(False) == {"interrupted": True, "how": "queued"}
    assert running.ticket.cancelled
    assert running.status()["interrupted"] is True
    assert running.status()["ignored"] is False


def test_nothing_is_interrupted_when_all_is_over() -> None:
    registry = Registry()
    running = registry.begin("a", "1")
    registry.end(running, {})
    assert registry.wait_until_empty(0)
