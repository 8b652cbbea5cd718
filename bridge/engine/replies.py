"""Execution replies, as clients see them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bridge.engine import records
from bridge.outputs import strip_ansi
from bridge.store.manifest import Manifest

Reply = dict[str, Any]


def failed(ename: str, evalue: str, **more: Any) -> Reply:
    """The reply of an execution that never reached its cell, or lost its kernel."""
    reply = _blank()
    reply["error"] = {"ename": ename, "evalue": evalue, "traceback": []}
    reply.update(more)
    return reply


def _blank() -> Reply:
    return {
        "output": [],
        "state_name": None,
        "error": None,
        "accessed_symbols": [],
        "modified_symbols": [],
        "deleted_symbols": [],
        "changed_symbols": [],
        "execution_count": None,
        "duration": 0.0,
        "notice": None,
        "kernel_id": None,
        "state": None,
        "payload": [],
    }


def error_of(content: Mapping[str, Any]) -> dict[str, Any] | None:
    """The `error` of a reply, from the content of an execute_reply; None after success."""
    if content.get("status") == "ok":
        return None
    ename = str(content.get("ename") or "Aborted")
    evalue = str(content.get("evalue") or ("" if content.get("ename") else "the kernel did not run the cell"))
    lines = [strip_ansi(str(line)) for line in content.get("traceback") or []]
    return {"ename": ename, "evalue": strip_ansi(evalue), "traceback": lines}


def finished(
    content: Mapping[str, Any], report: Mapping[str, Any], output: list[dict[str, Any]], duration: float
) -> Reply:
    """The reply of a cell that ran to its end, good or bad, before its state is known."""
    reply = _blank()
    reply.update(
        output=output,
        error=error_of(content),
        accessed_symbols=report.get("accessed", []),
        modified_symbols=report.get("modified", []),
        deleted_symbols=report.get("deleted", []),
        execution_count=content.get("execution_count"),
        duration=duration,
        payload=[item for item in content.get("payload") or [] if item.get("source") != "bridge"],
    )
    if any(item.get("source") == "ask_exit" for item in reply["payload"]):
        reply["notice"] = "exit() ends nothing here: the state is kept, and kernels are the server's to end"
    return reply


def end_with(
    output: list[dict[str, Any]], content: Mapping[str, Any], error: dict[str, Any]
) -> list[dict[str, Any]]:
    """The outputs of a failed cell, ending with its one `error` item.

    IPython's own item, with its colours, stays where it says the same.
    """
    last = output[-1] if output else {}
    if last.get("output_type") == "error":
        if last["ename"] == error["ename"]:
            return output
        if last["ename"] == content.get("ename"):
            output = output[:-1]
    return [*output, {"output_type": "error", **error}]


def snapshot_report(before: Manifest, after: Manifest, report: Mapping[str, Any]) -> dict[str, Any]:
    """What the snapshot saved: the reply's `state`."""
    written = [unit for record in report["units"] if (unit := after.units.get(record["key"])) is not None]
    inline = sum(len(unit.data) for unit in written if unit.data is not None)
    live = [unit for unit in after.units.values() if records.is_live(unit)]
    return {
        "saved": sorted(name for unit in written if not records.is_live(unit) for name in unit.names),
        "skipped": records.skipped(after),
        "live": sorted(name for unit in live for name in unit.names),
        "largest": records.largest(after),
        "defs": sorted(
            name
            for unit in written
            for name in unit.names
            if unit.record.get("meta", {}).get(name, ("",))[0]
            in ("function", "type", "ABCMeta", "EnumType", "module")
        ),
        "engine": report.get("engine", "pickle"),
        "bytes": int(report.get("written", 0)) + inline,
    }
