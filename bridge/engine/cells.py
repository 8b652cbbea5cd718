"""Running one cell in a leased kernel: the switch before it, its outputs, its end."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from bridge.engine import held, helper, records
from bridge.engine.running import Running
from bridge.outputs import Collector, Limits
from bridge.pool import Execution, KernelProcess
from bridge.store.manifest import State

log = logging.getLogger(__name__)

LOOK = 0.5
"""Seconds between looks at a cell under way."""
BEGIN_SECONDS = 30.0
"""Seconds in which an idle kernel must begin a cell that was sent to it."""
GRACE = 2.0
"""Seconds that a cell which ran out of time has, after its interrupt, before its kernel is killed."""


@dataclass(slots=True)
class Outcome:
    """How a cell ended. `content` is the execute_reply's; `died` how the kernel ended instead."""

    content: dict[str, Any]
    report: dict[str, Any]
    outputs: Collector
    duration: float
    died: str | None = None


def switch(
    kernel: KernelProcess,
    state: State,
    inputs: list[str],
    cell_of: Callable[[str], list[Any] | None],
    count: int | None = None,
) -> list[dict[str, Any]]:
    """Make a leased kernel hold a state; gives what could not be brought back.

    `cell_of` gives the text and number of the cell that a source file name stands for; `count` is what the counter
    is to be (None: the state's). KernelDied, RestoreFailed.
    """
    mine: held.Held = kernel.held
    if mine.holds(state):
        return []
    steps = held.plan(mine, state.manifest)
    shipped, buffers = records.shipment(steps.load)
    wanted = {name for unit in steps.load for name in unit.record.get("files", ())} - mine.files
    cells = {name: [*cell, name] for name in wanted if (cell := cell_of(name)) is not None}
    keep = _common(mine.inputs, inputs)
    mine.pure = mine.pure and not mine.ran
    mine.spoil(())
    reply = helper.ask(
        kernel,
        {
            "op": "switch",
            "drop": list(steps.drop),
            "load": shipped,
            "order": list(state.manifest.order),
            "cells": list(cells.values()),
            "keep_inputs": keep,
            "inputs": inputs[keep:],
            "count": state.info.get("execution_count", 1) if count is None else count,
            "seed": state.info.get("seed", 0),
            "absent": {},
        },
        buffers,
    )
    mine.files |= cells.keys()
    mine.adopt(state, inputs)
    mine.lack(item["name"] for item in (*reply["failed"], *reply["missing"]))
    for item in reply["failed"]:
        log.warning("state %d: %s was not brought back: %s", state.id, item["name"], item["reason"])
    return [*reply["failed"], *reply["missing"]]


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """The length of what two lists of cells begin with alike."""
    for number, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return number
    return min(len(one), len(other))


def run(
    kernel: KernelProcess,
    orders: dict[str, Any],
    running: Running,
    limits: Limits,
    stdin: Sequence[str] | None,
    timeout: float | None,
) -> Outcome:
    """Run a cell to its end in a kernel that `running` is attached to.

    `timeout` (seconds) is one deadline for the cell: at it the cell is interrupted, and killed when that has no
    effect within GRACE.
    """
    kernel.held.ran = True
    collector = Collector(limits, running.feed.add)
    running.feed.begin(collector.outputs, kernel.id)
    lines = iter(stdin or ())

    started, mark = time.monotonic(), kernel.new_mark()
    execution = kernel.execute(
        running.code,
        metadata={"bridge": {**orders, "begin": mark.order()}},
        mark=mark,
        on_iopub=collector.add,
        on_input=lambda prompt, password: next(lines, None),
    )
    _await(execution, kernel, running, None if timeout is None else started + timeout)
    content = execution.reply or {}
    payload = content.get("payload") or []
    report: dict[str, Any] = next(
        (json.loads(item["report"]) for item in payload if item.get("source") == "bridge"), {}
    )
    return Outcome(content, report, collector, time.monotonic() - started, execution.died)


def _await(execution: Execution, kernel: KernelProcess, running: Running, deadline: float | None) -> None:
    """Wait for the cell's end; at its deadline it is interrupted, and later killed. Its kernel's death ends it too.

    A kernel that does not begin the cell has been made deaf by an earlier one, and is killed. One that is done with
    the cell and gives no reply has met an error outside it: code nested too deeply to be compiled, say.
    """
    begin_by = time.monotonic() + BEGIN_SECONDS
    silent_since: float | None = None
    while not execution.wait(LOOK if deadline is None else max(0.0, min(LOOK, deadline - time.monotonic()))):
        now = time.monotonic()
        if execution.idle and execution.reply is None:
            silent_since = silent_since or now
            if now - silent_since > GRACE:
                kernel.retire = True
                execution.reply = dict(_NO_REPLY)
                return
        if now >= begin_by and not execution.has_begun():
            kernel.kill()
        if deadline is None or now < deadline:
            continue
        if running.timed_out:
            kernel.kill()
            deadline = None
        else:
            running.timed_out = True
            kernel.interrupt()
            deadline = now + GRACE


_NO_REPLY = {
    "status": "error",
    "ename": "NoReply",
    "evalue": "the kernel failed on this cell outside its code; is it nested too deeply to be compiled?",
    "traceback": [],
}
