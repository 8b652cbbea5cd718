"""A small process that outlives the server for an instant, to end its kernels.

ipykernel ends itself when its parent is gone, but it looks from a Python thread: a kernel inside one long C
call that holds the interpreter's lock never looks, and the kernel's own children are nobody's then. The guard
reads a pipe whose other end only the server holds. The pipe's end means the server's end, however that came.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from pathlib import Path

log = logging.getLogger(__name__)

# Run with -I -S: no site, no environment, so that it starts in some 10 ms and imports nothing of a user's.
# The search by command line finds a kernel that was launched but not yet announced; it needs /proc.
GUARD = r"""
import os, signal, sys, time
groups, paths = set(), set()
for line in sys.stdin:
    verb, _, what = line.rstrip("\n").partition(" ")
    {"group": groups, "-group": groups, "path": paths, "-path": paths}[verb].__getattribute__(
        "discard" if verb[0] == "-" else "add")(what)
def end(group):
    try:
        os.killpg(int(group), signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
def unannounced():
    marks = [path.encode() for path in paths]
    for pid in filter(str.isdigit, os.listdir("/proc") if os.path.isdir("/proc/self") else ()):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                line = f.read()
            if any(mark in line for mark in marks) and os.getpgid(int(pid)) == int(pid):
                end(pid)
        except OSError:
            pass
for group in groups:
    end(group)
if paths:
    import shutil
    for pause in (0.3, 0):
        unannounced()
        time.sleep(pause)
    for path in paths:
        if os.path.isdir(path):
            shutil.rmtree(path, ignore_errors=True)
        elif os.path.exists(path):
            os.unlink(path)
"""


class Guard:
    """Names the process groups to kill and the paths to remove when this process ends without doing it.

    Where the platform has no process groups it does nothing, and kernels end by their own poller.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        if os.name == "posix":
            try:
                self._process = subprocess.Popen(
                    [sys.executable, "-I", "-S", "-c", GUARD],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    cwd="/",
                    env={},
                    start_new_session=True,  # a Ctrl-C in the server's terminal is not for the guard
                )
            except OSError as error:
                log.warning("kernels go unguarded, only their own poller watches: %s", error)

    def add_group(self, group: int) -> None:
        """Has this process group killed at the owner's end."""
        self._say(f"group {group}")

    def drop_group(self, group: int) -> None:
        """The group has ended; its number may soon be another's."""
        self._say(f"-group {group}")

    def add_path(self, path: Path) -> None:
        """Has this file or folder removed at the owner's end; kernels are found by it in command lines."""
        self._say(f"path {path}")

    def drop_path(self, path: Path) -> None:
        """The path is gone already."""
        self._say(f"-path {path}")

    def close(self) -> None:
        """Ends the guard, which by now should have nothing left to do. Idempotent, bounded by 1 s."""
        with self._lock:
            process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        try:
            process.stdin.close()
        except OSError as error:
            log.debug("the guard was gone already: %s", error)
        try:
            process.wait(1.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _say(self, line: str) -> None:
        with self._lock:
            if self._process is None or self._process.stdin is None:
                return
            try:
                self._process.stdin.write(line.encode() + b"\n")
                self._process.stdin.flush()
            except OSError as error:
                log.warning("the guard is gone, only the kernels' own poller watches now: %s", error)
                self._process.wait()
                self._process = None
