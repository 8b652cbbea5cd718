"""What a piece of top-level code reads, binds and removes: a small tree built from its AST, judged after
it ran.

The tree says in which order names are met and under which conditions; `judge` walks it once it is known
which branches ran. Nodes are tuples, the first item names the kind:

    read name · call name (reads it and hands it on to nobody) · bind name · says name text (binds a constant)
    maybe name (may bind) · del name
    seq nodes · jump "exit"/"break"/"continue"
    step mark node names        a statement, marked when it is over; these names it binds last of all
    opt mark node               an expression part that may be skipped (`b` in `a and b`)
    if arms exhaustive          arms are (mark, node)
    loop turns target body orelse endless · comp turns node
    with mark body · try mark body handlers orelse final · match cases
    park names key              a function made and only bound to these names: it runs when one is read
    alias names name            the name's value bound to these names, and nothing else done to it
    lend root node              a library's object is given the node's values, and may call them later
    run key                     a function made here that somebody may call at once
    deco dotted name key        a decorated function: parked if no decorator is known to call it, else run
    class name key bases decorators
    star module · any · unsafe name · classes dotted · code unit
    attr dotted                 an attribute by its path; `?.name` when what it is taken from is not known,
                                `name.*` for any attributes of what is made from it, `name.[]` for
                                any one attribute of its items
    format template whole names attributes that a text names, of what is made from the names
    import name module          a module, or `module:attribute`, bound to a name
    strings callee texts variables parts whole
    reader name attribute       a method of `words.READERS` that is not called at once, of what is made from the name

A key is (code name, first line) of a function's code object. Function bodies are not walked here: their
code objects tell what they read (see `reach`); `park` and `run` only say whether they can have run. A
mark is the number of a marker (see `marks`), or None where none was set: then the part may or may not
have run.
"""

from __future__ import annotations

import ast
from typing import Any

from . import words
from .marks import Edits
from .values import NOTHING, ClassScope, Node, ValueBuilder, seq


class Builder(ValueBuilder):
    """Builds the trees of statements."""

    # -- statements

    def body(self, statements: list[ast.stmt], *, branch: bool = False) -> Node:
        """Statements in order. `branch`: they may be skipped, so what they bind in a class is not sure."""
        known = set(self._class.definite) if branch and self._class is not None else None
        node = seq(*[self._step(statements, each) for each in statements])
        if known is not None and self._class is not None:
            self._class.definite = known
        return node

    def expression(self, tree: ast.Expression) -> Node:
        """The tree of a text that is one expression."""
        return self.value(tree.body)

    def top(self, statements: list[ast.stmt]) -> Node:
        """The tree of a whole text."""
        if len(statements) == 1 and self.edits is not None:
            return ("step", Edits.done, self.statement(statements[0]), _targets(statements[0]))
        return self.body(statements)

    def _step(self, statements: list[ast.stmt], statement: ast.stmt) -> Node:
        """One statement of a block, with a marker after it where it is known that it runs once."""
        node = self.statement(statement)
        if not self._live or self.edits is None or node == NOTHING or isinstance(statement, ast.Raise):
            return node
        return ("step", self.edits.after(statements, statement), node, _targets(statement))

    def _loop_body(self, statements: list[ast.stmt]) -> Node:
        live, self._live = self._live, False
        node = self.body(statements, branch=True)
        self._live = live
        return node

    def statement(self, node: ast.stmt) -> Node:
        """The tree of one statement."""
        method = getattr(self, "_" + type(node).__name__.lower(), None)
        if method is not None:
            made: Node = method(node)
            return made
        return self._children(node)

    def _assign(self, node: ast.Assign) -> Node:
        names = [target.id for target in node.targets if isinstance(target, ast.Name)]
        plain = len(names) == len(node.targets) and self._class is None
        value = self.value(node.value, park=names if plain else None)
        lent = [("lend", root, value) for root in map(words.root_of, node.targets) if root is not None]
        if plain and isinstance(node.value, ast.Constant):
            text = node.value.value if isinstance(node.value.value, str) else ""
            return seq(value, *[("says", name, text) for name in names])
        return seq(value, *lent, *[self.target(target) for target in node.targets])

    def _annassign(self, node: ast.AnnAssign) -> Node:
        value = None
        if node.value is not None:
            own = isinstance(node.target, ast.Name) and self._class is None
            names = [node.target.id] if isinstance(node.target, ast.Name) and own else None
            value = self.value(node.value, park=names)
        note = self.value(node.annotation) if self.annotations else None
        bare_name = isinstance(node.target, ast.Name) and node.value is None
        return seq(value, None if bare_name else self.target(node.target), note)

    def _augassign(self, node: ast.AugAssign) -> Node:
        if isinstance(node.target, ast.Name):
            first = self._load(node.target.id)
            return seq(first, self.value(node.value), self._store(node.target.id))
        return seq(self.target(node.target), self.value(node.value))

    def _delete(self, node: ast.Delete) -> Node:
        return seq(*[self.target(target) for target in node.targets])

    def _if(self, node: ast.If) -> Node:
        test = (
            None
            if isinstance(node.test, ast.Compare) and words.is_main_guard(node.test)
            else self.value(node.test)
        )
        arms = [(self._mark(node.body), self.body(node.body, branch=True))]
        if node.orelse:
            arms.append((self._mark(node.orelse), self.body(node.orelse, branch=True)))
        return seq(test, ("if", tuple(arms), bool(node.orelse)))

    def _for(self, node: ast.For | ast.AsyncFor) -> Node:
        iterable = self.value(node.iter)
        turns = self._mark_turns(node) if isinstance(node, ast.For) else None
        known = set(self._class.definite) if self._class is not None else None
        target = self.target(node.target)
        body = self._loop_body(node.body)
        if known is not None and self._class is not None:
            self._class.definite = known
        orelse = self.body(node.orelse, branch=True)
        return seq(iterable, ("loop", turns, target or NOTHING, body, orelse, False))

    _asyncfor = _for

    def _while(self, node: ast.While) -> Node:
        live, self._live = self._live, False  # the test runs on every turn
        test = self.value(node.test)
        self._live = live
        body = self._loop_body(node.body)
        orelse = self.body(node.orelse, branch=True)
        endless = isinstance(node.test, ast.Constant) and bool(node.test.value)
        return seq(test, ("loop", None, NOTHING, body, orelse, endless))

    def _with(self, node: ast.With | ast.AsyncWith) -> Node:
        items: list[Node | None] = []
        for item in node.items:
            items.append(self.value(item.context_expr))
            if item.optional_vars is not None:
                items.append(self.target(item.optional_vars))
        body = self.body(node.body, branch=True)
        return seq(*items, ("with", self._mark(node.body, end=True), body))

    _asyncwith = _with

    def _try(self, node: Any) -> Node:
        body = self.body(node.body, branch=True)
        mark = self._mark(node.body, end=True)
        handlers = []
        for handler in node.handlers:
            kinds = self.value(handler.type) if handler.type is not None else NOTHING
            inner = self.body(handler.body, branch=True)
            if handler.name:  # bound at the start, removed at the end
                inner = seq(self._store(handler.name), inner, self._remove(handler.name))
            handlers.append((self._mark(handler.body), kinds, inner))
        orelse = self.body(node.orelse, branch=True)
        final = self.body(node.finalbody)
        return ("try", mark, body, tuple(handlers), orelse, final)

    _trystar = _try

    def _raise(self, node: ast.Raise) -> Node:
        return seq(self._children(node), ("jump", "exit"))

    def _return(self, node: ast.Return) -> Node:
        return seq(self._children(node), ("jump", "exit"))

    def _break(self, node: ast.Break) -> Node:
        return ("jump", "break")

    def _continue(self, node: ast.Continue) -> Node:
        return ("jump", "continue")

    def _assert(self, node: ast.Assert) -> Node:
        test = self.value(node.test)
        if node.msg is None:
            return test
        return seq(test, ("opt", *self._part(node, "msg", None, node.msg)))

    def _global(self, node: ast.Global) -> Node:
        if self._class is not None:
            self._class.declared.update(node.names)
        return NOTHING

    def _nonlocal(self, node: ast.Nonlocal) -> Node:
        return NOTHING

    def _import(self, node: ast.Import) -> Node:
        parts: list[Node | None] = []
        for alias in node.names:
            if alias.name == "__main__":
                parts.append(("any",))
            bound = alias.asname or alias.name.partition(".")[0]
            parts.append(("import", bound, alias.name if alias.asname else bound))
            parts.append(self._store(bound))
        return seq(*parts)

    def _importfrom(self, node: ast.ImportFrom) -> Node:
        parts: list[Node | None] = []
        if node.module == "__main__" or any(alias.name in words.UNSAFE_ATTRIBUTES for alias in node.names):
            parts.append(("any",))
        if node.module == "__future__" and any(alias.name == "annotations" for alias in node.names):
            self.annotations = False
        for alias in node.names:
            if alias.name == "*":
                parts.append(("star", node.module or ""))
            else:
                parts.append(("import", alias.asname or alias.name, f"{node.module}:{alias.name}"))
                parts.append(self._store(alias.asname or alias.name))
        return seq(*parts)

    # -- definitions

    def _functiondef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Node:
        decorators = [self.value(each) for each in node.decorator_list]
        key = (node.name, node.decorator_list[0].lineno if node.decorator_list else node.lineno)
        made = self._signature(node.args, park=[node.name])
        notes = self._annotations_of(node) if self.annotations else NOTHING
        if node.decorator_list:  # which may look up the names in texts
            notes = seq(notes, _spelled(_annotations(node)))
        owner = node.name if self._class is None else self._class.name
        if node.decorator_list:
            function: Node = ("deco", _dotted_all(node.decorator_list), owner, key)
        else:
            function = ("park", (owner,), key) if self._class is None else NOTHING
        return seq(*decorators, made, notes, function, self._store(node.name))

    _asyncfunctiondef = _functiondef

    def _annotations_of(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Node:
        bounds = [self._children(each) for each in getattr(node, "type_params", ())]
        return seq(*bounds, *[self.value(each) for each in _annotations(node)])

    def _classdef(self, node: ast.ClassDef) -> Node:
        decorators = [self.value(each) for each in node.decorator_list]
        own = [node.name] if self._class is None else None
        bases = [self.value(each, park=own if isinstance(each, ast.Name) else None) for each in node.bases]
        keywords = [self.value(each.value) for each in node.keywords]
        bounds = [self._children(each) for each in getattr(node, "type_params", ())]
        outer, live = self._class, self._live
        hidden, self._hidden = self._hidden, []
        self._class, self._live = ClassScope(node.name), False
        body = self.body(node.body)
        self._class, self._live, self._hidden = outer, live, hidden
        key = (node.name, node.decorator_list[0].lineno if node.decorator_list else node.lineno)
        known = _dotted_all(node.bases) if not node.keywords else None
        made = ("class", node.name, key, known, _dotted_all(node.decorator_list))
        return seq(*decorators, *bounds, *bases, *keywords, body, made, self._store(node.name))

    # -- patterns

    def _match(self, node: ast.Match) -> Node:
        subject = self.value(node.subject)
        cases = []
        for case in node.cases:
            captures: list[str] = []
            reads = self._pattern(case.pattern, captures)
            bound = seq(*[self._store(name) for name in captures])
            guard = self.value(case.guard) if case.guard is not None else None
            body = self.body(case.body, branch=True)
            cases.append((self._mark(case.body), reads, bound, guard, body))
        return seq(subject, ("match", tuple(cases)))

    def _pattern(self, node: ast.AST, captures: list[str]) -> Node:
        parts: list[Node | None] = []
        name = getattr(node, "name", None) if isinstance(node, (ast.MatchAs, ast.MatchStar)) else None
        rest = getattr(node, "rest", None) if isinstance(node, ast.MatchMapping) else None
        captures.extend(each for each in (name, rest) if each)
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                parts.append(self.value(child))
            else:
                parts.append(self._pattern(child, captures))
        return seq(*parts)


def _targets(node: ast.stmt) -> tuple[str, ...]:
    """Names that a statement binds at its very end, if that is all it binds."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return (node.name,)
    if isinstance(node, ast.Assign):
        targets: list[ast.expr] = node.targets
    elif isinstance(node, (ast.AnnAssign, ast.AugAssign)):
        targets = [node.target]
    else:
        return ()
    names = tuple(each.id for each in targets if isinstance(each, ast.Name))
    walrus = any(isinstance(each, ast.NamedExpr) for each in ast.walk(node))
    return names if len(names) == len(targets) and not walrus else ()


def _annotations(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.expr]:
    args = node.args
    every = [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg]
    notes = [arg.annotation for arg in every if arg is not None]
    return [each for each in (*notes, node.returns) if each is not None]


def _spelled(notes: list[ast.expr]) -> Node:
    """Names in annotations that are texts."""
    texts = [text for note in notes for each in ast.walk(note) if (text := words.text_of(each)) is not None]
    return seq(*[("see", name) for name in sorted(set().union(*map(words.identifiers, texts)))])


def _dotted_all(nodes: list[ast.expr]) -> tuple[str | None, ...]:
    return tuple(words.dotted(node.func if isinstance(node, ast.Call) else node) for node in nodes)
