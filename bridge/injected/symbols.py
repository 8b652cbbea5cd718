"""Tells which names of the namespace a cell reads, binds and removes, without slowing its code.

The namespace stays an ordinary dict and functions are compiled as ever. What top-level code did is told
by its AST (`flow`), markers outside loops (`marks`) and a comparison of the namespace before and after
(`judge`); what functions of the notebook may have done, by their code objects and by who could reach them
(`reach`). Where that cannot be sure, the answer is larger: a read is never missed.

`Tracker.install` puts a hook into the shell's compiler: the class of `shell.compile` becomes a subclass
of itself, whose `__call__` sees each statement right before it runs (also those of `%time`, `%%capture`
and nested cells). It adds no frame to a running cell and no name anywhere. Without it everything still
holds, less exactly.
"""

from __future__ import annotations
import __future__

import ast
import asyncio
import codeop
import contextlib
import sys
import threading
import traceback
import types
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import reach as reaching
from .flow import Builder
from .judge import Judge
from .known import Known
from .marks import Edits
from .own import Own
from .spread import Hanging, Lookup, Spread
from .units import AWAIT, Key, Unit, inner_codes
from .watch import Watch


@dataclass(slots=True)
class Symbols:
    """What a cell did to the names of the namespace; the lists are sorted."""

    accessed: list[str]
    modified: list[str]
    deleted: list[str]
    certain: bool = True  # False: code that can reach anything; every name from before is in `accessed`
    touched: set[str] | None = None  # every name whose value can have been reached or bound; None: any
    problem: str | None = None  # a failure of the tracker itself (then nothing is certain)
    alone: bool = False  # no other code of the notebook's can have run, or runs before the next cell


_TREES = (ast.Module, ast.Interactive, ast.Expression)

# Values that may be kept while a cell runs: nobody sees that they live a little longer.
_KEPT = frozenset({int, float, complex})


class Plan:
    """One cell while it runs. It holds no value of the user's but numbers."""

    def __init__(self, shell: Any, source: str | None, lookup: Lookup) -> None:
        namespace = shell.user_ns
        self.before = identities(namespace)
        # An identity is no proof once its object is gone: numbers are kept, for others the code tells.
        self.kept = [value for value in namespace.values() if type(value) in _KEPT]
        self.own = Own(shell, self.before)
        self.source = source  # Python text, read if nothing comes through the hook
        self.lookup = lookup
        self.main: int | None = None  # the group of the cell's own statements
        self.units: list[Unit] = []
        self.elsewhere: set[types.CodeType] = set()  # notebook code that others than the cell may run
        self.watched = False  # the interpreter reports what runs
        self.compiled: list[types.CodeType] = []  # top-level code, kept so that its identity stays its own
        self.problem: str | None = None


def identities(namespace: dict[str, Any]) -> dict[str, int]:
    """The identity of each value, by name."""
    return dict(zip(namespace, map(id, namespace.values()), strict=True))


class _Source:
    """The shell as `magics` sees it."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell

    def transform(self, text: str) -> str:
        try:
            return str(self._shell.transform_cell(text))
        except SyntaxError:
            return text

    def knows(self, kind: str, name: str) -> bool:
        magics = getattr(self._shell, "magics_manager", None)
        found = magics.magics.get(kind, {}).get(name) if magics is not None else None
        if found is None:
            return True  # loaded on demand or missing: then the call fails
        module = getattr(found, "__module__", None) or getattr(
            getattr(found, "__func__", None), "__module__", ""
        )
        return str(module).partition(".")[0] in ("IPython", "ipykernel", "matplotlib_inline")


class Tracker:
    """Tells which names of the namespace a cell reads, binds and removes."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._source = _Source(shell)
        self._reach = reaching.Reach(shell.user_ns)
        self._watch = Watch(shell.user_ns)
        self._last = identities(shell.user_ns)  # after the last cell
        self.know_threads()
        self._plans: list[Plan] = []  # a cell may run others
        self._cache: dict[str, list[Unit]] = {}
        self._known = Known(shell.user_ns)
        self._came = False  # values came from elsewhere: they can hold what no cell here named
        self._lent: set[types.CodeType] = set()  # functions that libraries may call on their own account

    # -- the hook

    def know_threads(self) -> None:
        """Takes the threads there are for the kernel's own."""
        self._threads = set(threading.enumerate())

    def install(self) -> None:
        """Hooks into the shell's compiler, in place of any other tracker's hook; `uninstall` takes it out."""
        compiler = self._shell.compile
        if self._hooked or not isinstance(compiler, codeop.Compile):
            return
        base: Any = getattr(type(compiler), "_bridge_base", type(compiler))
        owner = weakref.ref(self)

        def __call__(self: Any, source: Any, *args: Any, **kwargs: Any) -> Any:
            tracker = owner()
            if tracker is None or not tracker._plans or not isinstance(source, _TREES):
                return base.__call__(self, source, *args, **kwargs)

            def plain(tree: Any) -> Any:
                return base.__call__(self, tree, *args, **kwargs)

            return tracker._compile(source, args[0] if args else kwargs.get("filename"), plain)

        body = {"__call__": __call__, "_bridge_base": base, "_bridge_owner": owner}
        hooked = type(
            base.__name__, (base,), {**body, "__module__": base.__module__, "__doc__": base.__doc__}
        )
        hooked.__qualname__ = base.__qualname__
        compiler.__class__ = hooked

    def uninstall(self) -> None:
        """Takes the hook out of the shell's compiler."""
        if self._hooked:
            self._shell.compile.__class__ = type(self._shell.compile)._bridge_base
        self._watch.close()

    @property
    def _hooked(self) -> bool:
        owner = getattr(type(self._shell.compile), "_bridge_owner", None)
        return owner is not None and owner() is self

    def _compile(self, tree: Any, filename: Any, plain: Callable[[Any], types.CodeType]) -> types.CodeType:
        """Compiles one statement with markers, and notes it in the running plans."""
        try:
            unit, code = self._unit(tree, plain)
        except Exception:  # mostly the user's own error: it must come from the code as it was written
            code = plain(tree)
            unit = Unit(("any",), inner_codes(code), None)
        frame = sys._getframe(2)  # run_ast_nodes of the cell (one frame for all its statements), or a magic
        unit.group = id(frame)
        unit.foreign = filename == "<magic-timeit>"
        self._note(unit)
        self._watch.arm(code)
        self._plans[0].compiled.append(code)
        return code

    def _note(self, unit: Unit) -> None:
        """Adds a unit that is about to run to the running plans."""
        self._know(unit.codes)
        for plan in self._plans:
            if plan.main is None:
                plan.main = unit.group
            plan.units.append(unit)
            try:
                plan.lookup.prepare(unit, functions=self._came or bool(self._known))
            except Exception:  # the cell goes on; its answer will be that nothing is certain
                plan.problem = traceback.format_exc()

    def _builder(self, edits: Edits | None) -> Builder:
        future = getattr(self._shell.compile, "flags", 0) & __future__.annotations.compiler_flag
        return Builder(edits, self._source, hooked=self._hooked, annotations=not future)

    def _unit(self, tree: Any, plain: Callable[[Any], types.CodeType]) -> tuple[Unit, types.CodeType]:
        edits = Edits()
        builder = self._builder(edits)
        single = isinstance(tree, ast.Expression)
        node = builder.expression(tree) if single else builder.top(tree.body)
        if not tree.body or _is_text(tree):  # a lone string may be the docstring; nothing to mark
            code = plain(tree)
            return Unit(node, inner_codes(code), None), code
        code = edits.compiled(tree, plain)
        return Unit(node, inner_codes(code), edits.marks), code

    # -- around a cell

    def begin(self, raw_cell: str, transformed: str | None, hanging: Hanging | None = None) -> Plan:
        """Starts to watch a cell. `transformed`: its Python text or None; unused with the hook.

        `hanging` tells of values as they were after the last cell.
        """
        lookup = Lookup(self._reach, self._shell.user_ns, self._known, self._watch.arm)
        plan = Plan(self._shell, None if self._hooked else transformed, lookup)
        if not self._plans:
            self._learn_new(plan.before)
        if self._hooked and not self._plans:
            plan.watched = self._watch.start(plan.before)
        del self._plans[:-16]  # cells that were begun and never ended must not pile up
        self._plans.append(plan)
        plan.elsewhere = self._elsewhere()
        if hanging is not None and self._is_alone(plan.elsewhere):
            lookup.hanging = hanging
        plan.lookup.look(plan.elsewhere)
        if plan.source is not None:
            for unit in self._static(plan.source):
                self._note(unit)
        return plan

    def end(self, plan: Plan, error: bool) -> Symbols:
        """What the cell did. Cells begun inside it and never ended are ended with it."""
        if plan.watched:
            self._watch.stop()
        if plan in self._plans:
            del self._plans[self._plans.index(plan) :]
        try:
            return self._symbols(plan)
        except Exception:  # a failure here must not become the cell's: report everything instead
            plan.problem = traceback.format_exc()
            return self._everything(plan, None)

    def learn(self, code: types.CodeType) -> None:
        """Notes the code of a function that came into the namespace by other ways than a cell."""
        self._know({(code.co_name, code.co_firstlineno): [code], **inner_codes(code)})

    def _know(self, found: dict[Key, list[types.CodeType]]) -> None:
        for (name, _), codes in found.items():
            for code in codes:
                self._known.add(code)
            if name == "__del__":  # runs whenever a value goes away, without being named
                self._lent.update(codes)

    def restored(self) -> None:
        """To be called after values were put into the namespace whose functions all went to `learn`.

        Without it the next cell's begin looks into them itself, which is bounded.
        """
        self._last = identities(self._shell.user_ns)
        self._came = True

    def _learn_new(self, before: dict[str, int]) -> None:
        """Notes functions in values that somebody else put into the namespace since the last cell."""
        if before == self._last:
            return
        self._came = True
        for name, value in list(self._shell.user_ns.items()):
            if before.get(name) != self._last.get(name):
                found = self._reach.value(value)
                for code in found.objects:
                    self.learn(code)
                if found.hidden:
                    self._known.complete = False

    def _static(self, source: str) -> list[Unit]:
        """The cell's statements, read from its text."""
        if source in self._cache:
            return self._cache[source]
        units: list[Unit] = []
        try:
            for statement in ast.parse(source).body:
                module = ast.Module([statement], [])
                code = compile(module, "<cell>", "exec", AWAIT, True)
                units.append(Unit(self._builder(None).body(module.body), inner_codes(code), None))
        except (SyntaxError, ValueError):
            pass  # what stands before the faulty statement runs
        except RecursionError:
            units = [Unit(("any",), {}, None)]
        if len(self._cache) > 256:
            self._cache.clear()
        self._cache[source] = units
        return units

    # -- the answer

    def _symbols(self, plan: Plan) -> Symbols:
        judge = Judge(plan.before.keys(), self._shell.user_ns, lambda name: plan.lookup.of(name).text)
        for unit in plan.units:
            judge.unit(unit, main=plan.main or 0)
        judge.finish()
        elsewhere = plan.elsewhere | self._elsewhere()
        judge.codes.update(dict.fromkeys(elsewhere, frozenset()))
        spread = Spread(judge, plan.lookup, self._shell.user_ns)
        spread.run()
        self._lent |= spread.lent
        if judge.uncertain or plan.problem:
            self._known.complete = False  # what an `exec` made is not known
            return self._everything(plan, judge)
        touched = judge.reads | judge.roots.keys()
        # What the interpreter saw shortens the lists, if all code that can have run was watched.
        if plan.watched and not (spread.hid or elsewhere) and self._all_ran(plan):
            judge.reads &= self._watch.reads | judge.unseen
            judge.binds &= self._watch.stores | judge.unseen
            touched &= self._watch.loads | judge.unseen
        accessed = sorted(name for name in judge.reads if name in plan.before and not plan.own.has(name))
        modified, deleted = self._changes(plan, judge)
        touched &= plan.before.keys()
        touched.update(modified)
        return Symbols(accessed, modified, deleted, True, touched, alone=self._is_alone(elsewhere))

    def _all_ran(self, plan: Plan) -> bool:
        """Whether the very code objects that were watched ran (old IPython runs renamed copies)."""
        return bool(plan.compiled) and all(id(code) in self._watch.ran for code in plan.compiled)

    def _everything(self, plan: Plan, judge: Judge | None) -> Symbols:
        accessed = sorted(name for name in plan.before if not plan.own.has(name))
        modified, deleted = self._changes(plan, judge)
        return Symbols(accessed, modified, deleted, False, None, plan.problem)

    def _changes(self, plan: Plan, judge: Judge | None) -> tuple[list[str], list[str]]:
        before, after = plan.before, identities(self._shell.user_ns)
        self._last = after
        own = Own(self._shell, after)
        changed = before != after  # mostly nothing did, and this is the fastest way to see it
        modified = {name for name, value in after.items() if before.get(name) != value} if changed else set()
        bound = {name for name in judge.binds if name in after} if judge is not None else set()
        # IPython's `_` can come to hold the very value that the user bound it to.
        users = bound & {"_", "__", "___"}
        modified = {name for name in modified | bound if name in users or not own.has(name)}
        gone = before.keys() - after.keys() if changed else ()
        return sorted(modified), sorted(name for name in gone if not plan.own.has(name))

    def _is_alone(self, elsewhere: set[types.CodeType]) -> bool:
        """Whether only cells run code of the notebook's."""
        return not elsewhere and not self._others()

    def _others(self) -> list[threading.Thread]:
        """The threads that are not the kernel's own."""
        return [each for each in threading.enumerate() if each not in self._threads]

    def _elsewhere(self) -> set[types.CodeType]:
        """Code of the notebook that may run beside the cell: in threads, in tasks, called by libraries."""
        codes = set(self._lent)
        if not self._known:
            return codes
        namespace = self._shell.user_ns
        others = self._others()
        frames = sys._current_frames() if others else {}
        frames.pop(
            threading.get_ident(), None
        )  # our own, which would hold itself and all that the helper has at hand
        for thread in others:
            here = frames.get(thread.ident or 0)
            while here is not None:
                if here.f_globals is namespace:
                    codes.add(here.f_code)
                here = here.f_back
        holders: list[Any] = [vars(each) for each in others]
        with contextlib.suppress(RuntimeError):  # no loop runs
            holders += [task.get_coro() for task in asyncio.all_tasks()]
        for holder in holders:
            codes |= self._reach.value(holder).codes
        return codes


def _is_text(tree: ast.Module | ast.Interactive | ast.Expression) -> bool:
    first = tree.body if isinstance(tree, ast.Expression) else tree.body[0]
    return isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
