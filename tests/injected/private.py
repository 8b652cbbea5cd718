"""The helper as a kernel has it: the modules of `bridge/injected` under their private name."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from types import ModuleType

from tests.support import ROOT

PACKAGE = "_bridge_kernel"


def module(name: str) -> ModuleType:
    """A module of the helper by its own name: stored pickles call functions under that one."""
    if PACKAGE not in sys.modules:
        folder = ROOT / "bridge" / "injected"
        spec = importlib.util.spec_from_file_location(
            PACKAGE, folder / "__init__.py", submodule_search_locations=[str(folder)]
        )
        assert spec is not None
        assert spec.loader is not None
        package = importlib.util.module_from_spec(spec)
        sys.modules[PACKAGE] = package
        spec.loader.exec_module(package)
    return importlib.import_module(f"{PACKAGE}.{name}")
