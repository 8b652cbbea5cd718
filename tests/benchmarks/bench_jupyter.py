"""What the bridge kernel adds to ipykernel, side by side in one run: a message's way, a tiny cell, a flood.

    .venv/bin/python -m tests.benchmarks.bench_jupyter

Medians in milliseconds, the two kernels in turns.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.benchmarks.bench_bridge import Row, alternating, print_table
from tests.jupyter.kernels import WAIT, Notebook, notebook

ROUNDS = 300
FLOOD = "for i in range(20_000): print(i, flush=i % 20 == 0)"


def trip(nb: Notebook, kind: str, content: dict[str, Any]) -> None:
    """One request and its reply."""
    message = nb.client.session.msg(kind, content)
    nb.client.shell_channel.send(message)
    while True:  # ends by the bound of each wait
        reply = nb.client.shell_channel.get_msg(timeout=WAIT)
        if reply["parent_header"]["msg_id"] == message["header"]["msg_id"]:
            return


def cell(nb: Notebook, code: str) -> None:
    """One cell, to its reply and its idle."""
    msg_id = nb.send(code)
    nb.client.shell_channel.get_msg(timeout=WAIT)
    while True:  # ends by the bound of each wait
        message = nb.client.iopub_channel.get_msg(timeout=WAIT)
        is_idle = message["content"].get("execution_state") == "idle"
        if is_idle and message["parent_header"].get("msg_id") == msg_id:
            return


def rows() -> Iterator[Row]:
    """The rows of the table."""
    with contextlib.ExitStack() as stack:
        homes = [
            Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bj-", ignore_cleanup_errors=True)))
            for _ in range(2)
        ]
        bridge = stack.enter_context(notebook(homes[0]))
        plain = stack.enter_context(notebook(homes[1], plain=True))

        def both(what: str, rounds: int, bar: str, call: Callable[[Notebook], None]) -> Row:
            ours, theirs = alternating(rounds, lambda: call(bridge), lambda: call(plain))
            against = f"ipykernel alone {theirs:.2f} ms"
            return what, f"{ours:.2f} ms", against, f"{ours - theirs:+.2f} ms", bar

        line = {"code": "for x in y:"}  # completion itself takes 60 ms, in which 1.5 would be lost
        bar = "<= 1.5 ms more"
        yield both("kernel_info, there and back", ROUNDS, bar, lambda nb: trip(nb, "kernel_info_request", {}))
        yield both(
            "is_complete, there and back", ROUNDS, bar, lambda nb: trip(nb, "is_complete_request", line)
        )
        yield both("a tiny cell, a state kept", ROUNDS, "", lambda nb: cell(nb, "x = 1"))
        yield both("20,000 writes", 5, "", lambda nb: cell(nb, FLOOD))


def main() -> None:
    """Measures and prints the table."""
    print_table(rows())


if __name__ == "__main__":
    main()
