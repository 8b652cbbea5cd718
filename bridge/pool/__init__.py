"""Kernel processes: started, leased out one execution at a time, replaced and ended. Knows no states."""

from __future__ import annotations

from bridge.pool.execution import Execution
from bridge.pool.pool import Pool, Ticket
from bridge.pool.process import KernelProcess
from bridge.pool.settings import PoolSettings
from bridge.pool.templates import Template

__all__ = ["Execution", "KernelProcess", "Pool", "PoolSettings", "Template", "Ticket"]
