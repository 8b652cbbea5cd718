"""Tracebacks: where an exception came through, line by line, without the local variables of its frames.

A traceback cannot be made without frames, nor a frame without running code. A generator that has not begun has one:
each frame's code is made a generator's and called, which runs none of it (from CPython 3.11 on an instruction at its
start does that, before it the flag alone). It keeps its names, lines and columns.
"""

from __future__ import annotations

import dis
import importlib.util
import inspect
import marshal
import types
from typing import TYPE_CHECKING, Any

from . import rebuild, reducers

if TYPE_CHECKING:
    from .reducers import Saving

_FORMAT = 2  # of marshal: later ones depend on reference counts, and the same code must give the same bytes
_PRELUDE = ("RETURN_GENERATOR", "RESUME", "NOP")
_CONSTANTS = (type(None), bool, int, float, complex, str, bytes, type(...), tuple, frozenset)


def reduce(saving: Saving, obj: types.TracebackType) -> Any:
    """The pickle of a traceback: its distinct codes with their globals, and what is to be known of each frame.

    That is the number of its code, the instruction and the line that it came through, and the line it stands at.
    """
    codes: dict[types.CodeType, int] = {}
    scopes: list[Any] = []
    entries: list[tuple[int, int, int, int]] = []
    entry: types.TracebackType | None = obj
    while entry is not None:
        frame, line = entry.tb_frame, entry.tb_lineno or 0
        if frame.f_code not in codes:
            saving.uses_code(frame.f_code)
            codes[frame.f_code] = len(codes)
            scopes.append(reducers.scope_of(saving, frame.f_globals))
        entries.append((codes[frame.f_code], entry.tb_lasti, line, frame.f_lineno or line))
        entry = entry.tb_next
    saving.note("the local variables in its traceback are not kept")
    stored = [marshal.dumps(_plain(code), _FORMAT) for code in codes]
    return rebuild.traceback, (importlib.util.MAGIC_NUMBER, stored, scopes, entries)


def _plain(code: types.CodeType) -> types.CodeType:
    """That code with None for the constants which are no data of Python's: the marks of a cell that was watched."""
    return code.replace(co_consts=tuple(_plain_constant(constant) for constant in code.co_consts))


def _plain_constant(value: Any) -> Any:
    if isinstance(value, types.CodeType):
        return _plain(value)
    return value if type(value) in _CONSTANTS else None


def load(
    codes: list[bytes], scopes: list[Any], entries: list[tuple[int, int, int, int]]
) -> types.TracebackType | None:
    """The traceback of these entries, the outermost first."""
    loaded = [marshal.loads(code) for code in codes]
    made: types.TracebackType | None = None
    for number, instruction, line, stands_at in reversed(entries):
        frame, shift = _frame(loaded[number], scopes[number], stands_at)
        made = types.TracebackType(made, frame, instruction + shift, line)
    return made


def _frame(code: types.CodeType, scope: dict[str, Any], line: int) -> tuple[types.FrameType, int]:
    """A frame of that code which stands at that line and in which nothing has run, and how far its code has shifted.

    Its arguments are None.
    """
    flags = code.co_flags & ~(
        inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR | inspect.CO_ITERABLE_COROUTINE
    )
    cells = [name for name in (*code.co_cellvars, *code.co_freevars) if name not in code.co_varnames]
    code = code.replace(
        co_flags=flags | inspect.CO_GENERATOR | inspect.CO_OPTIMIZED | inspect.CO_NEWLOCALS,
        # What the first instructions would make cells of must not be taken for cells: they do not run.
        co_cellvars=(),
        co_freevars=(),
        co_varnames=(*code.co_varnames, *cells),
        co_nlocals=code.co_nlocals + len(cells),
    )
    start = b""
    if "RETURN_GENERATOR" in dis.opmap:
        # The frame of a generator that ended before it began stands, by definition, at its first RESUME.
        start = bytes(part for name in _PRELUDE for part in (dis.opmap[name], 0))
        delta = line - code.co_firstlineno
        lines: bytes = _line_entry(delta, 2) + _line_entry(-delta, 1) + code.co_linetable
        fields: dict[str, Any] = {"co_exceptiontable": b"", "co_linetable": lines}
        code = code.replace(co_code=start + code.co_code, **fields)
    function = types.FunctionType(code, scope)
    names = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    frame: types.FrameType = function(*[None] * code.co_argcount, **dict.fromkeys(names)).gi_frame
    return frame, len(start)


def _line_entry(delta: int, count: int) -> bytes:
    """That many instructions `delta` lines after those before, in the location table of CPython 3.11 and later.

    The format is that of CPython's Objects/locations.md: an entry without columns (code 13), the delta as a varint.
    """
    value = (-delta << 1) | 1 if delta < 0 else delta << 1
    entry = [0x80 | 13 << 3 | count - 1]
    while value >= 64:
        entry.append(0x40 | value & 63)
        value >>= 6
    return bytes([*entry, value])


reducers.enter(types.TracebackType, reduce)
