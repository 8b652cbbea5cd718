"""What keeps running after its cell: threads, children, signal handlers."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # what `signal` itself gives has been made an enum, in thirty steps a call
import os
import signal
import sys
import threading

_SIGNALS = [
    number for name in ("SIGTERM", "SIGALRM", "SIGUSR1", "SIGUSR2") if (number := getattr(signal, name, None))
]


class Leftovers:
    """Tells what a cell left running."""

    def __init__(self) -> None:
        self.know_threads()
        self._handlers = [_signal.getsignal(number) for number in _SIGNALS]
        self._streams = [sys.stdout, sys.stderr]

    def know_threads(self) -> None:
        """Take the threads there are for the kernel's own."""
        self._own_threads = {thread.ident for thread in threading.enumerate()}

    def threads(self) -> list[threading.Thread]:
        """The user's threads that are alive."""
        if threading.active_count() <= len(self._own_threads) and self._all_own():
            return []
        return [
            thread
            for thread in threading.enumerate()
            if thread.ident not in self._own_threads
            and type(thread).__module__.split(".")[0] not in ("ipykernel", "zmq")
            and not thread.name.startswith(("IPython", "pydevd"))
        ]

    def _all_own(self) -> bool:
        return all(thread.ident in self._own_threads for thread in threading.enumerate())

    def reasons(self) -> list[str]:
        """Why this kernel's process carries something that no restore takes back; empty when it does not."""
        found = [f"thread {thread.name!r}" for thread in self.threads()]
        found += [f"child process {pid}" for pid in _children()]
        if [_signal.getsignal(number) for number in _SIGNALS] != self._handlers:
            found.append("signal handler")
        if any(stream is not None and stream.closed for stream in self._streams):
            found.append("closed output stream")
        return found


def _children() -> list[int]:
    """The child processes of the main thread; empty where the platform does not list them."""
    if hasattr(os, "waitid"):  # not on macOS before Python 3.13
        try:
            # Mostly there is none, which this tells in a fraction of the time that a look into /proc takes.
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return []
    try:
        descriptor = os.open(f"/proc/self/task/{os.getpid()}/children", os.O_RDONLY)
    except OSError:
        return []
    try:
        return [int(pid) for pid in os.read(descriptor, 1 << 16).split()]
    finally:
        os.close(descriptor)
