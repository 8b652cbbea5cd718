"""The environment that the table's kernels run in: a venv outside the repository, with every library that installs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

PACKAGES: tuple[tuple[str, ...], ...] = (
    ("ipykernel", "dill", "numpy"),
    ("pandas", "jinja2"),
    ("polars",),
    ("pyarrow",),
    ("scipy",),
    ("scikit-learn",),
    ("statsmodels",),
    ("matplotlib",),
    ("seaborn",),
    ("plotly", "anywidget"),
    ("networkx",),
    ("pillow",),
    ("sympy",),
    ("--no-deps", "xgboost"),  # what it asks for beside NumPy and SciPy is for graphics cards
    ("lightgbm",),
    ("torch==2.13.0",),
    ("requests",),
    ("beautifulsoup4", "lxml"),
)
"""Installed one after the other, so that one that fails costs no other."""


def interpreter(folder: Path) -> Path:
    """The Python of the venv in `folder`, which is made when it is not there."""
    python = folder / "venv" / "bin" / "python"
    done = folder / "done"
    if done.exists():
        return python
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    for packages in PACKAGES:
        command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages]
        if subprocess.run(command, check=False).returncode:
            print("did not install:", *packages, file=sys.stderr)
    done.touch()
    return python


def versions(python: Path, modules: tuple[str, ...]) -> dict[str, str]:
    """The version of each of these modules that can be imported there."""
    code = (
        "import importlib, json, sys\nfound = {}\n"
        "for name in sys.argv[1:]:\n"
        "    try: module = importlib.import_module(name)\n"
        "    except Exception: continue\n"
        "    found[name] = getattr(module, '__version__', sys.version.split()[0])\n"
        "print(json.dumps(found))"
    )
    done = subprocess.run([python, "-c", code, *modules], check=True, capture_output=True, text=True)
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return found
