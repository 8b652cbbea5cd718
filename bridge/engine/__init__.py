"""The engine: executes cells from states, and everything else that can be done with states. Knows no HTTP."""

from __future__ import annotations

from bridge.engine.kernel import Kernel

__all__ = ["Kernel"]
