"""Time travel for Python notebooks: a server of immutable states over real IPython kernels.

`Kernel` is the engine in process; the REST server and the command line are thin skins over it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bridge.errors import BridgeError
from bridge.settings import Settings
from bridge.version import VERSION as __version__

if TYPE_CHECKING:
    from bridge.engine import Kernel

__all__ = ["BridgeError", "Kernel", "Settings", "__version__"]


def __getattr__(name: str) -> Any:
    # The engine brings jupyter_client with it, which the command line's --help can do without.
    if name == "Kernel":
        from bridge.engine import Kernel

        return Kernel
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
