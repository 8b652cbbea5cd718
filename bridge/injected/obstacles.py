"""What keeps a process from being forked faithfully: threads and children, which a child would lack."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from .threads import Leftovers

_ZMQ = "ZMQbg/"
_ZMQ_OWN = 4  # an input-output thread and a reaper in each of ipykernel's two contexts
_OPENMP = re.compile(r"/lib(?:gomp|iomp5|omp)\b[^/]*$")
_OPENBLAS = re.compile(r"openblas[^/]*$")
_END_SECONDS = 0.05
_PAUSE_HARD = 2  # omp_pause_hard, OpenMP 5.0
_OPENBLAS_SIZE = (
    "scipy_openblas_get_num_threads64_",
    "scipy_openblas_get_num_threads",
    "openblas_get_num_threads64_",
    "openblas_get_num_threads",
)


def obstacle(leftovers: Leftovers) -> str | None:
    """Why a copy of this process would lack something; None when it would not. Between cells, in the main thread."""
    for reason in leftovers.reasons():
        if reason.startswith(("thread", "child", "closed")):
            return reason
    if signal.getsignal(signal.SIGCHLD) not in (signal.SIG_DFL, signal.SIG_IGN):
        return "a handler for SIGCHLD, which would hear of the copy"
    for thread in threading.enumerate():
        if type(thread).__name__ == "SubshellThread":
            return "a subshell"
    if any(os.path.basename(path).startswith("nvidia") for path in _opened()):
        return "CUDA is in use"
    return _native_threads()


def _opened() -> list[str]:
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{name}"))
        except OSError:
            continue  # the descriptor of the listing itself
    return [path for path in found if path.startswith("/dev/")]


def _native_threads() -> str | None:
    """The threads that no Python, zmq, OpenBLAS, OpenMP or numexpr explains. Those of the last two are ended first."""
    if _count() == 1:
        return None
    # In a fork Python's main thread goes by the native id that it had before.
    known = {os.getpid(), *(t.native_id for t in threading.enumerate() if t is not threading.main_thread())}
    strange = [tid for tid in map(int, os.listdir("/proc/self/task")) if tid not in known]
    names = [_name(tid) for tid in strange]
    zmq = sum(name.startswith(_ZMQ) for name in names)
    if zmq > _ZMQ_OWN:
        return "a zmq context"
    if len(names) == zmq:
        return None
    libraries = _libraries()
    for path in filter(_OPENMP.search, libraries):
        pause: Any = getattr(ctypes.CDLL(path), "omp_pause_resource_all", None)
        if pause is not None:
            pause(_PAUSE_HARD)
    explained = (
        len(known) + zmq + sum(_openblas_threads(path) for path in filter(_OPENBLAS.search, libraries))
    )
    if _count() <= explained or _rest_numexpr(lambda: _count() <= explained):
        return None
    return f"{_count() - explained} native threads of a library"


def _rest_numexpr(enough: Callable[[], bool]) -> bool:
    """Whether it is enough to end numexpr's threads for a moment: in a fork it starts them anew, told by its pid."""
    interpreter = sys.modules.get("numexpr.interpreter")
    resize = getattr(interpreter, "_set_num_threads", None)
    size = interpreter._get_num_threads() if interpreter is not None and resize is not None else 1
    if resize is None or size < 2:
        return False
    resize(1)
    try:
        # A thread that has been joined is listed for a moment more.
        deadline = time.monotonic() + _END_SECONDS
        while not (found := enough()) and time.monotonic() < deadline:
            time.sleep(0.001)
        return found
    finally:
        resize(size)


def _count() -> int:
    return len(os.listdir("/proc/self/task"))


def _name(tid: int) -> str:
    try:
        with open(f"/proc/self/task/{tid}/comm", encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


def _libraries() -> set[str]:
    """The files that this process has mapped."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
        return {line.rstrip("\n")[73:].strip() for line in file if ".so" in line}


def _openblas_threads(path: str) -> int:
    """The threads of an OpenBLAS beside the one that calls it; it ends and starts them around a fork by itself."""
    library = ctypes.CDLL(path)
    for name in _OPENBLAS_SIZE:
        size = getattr(library, name, None)
        if size is not None:
            return int(size()) - 1
    return 0
