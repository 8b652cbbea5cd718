"""A plain ipykernel without the product: the yardstick for outputs and for times.

Runs cells one after the other in one kernel process and gives nbformat outputs. It is
written without any part of `bridge`, so that a fault there cannot hide in the comparison.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import KernelManager
from nbformat import NotebookNode
from nbformat.v4 import output_from_msg

SHOWN = ("stream", "display_data", "execute_result", "error")

# What the server sets in its kernels when pandas is first imported.
DISPLAY_OPTIONS = """
pandas = __import__("pandas")
pandas.set_option("display.max_rows", 200, "display.max_columns", 100, "display.max_colwidth", 128)
del pandas
"""


class BareKernel:
    """One ipykernel process, driven by jupyter_client and nothing else."""

    def __init__(
        self,
        folder: Path,
        *,
        env: dict[str, str] | None = None,
        cwd: Path | None = None,
        python: str = sys.executable,
    ) -> None:
        self.manager = KernelManager(transport="ipc", ip=str(folder / "k"))
        self.manager._kernel_spec = KernelSpec(
            argv=[python, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
            language="python",
            display_name="bare",
        )
        self.manager.connection_file = str(folder / "kernel.json")
        child_env = {k: v for k, v in os.environ.items() if k != "PYTEST_CURRENT_TEST"} | (env or {})
        self.manager.start_kernel(
            env=child_env, cwd=str(cwd or folder), extra_arguments=["--HistoryManager.enabled=False"]
        )
        self.client = self.manager.blocking_client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=60)

    def run(self, code: str, *, silent: bool = False, timeout: float = 60) -> list[dict[str, Any]]:
        """The nbformat outputs of one cell, adjacent writes to a stream merged."""
        outputs: list[dict[str, Any]] = []

        def collect(message: dict[str, Any]) -> None:
            if message["msg_type"] not in SHOWN:
                return
            message["content"].pop("transient", None)
            output: NotebookNode = output_from_msg(message)
            last = outputs[-1] if outputs else {}
            if output.output_type == "stream" and last.get("name") == output.name:
                last["text"] += output.text
            else:
                outputs.append(dict(output))

        self.client.execute_interactive(
            code,
            silent=silent,
            store_history=not silent,
            stop_on_error=False,
            output_hook=collect,
            timeout=timeout,
        )
        return outputs

    def close(self) -> None:
        """End the process and the sockets."""
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)
        self.manager.cleanup_resources()


@contextlib.contextmanager
def bare_kernel(**options: Any) -> Iterator[BareKernel]:
    """A BareKernel in a short private folder of its own (ipc paths have a length limit)."""
    folder = Path(tempfile.mkdtemp(prefix="bare-"))
    try:
        kernel = BareKernel(folder, **options)
        try:
            yield kernel
        finally:
            kernel.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def comparable(outputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Outputs without what two faithful runs may differ in.

    That is the execution count (a failed cell advances a bare kernel's, and a state's not),
    the carriage return a terminal puts before a newline, and addresses in reprs. Colours in
    tracebacks stay.
    """
    return [_without_accidents({k: v for k, v in dict(o).items() if k != "execution_count"}) for o in outputs]


def _without_accidents(value: Any) -> Any:
    if isinstance(value, str):
        return re.sub(r"0x[0-9a-f]{6,}", "0x…", value.replace("\r\n", "\n"))
    if isinstance(value, dict):
        return {key: _without_accidents(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_accidents(item) for item in value]
    return value
