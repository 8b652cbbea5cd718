"""What the compatibility table is about: libraries and, for each, objects that people keep in notebooks."""

from __future__ import annotations

from tests.compat.rows import others, science, standard, tables
from tests.compat.rows.row import Library, Row

LIBRARIES: tuple[Library, ...] = (
    standard.VALUES,
    standard.MODULES,
    tables.NUMPY,
    tables.PANDAS,
    tables.POLARS,
    tables.PYARROW,
    science.SCIPY,
    science.SKLEARN,
    science.STATSMODELS,
    science.XGBOOST,
    science.LIGHTGBM,
    science.TORCH,
    others.MATPLOTLIB,
    others.SEABORN,
    others.PLOTLY,
    others.NETWORKX,
    others.PIL,
    others.SYMPY,
    others.REQUESTS,
    others.SOUP,
    others.LXML,
)

__all__ = ["LIBRARIES", "Library", "Row"]
