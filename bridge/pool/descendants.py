"""The processes that a kernel started, as far as the system tells of them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any


def family(pid: int) -> list[int]:
    """The process and its descendants, as far as they can be seen; one that was handed to init cannot."""
    found = [pid]
    for member in found:
        for children in Path(f"/proc/{member}/task").glob("*/children"):
            found.extend(map(int, read(children).split()))
    return found


def outliving(pid: int) -> list[dict[str, Any]]:
    """The descendants that will outlive the process, being in no group of its own: `{"pid", "command"}` each."""
    own = _group(pid)
    others = [member for member in family(pid)[1:] if own is not None and _group(member) not in (None, own)]
    return [{"pid": member, "command": _command(member)} for member in others]


def _command(pid: int) -> str:
    return read(Path(f"/proc/{pid}/cmdline")).replace(b"\0", b" ").decode(errors="replace").strip()


def read(path: Path) -> bytes:
    """A file of /proc; nothing when its process has ended, or is another user's."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _group(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except OSError:
        return None
