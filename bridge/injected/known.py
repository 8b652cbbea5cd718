"""Which code of the notebook's functions lives: what a function that cannot be seen may be.

Nothing here keeps code alive. A function that is gone cannot be called, so the same values give the same answers in
the kernel that made them and in one that restored them.
"""

from __future__ import annotations

import gc
import inspect
import types
import weakref
from typing import Any

_COMPREHENSIONS = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>"})  # run where they stand, never later
# What has code that can run: how its attributes' names begin where it is begun already.
_RUNNABLE: dict[type, str | None] = {
    types.FunctionType: None,
    types.GeneratorType: "gi",
    types.CoroutineType: "cr",
    types.AsyncGeneratorType: "ag",
}


class Known:
    """The code objects of a notebook's functions and generators."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        self._namespace = namespace
        self._refs: dict[int, weakref.ref[types.CodeType]] = {}
        self._room = 1024
        self._frozen = gc.get_freeze_count()  # Python 3.12 begins with some of its own
        self.complete = True  # False: functions may have come in unseen

    def add(self, code: types.CodeType) -> None:
        """Notes a code object; class bodies and comprehensions are no functions."""
        if not code.co_flags & inspect.CO_OPTIMIZED or code.co_name in _COMPREHENSIONS:
            return
        if len(self._refs) > self._room:
            self._refs = {key: ref for key, ref in self._refs.items() if ref() is not None}
            self._room = 2 * len(self._refs) + 1024
        self._refs[id(code)] = weakref.ref(code)

    def __bool__(self) -> bool:
        """Whether there may be any."""
        return bool(self._refs) or not self.complete

    def living(self) -> set[types.CodeType]:
        """Those that live. Looks through all objects of the process if functions may have come in unseen."""
        if not self.complete:
            self._find()
        return {code for ref in self._refs.values() if (code := ref()) is not None}

    def _find(self) -> None:
        for each in [each for each in gc.get_objects() if type(each) in _RUNNABLE]:
            prefix = _RUNNABLE[type(each)]
            if prefix is None:
                scope, code = each.__globals__, each.__code__
            else:
                frame, code = getattr(each, f"{prefix}_frame"), getattr(each, f"{prefix}_code")
                scope = frame.f_globals if frame is not None else None
            if scope is self._namespace:
                self.add(code)
        # What was put out of the collector's sight (`gc.freeze`) is not in its list.
        self.complete = gc.get_freeze_count() <= self._frozen
