"""Which of the notebook's code ran, as the interpreter itself reports it (Python 3.12 and newer).

Each armed code object reports an instruction the first time it runs, and never again in that cell: the event is
switched off at that place, so loops run as if nobody watched. In Python 3.12 they would not quite; there a function
reports its start alone, which counts for all that it names. The answers only ever shorten what analysis found.
A first look is enough: once the cell has bound a name, its old value cannot come back under it.
"""

from __future__ import annotations

import dis
import inspect
import sys
import types
from typing import Any

from .codes import remembered

_TOOLS = (4, 3)  # numbers that no standard tool uses
_LOADS = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS", "LOAD_FROM_DICT_OR_DEREF"})
_STORES = frozenset({"STORE_GLOBAL", "STORE_NAME"})
_AVAILABLE = hasattr(sys, "monitoring")
_BY_INSTRUCTION = sys.version_info >= (3, 13)
# What can be run in the middle without a start: thrown into, closed.
_RESUMED = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


@remembered
def _names(code: types.CodeType) -> dict[int, tuple[bool, str]]:
    """By offset: (whether it is a load, name) of the instructions that load or store a name."""
    found: dict[int, tuple[bool, str]] = {}
    for each in dis.get_instructions(code):
        if each.opname in _LOADS:
            found[each.offset] = (True, each.argval)
        elif each.opname in _STORES:
            found[each.offset] = (False, each.argval)
    return found


class Watch:
    """Watches one cell at a time."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        self._namespace = namespace
        self._tool: int | None = None
        self._armed: dict[int, tuple[types.CodeType, dict[int, tuple[bool, str]]]] = {}
        self._old: dict[str, int] = {}
        self.running = False
        self.ran: set[int] = set()  # ids of code objects that ran (alive while armed)
        self.reads: set[str] = set()  # names whose old value was seen
        self.loads: set[str] = set()  # names that were loaded, whatever they held
        self.stores: set[str] = set()

    def start(self, old: dict[str, int]) -> bool:
        """Begins a cell; `old`: identities of the values from before. False: it cannot watch."""
        if not _AVAILABLE:
            return False
        monitoring: Any = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
        if self._tool is None:
            free = [tool for tool in _TOOLS if monitoring.get_tool(tool) is None]
            if not free:
                return False
            self._tool = free[0]
            monitoring.use_tool_id(self._tool, "bridge")
            monitoring.register_callback(self._tool, monitoring.events.INSTRUCTION, self._met)
            monitoring.register_callback(self._tool, monitoring.events.PY_START, self._started)
        self._old = old
        self.ran, self.reads, self.loads, self.stores = set(), set(), set(), set()
        self.running = True
        return True

    def arm(self, code: types.CodeType) -> None:
        """Watches a code object and all that are nested in it."""
        if not self.running or id(code) in self._armed:
            return
        monitoring: Any = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
        self._armed[id(code)] = (code, _names(code))
        whole = not _BY_INSTRUCTION and not code.co_flags & _RESUMED
        event = monitoring.events.PY_START if whole else monitoring.events.INSTRUCTION
        monitoring.set_local_events(self._tool, code, event)
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                self.arm(constant)

    def stop(self) -> None:
        """Ends a cell: nothing is watched any more."""
        self.running = False
        monitoring: Any = getattr(sys, "monitoring", None)
        for code, _ in self._armed.values():
            monitoring.set_local_events(self._tool, code, 0)
        self._armed.clear()

    def close(self) -> None:
        """Gives the tool number back."""
        if self._tool is not None:
            monitoring: Any = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
            monitoring.register_callback(self._tool, monitoring.events.INSTRUCTION, None)
            monitoring.register_callback(self._tool, monitoring.events.PY_START, None)
            monitoring.free_tool_id(self._tool)
            self._tool = None

    def _met(self, code: types.CodeType, offset: int) -> Any:
        known = self._armed.get(id(code))
        if known is not None:
            self.ran.add(id(code))
            met = known[1].get(offset)
            if met is not None:
                self._note(*met)
        return sys.monitoring.DISABLE  # type: ignore[attr-defined,unused-ignore]

    def _started(self, code: types.CodeType, offset: int) -> Any:
        known = self._armed.get(id(code))
        if known is not None:
            self.ran.add(id(code))
            for met in known[1].values():
                self._note(*met)
        return sys.monitoring.DISABLE  # type: ignore[attr-defined,unused-ignore]

    def _note(self, is_load: bool, name: str) -> None:
        if not is_load:
            self.stores.add(name)
            return
        self.loads.add(name)
        if name in self._old and id(self._namespace.get(name)) == self._old[name]:
            self.reads.add(name)
