"""What keeps a process from being forked faithfully: threads and children, which a child would lack."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import threading
from typing import Any

from .threads import Leftovers

_ZMQ = "ZMQbg/"
_ZMQ_OWN = 4  # an input-output thread and a reaper in each of ipykernel's two contexts
_OPENMP = re.compile(r"/lib(?:gomp|iomp5|omp)\b[^/]*$")
_OPENBLAS = re.compile(r"openblas[^/]*$")
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
    """The threads that no Python, zmq, OpenBLAS or OpenMP explains. OpenMP's are ended: it starts them anew."""
    if _count() == 1:
        return None
    known = {thread.native_id for thread in threading.enumerate()}
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
    left = _count() - len(known) - zmq
    allowed = sum(_openblas_threads(path) for path in filter(_OPENBLAS.search, libraries))
    return f"{left - allowed} native threads of a library" if left > allowed else None


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
