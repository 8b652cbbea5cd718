"""The injected helper on its way into a kernel: its sources as one piece of code, and its answers.

The sources are sent in the kernel's own language as one silent execute_request, so nothing of this package need be
installed where the kernel runs. There they become modules of a private package that keep their source, so that
tracebacks and `inspect` can show it.
"""

from __future__ import annotations

import base64
import functools
import json
import zlib
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from bridge.errors import KernelStartFailed, KernelTimeout, RestoreFailed
from bridge.pool import KernelProcess

PACKAGE = "_bridge_kernel"
START_SECONDS = 30.0
INSPECT_SECONDS = 120.0
"""The bound of a look at a state's values, whose own methods may run."""
REQUEST_SECONDS = 600.0
"""The bound of one request of ours: a state of many gigabytes may have to be read."""

_START = """
import base64, importlib.abc, importlib.util, json, sys, zlib
def start(shell, packed, options):
    sources = json.loads(zlib.decompress(base64.b64decode(packed)))
    class Loader(importlib.abc.InspectLoader, importlib.abc.MetaPathFinder):
        def find_spec(self, name, path=None, target=None):
            if name not in sources:
                return None
            return importlib.util.spec_from_loader(name, self, origin="<bridge>", is_package=name == "{package}")
        def get_source(self, name):
            return sources[name]
        def is_package(self, name):
            return name == "{package}"
        def get_code(self, name):
            return compile(sources[name], "<bridge " + name.rpartition(".")[2] + ">", "exec", dont_inherit=True)
    loader = Loader()
    sys.meta_path.insert(0, loader)
    try:
        from {package}.service import start
        start(shell, json.loads(options))
    finally:
        sys.meta_path.remove(loader)
start(get_ipython(), {packed!r}, {options!r})
"""
# The loader stays. Were its globals the notebook's, its functions would count as functions of the notebook.
_BOOTSTRAP = "exec({start!r}, {{'get_ipython': get_ipython, '__name__': '{package}'}})"


@functools.cache
def _packed_sources() -> str:
    """The helper's modules, name to source, as JSON, compressed, in base64."""
    folder = files("bridge").joinpath("injected")
    sources = {}
    for entry in folder.iterdir():
        if entry.name.endswith(".py"):
            stem = entry.name.removesuffix(".py")
            name = PACKAGE if stem == "__init__" else f"{PACKAGE}.{stem}"
            sources[name] = entry.read_text(encoding="utf-8")
    return base64.b64encode(zlib.compress(json.dumps(sources).encode())).decode()


def prepare(kernel: KernelProcess, options: dict[str, Any]) -> None:
    """Make a kernel that has just started ours; one that was forked has the helper already. KernelStartFailed."""
    if kernel.forked:
        ask(kernel, {"op": "forked", "kernel_id": kernel.id})
    else:
        inject(kernel, options)


def inject(kernel: KernelProcess, options: dict[str, Any]) -> None:
    """Install the helper in a kernel that has just started; KernelStartFailed with its traceback."""
    start = _START.format(package=PACKAGE, packed=_packed_sources(), options=json.dumps(options))
    code = _BOOTSTRAP.format(start=start, package=PACKAGE)
    written: list[str] = []

    def listen(message: dict[str, Any]) -> None:
        if message["msg_type"] == "error":
            written.extend(message["content"]["traceback"])

    execution = kernel.execute(
        code,
        metadata={},
        on_iopub=listen,
        on_input=lambda prompt, password: None,
        silent=True,
        store_history=False,
    )
    if not execution.wait(START_SECONDS):
        raise KernelStartFailed(f"the helper did not start within {START_SECONDS:g} s")
    if execution.died is not None:
        raise KernelStartFailed(f"the kernel ended while the helper started: {execution.died}")
    if execution.reply is None or execution.reply.get("status") != "ok":
        detail = "\n".join(written or (execution.reply or {}).get("traceback", []))
        raise KernelStartFailed(f"the helper could not start in the kernel:\n{detail}")


def ask(kernel: KernelProcess, content: dict[str, Any], buffers: Sequence[bytes] = ()) -> dict[str, Any]:
    """One request to the helper and its answer. RestoreFailed when it failed, KernelDied when the kernel did.

    A kernel that does not answer in time is killed: KernelTimeout.
    """
    return exchange(kernel, content, buffers)[0]


def exchange(
    kernel: KernelProcess, content: dict[str, Any], buffers: Sequence[bytes] = ()
) -> tuple[dict[str, Any], list[memoryview]]:
    """As `ask`, with the answer's buffers."""
    seconds = INSPECT_SECONDS if content["op"] == "inspect" else REQUEST_SECONDS
    try:
        reply, answered = kernel.request(content, buffers, timeout=seconds)
    except KernelTimeout:
        kernel.kill()
        raise
    if reply.get("status") != "ok":
        raise RestoreFailed(str(reply.get("reason", reply)))
    return reply, answered
