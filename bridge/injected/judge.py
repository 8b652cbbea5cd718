"""Walks the tree of what was run, with the markers' answers: what was read, bound, removed, and might
have been called.

`killed` is the set of names whose value from before the cell is surely gone at a point (bound or removed
by the cell on every way there). A read of a killed name sees the cell's own value and is no read of the
state. Killed names stay killed, so a function called later than its own name was read sees at least those
as gone. None in place of the set stands for a point that is never reached.
"""

from __future__ import annotations

import abc
import builtins
import sys
import types
from collections.abc import Callable, Collection, Iterable
from typing import Any

from . import words
from .codes import code_of
from .marks import Marks
from .units import Unit

Killed = frozenset[str]
_NONE: Killed = frozenset()
_MISSING = object()


class Judge:
    """Collects over the units of one cell."""

    def __init__(
        self, before: Collection[str], after: dict[str, Any], text_of: Callable[[str], set[str] | None]
    ) -> None:
        """`before`: names that were there; `text_of`: words of the string a name held then, or None."""
        self.before, self.after, self._text_of = before, after, text_of
        self.reads: set[str] = set()  # names whose old value was (or may have been) seen by top-level code
        self.binds: set[str] = set()  # names that were, or may have been, bound by top-level code
        self.roots: dict[str, Killed] = {}  # every name that was loaded, with what was killed by then
        self.codes: dict[types.CodeType, Killed] = {}  # functions made in the cell that may have run
        self.parked: dict[str, list[types.CodeType]] = {}  # functions made in the cell and bound to a name
        self.unseen: set[str] = set()  # names read or bound by no instruction of the notebook's code
        self._inside_magic = 0
        self.aliases: dict[str, set[str]] = {}  # names that may hold another name's value
        self.lent: set[str] = set()  # names whose values a library was given to call later
        self.lent_codes: set[types.CodeType] = set()
        self.spoken: dict[str, Killed] = {}  # variables whose text a library took names from
        self.said: dict[str, set[str]] = {}  # words of texts bound to a name in the cell
        self.passed: set[str] = set()  # names whose values went elsewhere than being called
        self.unsaid: set[str] = set()  # names bound to anything else
        self.paths: set[tuple[str, ...]] = set()  # of attributes that were taken
        self.formats: list[tuple[str | None, bool, tuple[str, ...]]] = []  # texts that name attributes
        self.imported: dict[str, set[str]] = {}  # what import statements bound to a name
        self.uncertain = False
        self.pickled: Killed | None = None  # classes may have been looked up by name
        self._unit: Unit | None = None
        self._marks: Marks | None = None
        self._loops: list[tuple[list[Killed], list[Killed]]] = []
        self._groups: dict[int, Killed] = {}
        self._main: Killed = _NONE  # at the start of the cell's statement that runs now

    def unit(self, unit: Unit, *, main: int) -> None:
        """Judges one unit; units of a group follow each other, others ran inside the main one's last."""
        start = self._groups.get(unit.group, self._main)
        if unit.group == main:
            self._main = start
        end = self._enter(unit, start)
        self._groups[unit.group] = end if end is not None and unit.finished is not False else start

    def _enter(self, unit: Unit, killed: Killed) -> Killed | None:
        outer = self._unit, self._marks, self._loops
        self._unit, self._marks, self._loops = unit, unit.marks, []
        try:
            end = self.walk(unit.node, killed)
            if unit.foreign:
                for codes in unit.codes.values():
                    self._called(codes, killed)
        finally:
            self._unit, self._marks, self._loops = outer
        return end

    def finish(self) -> None:
        """To be called after the last unit: texts that libraries took names from, bound anywhere."""
        for variable, killed in self.spoken.items():
            for name in self.said.get(variable, ()):
                if name in self.before or name in self.after:
                    self.load(name, killed, unseen=True)

    def walk(self, node: tuple[Any, ...], killed: Killed | None) -> Killed | None:
        """What is killed after the node."""
        if killed is None:
            return None
        method = getattr(self, "_" + node[0])
        end: Killed | None = method(killed, *node[1:])
        return end

    def load(self, name: str, killed: Killed, *, unseen: bool = False) -> None:
        """Notes that the name was read at a point where `killed` are gone.

        `unseen`: by no instruction of the notebook's code.
        """
        if unseen or self._inside_magic:
            self.unseen.add(name)
        if name not in killed:
            self.reads.add(name)
        known = self.roots.get(name)
        self.roots[name] = killed if known is None else known & killed

    def _hit(self, mark: int | None) -> bool | None:
        return None if mark is None or self._marks is None else mark in self._marks

    # -- single nodes

    def _read(self, killed: Killed, name: str) -> Killed:
        self.passed.add(name)
        return self._call(killed, name)

    def _call(self, killed: Killed, name: str) -> Killed:
        self.load(name, killed)
        return killed

    def _says(self, killed: Killed, name: str, text: str) -> Killed:
        self.said.setdefault(name, set()).update(words.identifiers(text))
        self.binds.add(name)
        return killed if name in killed else killed | {name}

    def _bind(self, killed: Killed, name: str) -> Killed:
        self.unsaid.add(name)
        self.binds.add(name)
        return killed if name in killed else killed | {name}

    def _see(self, killed: Killed, name: str) -> Killed:
        self.load(name, killed, unseen=True)
        return killed

    def _maybe(self, killed: Killed, name: str) -> Killed:
        self.unseen.add(name)
        self.unsaid.add(name)
        self.binds.add(name)
        return killed

    def _alias(self, killed: Killed, targets: tuple[str, ...], name: str) -> Killed:
        if self._inside_magic:
            self.unseen.add(name)
        if name not in killed:
            self.reads.add(name)
        for target in targets:
            self.aliases.setdefault(target, set()).add(name)
        return killed

    def _lend(self, killed: Killed, root: str | None, node: tuple[Any, ...]) -> Killed:
        if root is not None:
            value = self.resolve(root)
            foreign = isinstance(value, type) and value.__module__ != "__main__"
            if not foreign and not isinstance(value, types.ModuleType):
                return killed
        waiting: list[Any] = [node]
        while waiting:
            each = waiting.pop()
            if isinstance(each, tuple) and each:
                if each[0] in ("read", "call"):
                    self.lent.add(each[1])
                elif each[0] == "run":
                    self.lent_codes.update(self._functions(each[1]))
                else:
                    waiting.extend(each)
        return killed

    def _del(self, killed: Killed, name: str) -> Killed:
        return killed | {name}

    def _seq(self, killed: Killed | None, nodes: Iterable[tuple[Any, ...]]) -> Killed | None:
        for node in nodes:
            killed = self.walk(node, killed)
            if killed is None:
                break
        return killed

    def _step(
        self, killed: Killed, mark: int, node: tuple[Any, ...], names: tuple[str, ...]
    ) -> Killed | None:
        bound = set(self.binds)
        end = self.walk(node, killed)
        if self._hit(mark) is False:  # it failed, or was left: nothing after it was met
            self.binds -= set(names) - bound
            return None
        return end

    def _jump(self, killed: Killed, kind: str) -> None:
        if kind != "exit" and self._loops:
            self._loops[-1][kind == "continue"].append(killed)

    def _any(self, killed: Killed) -> Killed:
        self.uncertain = True
        return killed

    def _attr(self, killed: Killed, path: str) -> Killed:
        self.paths.add(tuple(path.split(".")))
        return killed

    def _format(self, killed: Killed, template: str | None, whole: bool, names: tuple[str, ...]) -> Killed:
        self.formats.append((template, whole, names))
        return killed

    def _import(self, killed: Killed, name: str, module: str) -> Killed:
        self.imported.setdefault(name, set()).add(module)
        return killed

    def _unsafe(self, killed: Killed, name: str) -> Killed:
        own = name in killed or (name in self.before and not name.startswith("__"))
        self.uncertain = self.uncertain or not own
        return killed

    def _code(self, killed: Killed, unit: Unit) -> Killed:
        binds = set(self.binds)
        self._inside_magic += 1
        self._enter(unit, killed)
        self._inside_magic -= 1
        if unit.foreign:  # inside a function of the magic's
            self.binds = binds
        self.unseen |= self.binds - binds
        for codes in unit.codes.values():
            for code in codes:
                self.unseen |= code_of(code).reads | code_of(code).binds
        return killed

    # -- branches

    def _opt(self, killed: Killed, mark: int | None, node: tuple[Any, ...]) -> Killed | None:
        hit = self._hit(mark)
        if hit is False:
            return killed
        end = self.walk(node, killed)
        return end if hit else killed

    def _if(self, killed: Killed, arms: Any, exhaustive: bool) -> Killed | None:
        hits = [self._hit(mark) for mark, _ in arms]
        ends: list[Killed | None] = []
        for hit, (_, node) in zip(hits, arms, strict=True):
            if hit is not False:
                ends.append(self.walk(node, killed))
        if True not in hits and not (exhaustive and None in hits):
            ends.append(killed)  # no arm ran (or, with two, the test failed: what follows is not met)
        return _merge(ends)

    def _loop(
        self, killed: Killed, turns: int | None, target: Any, body: Any, orelse: Any, endless: bool
    ) -> Killed | None:
        turned = True if endless else self._marks.turned(turns) if self._marks is not None else None
        if turned is False:
            return self.walk(orelse, killed)
        breaks: list[Killed] = []
        continues: list[Killed] = []
        self._loops.append((breaks, continues))
        once = _merge([self.walk(body, self.walk(target, killed)), *continues])
        self._loops.pop()
        ended = None if endless else once if turned else killed
        return _merge([self.walk(orelse, ended), *breaks])

    def _comp(self, killed: Killed, turns: int | None, node: tuple[Any, ...]) -> Killed:
        if self._marks is None or self._marks.turned(turns) is not False:
            self.walk(node, killed)
        return killed

    def _with(self, killed: Killed, mark: int | None, body: tuple[Any, ...]) -> Killed | None:
        end = self.walk(body, killed)
        return end if self._hit(mark) else killed  # the manager may swallow an exception from anywhere inside

    def _try(
        self, killed: Killed, mark: int | None, body: Any, handlers: Any, orelse: Any, final: Any
    ) -> Killed | None:
        completed = self._hit(mark)
        inside = self.walk(body, killed)
        ends: list[Killed | None] = []
        if completed is not False:
            ends.append(self.walk(orelse, inside))
        if not completed:
            ends += self._handlers(killed, handlers)
        end = _merge(ends)
        quiet = completed and orelse == ("seq", ())  # then the final part comes after a body that ended well
        last = self.walk(final, inside if quiet and inside is not None else killed)
        if end is None or last is None:
            return None
        return end | last

    def _handlers(self, killed: Killed, handlers: Any) -> list[Killed | None]:
        ends: list[Killed | None] = []
        for mark, kinds, node in handlers:
            self.walk(kinds, killed)  # looked at in order, until one fits
            hit = self._hit(mark)
            if hit is not False:
                ends.append(self.walk(node, killed))
            if hit:
                break
        return ends

    def _match(self, killed: Killed, cases: Any) -> Killed | None:
        ends: list[Killed | None] = []
        for mark, pattern, captures, guard, body in cases:
            self.walk(pattern, killed)
            hit = self._hit(mark)
            if hit is False and guard is None:
                continue
            bound = self.walk(captures, killed)
            if guard is not None:
                bound = self.walk(guard, bound)
            if hit is False:
                continue
            ends.append(self.walk(body, bound))
            if hit:
                return _merge(ends)
        return _merge([*ends, killed])

    # -- definitions

    def _run(self, killed: Killed, key: tuple[str, int]) -> Killed:
        self._called(self._functions(key), killed)
        return killed

    def _called(self, codes: Iterable[types.CodeType], killed: Killed) -> None:
        for code in codes:
            known = self.codes.get(code)
            self.codes[code] = killed if known is None else known & killed

    def _functions(self, key: tuple[str, int]) -> list[types.CodeType]:
        return self._unit.functions(key) if self._unit is not None else []

    def _park(self, killed: Killed, names: Iterable[str], key: tuple[str, int]) -> Killed:
        for name in names:
            self.parked.setdefault(name, []).extend(self._functions(key))
        return killed

    def _deco(self, killed: Killed, decorators: Any, owner: str, key: tuple[str, int]) -> Killed:
        if all(self._is_quiet(each) for each in decorators):
            return self._park(killed, (owner,), key)
        self._called(self._functions(key), killed)
        if any(each is not None and words.KEEPERS.search(each) for each in decorators):
            self.lent_codes.update(self._functions(key))
        return killed

    def _class(self, killed: Killed, name: str, key: tuple[str, int], bases: Any, decorators: Any) -> Killed:
        plain = bases is not None and all(self._is_plain_base(each) for each in bases)
        for base in bases or ():
            if base in self.aliases.get(name, ()) and not plain:
                self.load(base, killed)
        if plain and all(self._is_quiet(each) for each in decorators):
            return self._park(killed, (name,), key)
        self._called(self._functions(key), killed)
        if any(each is not None and words.KEEPERS.search(each) for each in decorators):
            self.lent_codes.update(self._functions(key))
        return killed

    def resolve(self, dotted: str | None) -> Any:
        """The value of a dotted name as far as it can be told without running code of the user's."""
        if dotted is None:
            return _MISSING
        first, *rest = dotted.split(".")
        value = self.after.get(first, getattr(builtins, first, _MISSING))
        for name in rest:
            if not isinstance(value, types.ModuleType):
                return value if isinstance(value, (type, property)) else _MISSING
            value = vars(value).get(name, _MISSING)
        return value

    def _is_quiet(self, dotted: str | None) -> bool:
        value = self.resolve(dotted)
        if isinstance(value, property):
            return True  # `@x.setter`
        if (
            dotted is not None
            and dotted.endswith((".setter", ".getter", ".deleter"))
            and dotted.count(".") == 1
        ):
            return True
        if not isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)):
            return False
        return (value.__module__, value.__qualname__) in words.QUIET_DECORATORS

    def _is_plain_base(self, dotted: str | None) -> bool:
        """A base class whose subclasses are made without running anything of theirs."""
        value = self.resolve(dotted)
        if not isinstance(value, type) or type(value) not in (type, abc.ABCMeta):
            return False
        return not any("__init_subclass__" in vars(each) for each in value.__mro__ if each is not object)

    # -- libraries that read by themselves

    def _star(self, killed: Killed, module: str) -> Killed:
        found = vars(sys.modules[module]) if module in sys.modules else {}
        names = found.get("__all__") or [name for name in found if not name.startswith("_")]
        bound = {name for name in names if isinstance(name, str)}
        self.binds |= bound
        self.unseen |= bound
        return killed | bound

    def _strings(
        self, killed: Killed, callee: str, texts: Any, variables: Any, parts: Any, whole: bool
    ) -> Killed:
        if not any(library in sys.modules for library in words.READERS[callee]):
            return killed
        names: set[str] = set().union(*[words.identifiers(text) for text in texts])
        for variable in (*variables, *parts):
            known = self.spoken.get(variable)
            self.spoken[variable] = killed if known is None else known & killed
            held = self._text_of(variable)
            names |= held or set()
            if held is None and variable not in killed and (variable in parts or self._speaks(variable)):
                whole = False
        for name in names:
            if name in self.before or name in self.after:
                self.load(name, killed, unseen=True)
        self.uncertain = self.uncertain or not whole
        return killed

    def _speaks(self, name: str) -> bool:
        """Whether what a name holds, which is no text, may be one that was taken apart: a formula, a statement."""
        return words.reads_texts(_package(self.after.get(name, _MISSING)))

    def _reader(self, killed: Killed, name: str | None, attribute: str) -> Killed:
        package = _package(self.resolve(name))
        known = package not in ("", "builtins", "main__") and package not in words.READERS[attribute]
        loaded = any(library in sys.modules for library in words.READERS[attribute])
        self.uncertain = self.uncertain or (loaded and not known)
        return killed

    def _classes(self, killed: Killed, dotted: str | None) -> Killed:
        value = self.resolve(dotted.partition(".")[0] if dotted else None)
        module = value.__name__ if isinstance(value, types.ModuleType) else getattr(value, "__module__", "")
        if not (isinstance(module, str) and module.partition(".")[0] in words.DATA_MODULES):
            self.pickled = killed if self.pickled is None else self.pickled & killed
        return killed


def _package(value: Any) -> str:
    """The package that a value, or the class of one, comes from."""
    if isinstance(value, types.ModuleType):
        name: Any = value.__name__
    else:
        plain = isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType))
        name = getattr(value if plain else type(value), "__module__", "")
    return name.partition(".")[0].lstrip("_") if isinstance(name, str) and value is not _MISSING else ""


def _merge(ends: list[Killed | None]) -> Killed | None:
    """What is killed on every way that is taken."""
    reached = [end for end in ends if end is not None]
    if not reached:
        return None
    first = reached[0]
    for other in reached[1:]:
        if other != first:
            first = first & other
    return first
