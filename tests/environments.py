"""Kernel environments of other makings: a venv with given packages, and the kernelspec that leads there."""

from __future__ import annotations

import fcntl
import json
import subprocess
import sys
from pathlib import Path

BARE = ("ipykernel",)
"""The newest ipykernel and what it needs, nothing else: neither this project nor dill, NumPy or xxhash."""

OLDEST = ("ipykernel==6.29.*", "ipython<9", "numpy", "dill")
"""The oldest supported line of ipykernel, with the IPython of its time."""


def environment(folder: Path, packages: tuple[str, ...]) -> Path:
    """The interpreter of a venv in `folder` with `packages`; made once, also when several workers ask."""
    folder.mkdir(parents=True, exist_ok=True)
    python = folder / "venv" / "bin" / "python"
    done = folder / "done"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
            pip = [sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check"]
            subprocess.run([*pip, "install", "--quiet", *packages], check=True, capture_output=True)
            done.touch()
    return python


def kernelspec(jupyter_path: Path, name: str, python: Path) -> None:
    """Writes a kernelspec of that name; `jupyter_path` then belongs into JUPYTER_PATH.

    Its kernels start in their own folder: in the checkout, where the tests start servers, `import bridge`
    would find the sources.
    """
    folder = jupyter_path / "kernels" / name
    folder.mkdir(parents=True)
    start = f"import os, runpy; os.chdir({str(folder)!r}); "
    start += "runpy.run_module('ipykernel_launcher', run_name='__main__', alter_sys=True)"
    spec = {
        "argv": [str(python), "-c", start, "-f", "{connection_file}"],
        "display_name": name,
        "language": "python",
    }
    (folder / "kernel.json").write_text(json.dumps(spec))
