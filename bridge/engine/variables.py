"""Cells that set what a library reads as it is imported: too late in a kernel that has it imported already."""

from __future__ import annotations

import re

_READ_AT_IMPORT = re.compile(
    r"\b(?:(?:OMP|GOMP|KMP|MKL|OPENBLAS|GOTO|BLIS|BLAS|VECLIB|ACCELERATE|NUMEXPR|NPY|NUMPY|PANDAS|PYARROW|ARROW)_\w+"
    r"|MPLBACKEND|MPLCONFIGDIR|MATPLOTLIBRC|PYTHONWARNINGS|TZDIR|PYTHONTZPATH)\b"
)


def names_one(code: str) -> bool:
    """Whether a cell's text names such a variable of the environment."""
    return _READ_AT_IMPORT.search(code) is not None
