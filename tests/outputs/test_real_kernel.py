"""The same rules against what a real ipykernel sends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

from bridge.outputs import Collector, Output
from tests.outputs.helpers import brief, validate

BOUND = 60.0  # seconds for one cell; reached only when something hangs


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BlockingKernelClient]:
    folder: Path = tmp_path_factory.mktemp("kernel")
    manager = KernelManager(kernel_name="python3", connection_file=str(folder / "kernel.json"))
    manager.start_kernel(extra_arguments=["--HistoryManager.enabled=False"], cwd=str(folder))
    client = manager.client()
    try:
        client.start_channels()
        client.wait_for_ready(timeout=BOUND)
        yield client
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
        manager.context.destroy(linger=0)


def run(client: BlockingKernelClient, code: str) -> list[Output]:
    collector = Collector()
    client.execute_interactive(code, output_hook=collector.add, timeout=BOUND, allow_stdin=False)
    outputs = collector.outputs()
    validate(outputs)
    return outputs


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        pytest.param(
            "from IPython.display import clear_output\nprint('one'); clear_output(wait=True)",
            ["o:one\n"],
            id="O01 kept",
        ),
        pytest.param(
            "from IPython.display import clear_output\nprint('a'); clear_output(wait=True); print('b')",
            ["o:b\n"],
            id="O01 replaced",
        ),
        pytest.param(
            "from IPython.display import display\nprint('p', flush=True)\n"
            "h = display('old', display_id='k'); display('old', display_id='k'); h.update('new')",
            ["o:p\n", "d:'new'", "d:'new'"],
            id="O02 twice",
        ),
        pytest.param(
            "from IPython.display import display, clear_output\n"
            "q = display('x', display_id='q'); clear_output(); q.update('y'); print('alive')",
            ["o:alive\n"],
            id="O02 cleared away",
        ),
        pytest.param(
            "for k in range(4): print(f'\\r{k}/3', end='', flush=True)", ["o:3/3"], id="O03 progress bar"
        ),
        pytest.param("print('ab\\b\\bXY')", ["o:XY\n"], id="O03 backspace"),
        pytest.param(
            "print('\\x1b[31mred\\x1b[0m')\n1 + 1", ["o:\x1b[31mred\x1b[0m\n", "r:2"], id="colour, result"
        ),
        pytest.param("print('x'); 1/0", ["o:x\n", "!ZeroDivisionError"], id="error"),
    ],
)
def test_cells(client: BlockingKernelClient, code: str, expected: list[str]) -> None:
    assert brief(run(client, code)) == expected


def test_nan_in_json_is_strict_json(client: BlockingKernelClient) -> None:
    code = "from IPython.display import display\ndisplay({'application/json': {'x': float('nan')}}, raw=True)"
    shown = [output for output in run(client, code) if output["output_type"] == "display_data"]
    assert [output["data"] for output in shown] in (
        [{"application/json": {"x": None}}],
        [{"application/json": {"x": "nan"}}],  # repaired by the kernel's own jupyter_client
    )


def test_a_huge_print_is_cut_and_the_next_cell_runs(client: BlockingKernelClient) -> None:
    [output] = run(client, "print('x' * 50_000_000)")
    assert output["text"] == "x" * 10_000_000 + "\n... [truncated: 50,000,001 characters in all]"
    assert brief(run(client, "1 + 1")) == ["r:2"]


def test_many_flushed_writes_are_one_item(client: BlockingKernelClient) -> None:
    # Fewer than the 1,000 messages that a bare ipykernel holds for a reader who is late.
    [output] = run(client, "for i in range(900): print(i, flush=True)")
    assert output["text"] == "".join(f"{i}\n" for i in range(900))
