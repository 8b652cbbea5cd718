"""Which workspace is a notebook's own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

_NO_NOTEBOOK = re.compile(r"kernel-\d+")  # a process number, which comes again


def workspace_name(environ: Mapping[str, str], connection_file: Path) -> str | None:
    """The name of the notebook's workspace; None where a new one is to be opened.

    A notebook is known by its path, which jupyter_server tells in `JPY_SESSION_NAME`. For other front ends the
    connection file stands for it: a restart keeps that file, so the states are there after it.
    """
    notebook = environ.get("JPY_SESSION_NAME")
    if notebook:
        return notebook[-255:]
    stem = connection_file.stem
    return None if _NO_NOTEBOOK.fullmatch(stem) else stem[-255:]
