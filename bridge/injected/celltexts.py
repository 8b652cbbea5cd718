"""The cells' texts under the file names of their code, where tracebacks and `inspect` look for them."""

from __future__ import annotations

import hashlib
import linecache
from collections.abc import Callable
from typing import Any


def code_name(raw_code: str, transformed: Any = None, number: Any = None) -> str:
    """The file name of a cell: the same for the same text, in every kernel (`CachingCompiler.get_code_name`).

    It has the shape of ipykernel's own names, by which libraries that format tracebacks know a cell.
    """
    digest = hashlib.sha1(raw_code.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()
    return f"/tmp/ipykernel_0/{int(digest[:12], 16)}.py"


def cells_of(compiler: Any, units: list[dict[str, Any]]) -> list[list[Any]]:
    """Text, number and file name of the cells that these units' functions come from, as far as they are known.

    ipykernel's own file names hold the process's number, so no other process can tell a cell by its name.
    """
    known = compiler._filename_map
    files = {name for unit in units for name in unit["files"] if name in known}
    return [["".join(linecache.getlines(name)), known[name], name] for name in sorted(files)]


def make_known(compiler: Any, cells: list[list[Any]], transformed: Callable[[str], str]) -> None:
    """Make cells that this kernel never ran known, each given as text, number and file name."""
    for text, number, name in cells:
        lines = [line + "\n" for line in transformed(text).splitlines()]
        entry = (len(text), None, lines, name)
        linecache.cache[name] = entry
        if hasattr(linecache, "_ipython_cache"):
            linecache._ipython_cache[name] = entry
        compiler._filename_map[name] = number
