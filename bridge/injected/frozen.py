"""Private copies of the standard library's modules, as they were when the helper started.

A cell may patch `json.dumps` or `os.getcwd`, and its state keeps that; the helper must not meet it.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterable

# What they hold is asked for as it is at the moment.
_LIVE = frozenset({"sys", "builtins", "warnings", "logging"})


def freeze(modules: Iterable[types.ModuleType]) -> None:
    """Let these modules use copies of the standard library's modules that they imported."""
    copies: dict[str, types.ModuleType] = {}
    for module in modules:
        for name, value in list(vars(module).items()):
            if type(value) is not types.ModuleType or value.__name__ in _LIVE:
                continue
            if value.__name__.partition(".")[0] in sys.stdlib_module_names:
                if value.__name__ not in copies:
                    copies[value.__name__] = types.ModuleType(value.__name__)
                    vars(copies[value.__name__]).update(vars(value))
                setattr(module, name, copies[value.__name__])
