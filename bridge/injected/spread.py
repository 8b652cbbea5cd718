"""Follows functions that may have been called: which names they read and bind, and what is reached from
those.

Values are looked into right before the code runs (`Lookup.prepare`), never kept: a reference of ours
would keep alive what the cell drops. What was found then stays enough: a function that a value comes to
hold while the cell runs was reached from another name the cell reads, or was made by code that is known.
"""

from __future__ import annotations

import builtins
import copyreg
import sys
import types
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from . import keys, reach, words
from .codes import Path, code_of
from .judge import Judge, Killed
from .known import Known
from .units import Unit

_UNKNOWN = object()
_EMPTY: frozenset[types.CodeType] = frozenset()


Hanging = Callable[[str], list[Any] | None]
"""Gives the classes and functions that a name's value leads to; None where one must look into the value."""


@dataclass(slots=True)
class About:
    """What is known of a name's value from before the code ran."""

    codes: frozenset[types.CodeType] | set[types.CodeType] = _EMPTY  # notebook functions reached from it
    hidden: bool = False  # there may be more; all that live are in `codes`
    unsafe: bool = False  # the namespace itself, or something that runs text in it, can be reached
    text: set[str] | None = None  # words of a string; empty for a number


_PLAIN = About()
_NUMBER = About(text=set())


class Lookup:
    """Remembers for one cell what hangs on the names that its code can load."""

    def __init__(
        self,
        reached: reach.Reach,
        namespace: dict[str, Any],
        known: Known,
        found: Callable[[types.CodeType], None],
    ) -> None:
        """`found` is called with each code object of a notebook function that was found."""
        self._known = known
        self._living: set[types.CodeType] | None = None
        self._found = found
        self.hanging: Hanging = lambda name: None
        self._reach = reached
        self._namespace = namespace
        self._names: dict[str, About] = {}
        self._codes: set[types.CodeType] = set()

    def prepare(self, unit: Unit, *, functions: bool) -> None:
        """Looks at every name the unit can load, by itself or in functions; once a name.

        `functions`: False when no function was ever made in the notebook, so that none can be found.
        """
        names: set[str] = set()
        codes: list[types.CodeType] = []
        _collect(unit, names, codes)
        self._follow([name for name in names if name not in self._names], codes, functions)

    def look(self, codes: set[types.CodeType]) -> None:
        """Looks at every name these functions can load."""
        self._follow([], list(codes), True)

    def _follow(self, waiting: list[str], codes: list[types.CodeType], functions: bool) -> None:
        while waiting or codes:
            while waiting:
                name = waiting.pop()
                if name not in self._names:
                    about = self._names[name] = self._about(name, functions)
                    codes.extend(about.codes)
            while codes:
                code = codes.pop()
                if code not in self._codes:
                    self._codes.add(code)
                    summary = code_of(code)
                    waiting.extend(summary.reads)
                    waiting.extend(summary.texts)

    def of(self, name: str) -> About:
        """What was found at the name."""
        return self._names.get(name, _PLAIN)

    def _about(self, name: str, functions: bool) -> About:
        if name not in self._namespace:
            return _PLAIN
        value = self._namespace[name]
        if isinstance(value, (int, float, complex, type(None))):
            return _NUMBER
        if isinstance(value, str):
            return About(text=words.identifiers(value[:100_000]))
        if name == "get_ipython" and type(value) is types.MethodType and keys.is_shell(value.__self__):
            return _PLAIN  # what is done with it is looked at where it is named
        if name in words.READERS and keys.reads_texts(value):
            return _PLAIN  # where it is called the text tells
        if keys.opens(value, self._namespace):
            return About(unsafe=True)
        if not functions:
            return _PLAIN
        hanging = self.hanging(name)
        found = self._reach.value(value if hanging is None else hanging)
        for code in found.objects:
            self._found(code)
        if not found.hidden or found.namespace:
            return About(found.codes, found.hidden, found.namespace)
        return About(found.codes | self.living(), True, not self._known.complete)

    def leads(self, value: Any) -> bool:
        """Whether the attributes of attributes of a value can lead to a function of the notebook, or to worse."""
        if isinstance(value, types.ModuleType):
            return keys.opens_by_any_name(value, self._namespace)
        found = self._reach.value(value)
        return bool(found.codes) or found.hidden or found.namespace

    def items_lead(self, value: Any) -> bool:
        """Whether any one attribute of an item of a value can."""
        if type(value) is dict:
            items = [*value, *value.values()]
        elif type(value) in (list, tuple, set, frozenset):
            items = list(value)
        else:
            return self.leads(value)
        if any(isinstance(each, (list, tuple, set, frozenset, dict)) for each in items):
            return self.leads(value)
        return any(keys.opens_by_any_name(each, self._namespace) for each in items)

    def living(self) -> set[types.CodeType]:
        """Code that a function which cannot be seen may have, as of the first time that was asked."""
        if self._living is None:
            self._living = self._known.living()
            for code in self._living:
                self._found(code)
        return self._living


def _collect(unit: Unit, names: set[str], codes: list[types.CodeType]) -> None:
    """Every name the unit's tree loads, and every function defined in it."""
    for each in unit.codes.values():
        codes.extend(each)
    waiting: list[Any] = [unit.node]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Unit):
            _collect(node, names, codes)
        elif isinstance(node, tuple) and node:
            if node[0] in ("read", "call", "see"):
                names.add(node[1])
            elif node[0] == "alias":
                names.add(node[2])
            elif node[0] == "strings":
                names.update(node[3], node[4], *[words.identifiers(text) for text in node[2]])
            elif node[0] == "says":
                names |= words.identifiers(node[2])
            else:
                waiting.extend(node)


class Spread:
    """Goes from the names top-level code loaded, through functions they reach, to more names."""

    def __init__(self, judge: Judge, lookup: Lookup, namespace: dict[str, Any]) -> None:
        self._judge = judge
        self._lookup = lookup
        self._namespace = namespace
        self._paths: set[Path] = set()  # that were looked at
        self._dynamic: set[types.CodeType] = set()  # functions that take attributes which nobody can name
        self._makes = False  # functions that make functions
        self._binds: set[str] = set()  # by functions
        self.hid = False  # functions that were not found may have run
        self.lent: set[types.CodeType] = set()  # functions that a library may call from now on

    def run(self) -> None:
        """Adds to the judge's reads and binds what the functions read and bind."""
        judge = self._judge
        self.lent = set(judge.lent_codes).union(*[self._codes_of(name) for name in judge.lent])
        names = dict(judge.roots)
        codes = dict(judge.codes)
        if judge.pickled is not None:
            self._pickled(judge.pickled, names)
        self._follow(judge.paths, frozenset(), codes)
        done_names: dict[str, Killed] = {}
        done_codes: dict[types.CodeType, Killed] = {}
        while names or codes:
            while names:
                name, killed = names.popitem()
                if _fewer(done_names, name, killed):
                    for other in judge.aliases.get(name, ()):
                        _fewer(names, other, done_names[name])
                    for code in self._codes_of(name):
                        _fewer(codes, code, done_names[name])
            while codes:
                code, killed = codes.popitem()
                if _fewer(done_codes, code, killed):
                    self._code(code, done_codes[code], names)
                    self._follow(code_of(code).paths, done_codes[code], codes)
        if not judge.uncertain:
            judge.uncertain = any(map(self._opens, judge.roots)) or any(
                self._follows(*each) for each in judge.formats
            )
        if not judge.uncertain and (self._dynamic or any(map(self._takes_any, judge.roots))):
            handed = self._makes or judge.codes.keys() - self._dynamic
            judge.uncertain = bool(handed) or any(map(self._hands_on, judge.roots))
        if judge.spoken.keys() & (judge.unsaid | self._binds):  # a text made in the cell, not known
            judge.uncertain = True

    def _codes_of(self, name: str) -> set[types.CodeType]:
        about = self._lookup.of(name)
        if about.unsafe:
            self._judge.uncertain = True
        self.hid = self.hid or about.hidden
        return set(self._judge.parked.get(name, ())) | about.codes

    def _follows(self, template: str | None, whole: bool, names: tuple[str, ...]) -> bool:
        """Whether a format string may follow attributes to the namespace."""
        judge = self._judge
        value = self._starts(template)[0] if template is not None else _UNKNOWN
        if whole and isinstance(value, str) and template not in self._binds | judge.unsaid:
            return words.opens_as_text(value)
        if value is not _UNKNOWN and not keys.may_format(value):
            return False
        return any(self._lookup.leads(each) for name in names for each in self._starts(name))

    def _opens(self, name: str) -> bool:
        """Whether a name came to hold, in the cell, what opens the namespace."""
        judge = self._judge
        missing = object()
        value = judge.after.get(name, missing)
        if value is missing:
            bound = [_imported(each) for each in judge.imported.get(name, ())]
            return any(keys.opens(each, self._namespace) for each in bound)
        if name in ("get_ipython", "_", "__", "___"):  # the last are set by what the cell showed
            return False
        if name in words.READERS and keys.reads_texts(value):
            return name in judge.passed
        return keys.opens(value, self._namespace)

    def _takes_any(self, name: str) -> bool:
        """Whether a name holds `getattr` or the like, under a name or in a way that the code does not tell."""
        used = name in self._judge.passed or name not in words.GETTERS
        return used and any(map(keys.takes_any_attribute, self._starts(name)))

    def _hands_on(self, name: str) -> bool:
        """Whether a function, or what leads to one, can come from a name to others."""
        for value in self._starts(name):
            if name in self._judge.passed and keys.opens_by_any_name(value, self._namespace):
                return True
            kept: Any = value
            if type(value) is types.FunctionType and value.__globals__ is self._namespace:
                if name not in self._judge.passed:  # only called: what it was made with counts
                    kept = (value.__defaults__, value.__kwdefaults__, value.__closure__, value.__dict__)
            elif value is getattr(builtins, name, _UNKNOWN):
                continue
            if kept is not _UNKNOWN and self._lookup.leads(kept):
                return True
        return False

    def _follow(self, paths: Collection[Path], killed: Killed, codes: dict[types.CodeType, Killed]) -> None:
        """Looks at what attributes of modules are: a cell may have put a function, or worse, there."""
        for path in paths:
            if self._judge.uncertain or path in self._paths:
                continue
            self._paths.add(path)
            for value in self._starts(path[0]):
                self._walk(value, path[1:], killed, codes)

    def _starts(self, root: str) -> list[Any]:
        if root == "?":
            return [_UNKNOWN]
        if root.startswith("@"):
            return [_imported(root[1:])]
        judge = self._judge
        if root in judge.after:
            return [judge.after[root]]
        known: list[Any] = [_imported(each) for each in judge.imported.get(root, ())]
        return known or [getattr(builtins, root, _UNKNOWN)]

    def _walk(self, value: Any, rest: Path, killed: Killed, codes: dict[types.CodeType, Killed]) -> None:
        judge = self._judge
        for name in rest:
            if name in ("*", "[]"):
                leads = self._lookup.leads if name == "*" else self._lookup.items_lead
                judge.uncertain = judge.uncertain or value is _UNKNOWN or leads(value)
                return
            if name in words.LOADERS and keys.loader_opens(value, name):
                judge.uncertain = True
            if name == "__getattr__":  # one that is not known
                judge.uncertain = judge.uncertain or keys.opens_by_any_name(value, self._namespace)
            if not isinstance(value, types.ModuleType):
                if rest[-1] == "__getattr__" and name != "__getattr__":  # of an attribute of it
                    judge.uncertain = judge.uncertain or value is _UNKNOWN or self._lookup.leads(value)
                break
            held = types.ModuleType.__getattribute__(value, "__dict__")
            if name == "__dict__":
                judge.uncertain = judge.uncertain or "__builtins__" in held or keys.is_risky(value)
                break
            value = held.get(name)
        if isinstance(value, types.FunctionType) and value.__globals__ is self._namespace:
            _fewer(codes, value.__code__, killed)
            self.hid = True  # found only now: what it read was not watched
        elif value is not _UNKNOWN:
            judge.uncertain = judge.uncertain or self._opens_here(value)

    def _opens_here(self, value: Any) -> bool:
        shell = isinstance(value, types.FunctionType) and value.__name__ == "get_ipython"
        return not shell and not keys.reads_texts(value) and keys.opens(value, self._namespace)

    def _code(self, code: types.CodeType, killed: Killed, names: dict[str, Killed]) -> None:
        judge = self._judge
        summary = code_of(code)
        judge.passed |= summary.passed
        self._makes = self._makes or summary.makes
        if summary.dynamic:
            self._dynamic.add(code)
        for name in summary.reads | summary.texts:
            judge.load(name, killed, unseen=name in summary.texts)
            _fewer(names, name, judge.roots[name])
        judge.binds |= summary.binds
        self._binds |= summary.binds
        readers = any(library in sys.modules for each in summary.readers for library in words.READERS[each])
        if summary.uncertain or readers:
            judge.uncertain = True
        if summary.pickles:
            self._pickled(killed, names)

    def _pickled(self, killed: Killed, names: dict[str, Killed]) -> None:
        """Unpickling looks classes and functions up by name."""
        judge = self._judge
        for name, value in list(judge.after.items()):
            if isinstance(value, (type, types.FunctionType)) and value.__module__ == "__main__":
                judge.load(name, killed, unseen=True)
                _fewer(names, name, judge.roots[name])
        for name in [each for each in judge.before if each not in judge.after]:
            judge.load(name, killed, unseen=True)
        for reducer in list(copyreg.dispatch_table.values()):
            if isinstance(reducer, types.FunctionType) and reducer.__globals__ is self._namespace:
                for text in reducer.__code__.co_consts:  # it may give the name of a global
                    for name in (
                        words.identifiers(text).intersection(judge.before) if isinstance(text, str) else ()
                    ):
                        judge.load(name, killed, unseen=True)


def _imported(text: str) -> Any:
    """What `module` or `module:name` is, if it was imported."""
    module, _, name = text.partition(":")
    held = sys.modules.get(module)
    if held is None or not name:
        return held if held is not None else _UNKNOWN
    return vars(held).get(name, sys.modules.get(f"{module}.{name}", held))


def _fewer(known: dict[Any, Killed], key: Any, killed: Killed) -> bool:
    """Notes that `key` was met when `killed` were gone; True if that is news."""
    old = known.get(key)
    if old is None:
        known[key] = killed
        return True
    known[key] = old & killed
    return known[key] != old
