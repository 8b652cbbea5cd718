"""Made-up iopub messages, and what they become."""

from __future__ import annotations

import json
from typing import Any

import nbformat

from bridge.outputs import Collector, Limits, Output

Message = dict[str, Any]


def message(kind: str, **content: Any) -> Message:
    return {"header": {"msg_type": kind}, "msg_type": kind, "content": content, "metadata": {}, "buffers": []}


def out(text: Any, name: str = "stdout") -> Message:
    return message("stream", name=name, text=text)


def err(text: Any) -> Message:
    return out(text, "stderr")


def display(text: Any, display_id: str | None = None, kind: str = "display_data") -> Message:
    transient = {} if display_id is None else {"display_id": display_id}
    return message(kind, data={"text/plain": text}, metadata={}, transient=transient)


def update(text: Any, display_id: str) -> Message:
    return display(text, display_id, "update_display_data")


def bundle(data: Any, metadata: Any = None) -> Message:
    return message("display_data", data=data, metadata=metadata or {}, transient={})


def clear(wait: bool = False) -> Message:
    return message("clear_output", wait=wait)


def error(ename: str, evalue: str = "", traceback: Any = ()) -> Message:
    return message("error", ename=ename, evalue=evalue, traceback=list(traceback))


def validate(outputs: list[Output]) -> None:
    """Outputs must be valid in a notebook, and strict JSON that UTF-8 can carry."""
    cell: dict[str, Any] = {
        "cell_type": "code",
        "id": "c",
        "metadata": {},
        "source": "",
        "execution_count": None,
    }
    notebook = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [{**cell, "outputs": outputs}]}
    nbformat.validate(notebook, relax_add_props=False)
    json.dumps(outputs, ensure_ascii=False, allow_nan=False).encode("utf-8")


def collect(messages: list[Message], limits: Limits | None = None) -> list[Output]:
    """The outputs of these messages, validated."""
    collector = Collector(limits or Limits())
    for msg in messages:
        collector.add(msg)
    outputs = collector.outputs()
    validate(outputs)
    return outputs


def brief(outputs: list[Output]) -> list[str]:
    """Outputs in one word each: `o:text` and `e:text` for streams, `d:text`, `r:text`, `!ename`."""
    words = []
    for output in outputs:
        match output["output_type"]:
            case "stream":
                words.append(f"{output['name'][3]}:{output['text']}")
            case "error":
                words.append("!" + output["ename"])
            case kind:
                words.append(f"{'r' if kind == 'execute_result' else 'd'}:{output['data'].get('text/plain')}")
    return words
