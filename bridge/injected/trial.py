"""Whether a library's object comes back from its pickle at all: tried with the first small one of each class."""

from __future__ import annotations

import importlib
import pickle
import sys
import types
from functools import partial
from typing import Any, Protocol

from . import failures, picklers, rebuild, reducers

_LARGE = 32 * 1024  # bytes of a pickle that is not loaded for a trial
_tried: set[type] = set()


class Nodes(Protocol):
    """Where the classes, functions and cells that a pickle names are to be had."""

    nodes: dict[str, Any]


class _Trial:
    """Stands for a loader: everything that the pickle refers to is alive here."""

    def __init__(self, ledger: Nodes, scope: dict[str, Any]) -> None:
        self.globals = scope
        self.codes: list[types.CodeType] = []
        self._nodes = ledger.nodes

    def node(self, key: str) -> Any:
        return self._nodes[key]

    def fill(self, key: str, content: Any) -> None:
        raise LookupError("no node is part of a trial")

    def array(self, index: int) -> Any:
        raise LookupError("no large array is part of a trial")

    def atoms(self, index: int, shape: tuple[int, ...], order: str) -> Any:
        raise LookupError("no large array is part of a trial")

    def items(self, index: int) -> list[Any]:
        raise LookupError("no large collection is part of a trial")


def check(roots: dict[str, Any], data: bytes, engine: str, ledger: Nodes, scope: dict[str, Any]) -> None:
    """Unsaveable when the one object of these roots does not come back, or as something else.

    Not tried: the standard library's and the notebook's own, what is large, what lets go of something when it ends.
    """
    kinds = {type(value) for value in roots.values()}
    kind = kinds.pop()
    if kinds or kind in _tried or len(data) > _LARGE or hasattr(kind, "__del__"):
        return
    package = kind.__module__.partition(".")[0] if isinstance(kind.__module__, str) else ""
    if package in sys.stdlib_module_names or not reducers.by_reference(kind):
        return
    _tried.add(kind)
    rebuild.loading.append(_Trial(ledger, scope))
    try:
        loads = (importlib.import_module("dill") if engine == "dill" else pickle).loads
        _, loaded = picklers.called_among(scope, partial(loads, data))
        back = {type(value) for value in loaded.values()}
    except Exception as error:  # whatever a library raises when it is given what it saved
        _tried.discard(kind)
        raise reducers.Unsaveable(f"what it saves does not load: {failures.explain(error)}") from error
    finally:
        rebuild.loading.pop()
    if back != {kind}:
        _tried.discard(kind)
        raise reducers.Unsaveable(f"it would come back as {', '.join(other.__name__ for other in back)}")
