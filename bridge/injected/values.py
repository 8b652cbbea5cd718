"""The part of the tree builder that reads expressions: names in their scopes, branches inside expressions, calls.

See `flow` for the nodes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Any

from . import magics, words
from .marks import Edits

Node = tuple[Any, ...]
NOTHING: Node = ("seq", ())
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def seq(*nodes: Node | None) -> Node:
    """The nodes one after another, without the empty ones."""
    kept = [node for node in nodes if node is not None and node != NOTHING]
    return kept[0] if len(kept) == 1 else ("seq", tuple(kept))


class ClassScope:
    """The scope of a class body: names surely bound in it so far, and those declared global."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.definite: set[str] = set()
        self.declared: set[str] = set()


class ValueBuilder:
    """Builds the trees of expressions and notes in `edits` where markers are to be set.

    `hooked`: code run by magics through the shell's compiler is seen there, so it is left out here.
    """

    def __init__(
        self, edits: Edits | None, source: magics.Source, *, hooked: bool, annotations: bool
    ) -> None:
        self.edits = edits
        self.source = source
        self.hooked = hooked
        self.annotations = annotations  # evaluated where they stand
        # Targets of the comprehensions around, each with the names that what it turns over is made from.
        self._hidden: list[dict[str, list[str]]] = []
        self._class: ClassScope | None = None
        self._live = edits is not None  # False inside loops, classes: no markers there

    def statement(self, node: ast.stmt) -> Node:
        """The tree of one statement."""
        raise NotImplementedError

    # -- names

    def _is_hidden(self, name: str) -> bool:
        return any(name in names for names in self._hidden)

    def _load(self, name: str) -> Node | None:
        if self._is_hidden(name):
            return None
        if self._class is not None and not self._hidden:
            if name in self._class.definite:
                return None
            if name.startswith("__") and not name.endswith("__"):
                mangled = f"_{self._class.name.lstrip('_')}{name}"
                return seq(("read", name), ("read", mangled))
        if name in words.UNSAFE_NAMES:
            return seq(("read", name), ("unsafe", name))
        return ("read", name)

    def _store(self, name: str) -> Node | None:
        if self._class is not None and name not in self._class.declared:
            self._class.definite.add(name)
            return None
        return ("bind", name)

    def _remove(self, name: str) -> Node | None:
        if self._class is not None and name not in self._class.declared:
            self._class.definite.discard(name)
            return None
        return ("del", name)

    # -- markers

    def _mark(self, body: list[ast.stmt], *, end: bool = False) -> int | None:
        return self.edits.statement(body, end=end) if self._live and self.edits is not None else None

    def _mark_value(self, parent: ast.AST, field: str, index: int | None = None) -> int | None:
        live = self._live and self.edits is not None
        return self.edits.value(parent, field, index) if live and self.edits is not None else None

    def _mark_turns(self, parent: ast.AST) -> int | None:
        return self.edits.iterable(parent) if self._live and self.edits is not None else None

    def target(self, node: ast.expr) -> Node | None:
        """Binds (or, in a `del`, removes) what the target names; other targets are evaluated."""
        if isinstance(node, ast.Name):
            return self._remove(node.id) if isinstance(node.ctx, ast.Del) else self._store(node.id)
        if isinstance(node, (ast.Tuple, ast.List)):
            return seq(*[self.target(item) for item in node.elts])
        if isinstance(node, ast.Starred):
            return self.target(node.value)
        return self.value(node)

    def _signature(self, args: ast.arguments, park: list[str] | None) -> Node:
        defaults = [*args.defaults, *[each for each in args.kw_defaults if each is not None]]
        return seq(*[self.value(each, park=park) for each in defaults])

    def _children(self, node: ast.AST) -> Node:
        """All parts in the order of the grammar: right for what evaluates everything from left to right."""
        parts: list[Node | None] = []
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                parts.append(self.value(child))
            elif isinstance(child, ast.stmt):
                parts.append(self.statement(child))
            else:
                parts.append(self._children(child))
        return seq(*parts)

    # -- values

    def value(self, node: ast.expr, park: list[str] | None = None) -> Node:
        """The tree of an expression. `park`: names the value (a function, or a display) is bound to."""
        if isinstance(node, ast.Name):
            loaded = (self._load(node.id) if isinstance(node.ctx, ast.Load) else self.target(node)) or NOTHING
            return ("alias", tuple(park), node.id) if park and loaded == ("read", node.id) else loaded
        if isinstance(node, ast.Constant):
            return ("any",) if words.opens_as_text(node.value) else NOTHING
        if words.text_of(node) is not None:
            return ("any",) if words.opens_as_text(words.text_of(node)) else NOTHING
        if isinstance(node, ast.Lambda):
            made = self._signature(node.args, park)
            key = ("<lambda>", node.lineno)
            owned = park and self._class is None
            return seq(made, ("park", tuple(park or ()), key) if owned else ("run", key))
        if park and isinstance(node, (ast.List, ast.Tuple)):
            return seq(*[self.value(item, park) for item in node.elts])
        if park and isinstance(node, ast.Dict):
            keys = [self.value(key) for key in node.keys if key is not None]
            return seq(*keys, *[self.value(item, park) for item in node.values])
        if isinstance(node, _COMPREHENSIONS):
            return self._comprehension(node)
        method = getattr(self, "_value_" + type(node).__name__.lower(), None)
        if method is not None:
            found: Node = method(node)
            return found
        return self._children(node)

    def _value_attribute(self, node: ast.Attribute, *, called: bool = False) -> Node:
        if _is_shell(node.value):
            return NOTHING if node.attr in words.SHELL_PARTS else ("any",)
        inner = self.value(node.value)
        if node.attr in words.READERS and isinstance(node.ctx, ast.Load) and not called:
            inner = seq(inner, ("reader", words.first_name(node.value), node.attr))
        stored = isinstance(node.ctx, ast.Store) and node.attr == "__code__"
        # A descriptor that came out of a class's dict gives what an attribute of its name would.
        unbound = node.attr == "__get__" and words.dotted(node.value) is None
        if stored or unbound or node.attr == "modules" or node.attr in words.UNSAFE_ATTRIBUTES:
            return seq(inner, ("any",))
        return seq(inner, self._attribute(node, node.attr))

    def _callee(self, node: ast.expr) -> Node:
        """What is called: a name or an attribute that goes nowhere else."""
        if isinstance(node, ast.Name):
            loaded = self._load(node.id) or NOTHING
            return ("call", node.id) if loaded == ("read", node.id) else loaded
        if isinstance(node, ast.Attribute):
            return self._value_attribute(node, called=True)
        return self.value(node)

    def _attribute(self, node: ast.Attribute, attr: str) -> Node | None:
        """What is to be told of an attribute once its value can be looked up."""
        path = words.dotted(node)
        if path is not None and not self._is_hidden(path.partition(".")[0]):
            return ("attr", path)
        if isinstance(node.value, ast.Call) and attr in words.LOADERS:
            maker = words.dotted(node.value.func)
            if maker is not None and not self._is_hidden(maker.partition(".")[0]):
                return ("attr", f"{maker}.{attr}")  # of an instance, if it is a class
        return ("attr", f"?.{attr}") if attr in words.LOADERS else None

    def _any_attribute(self, node: ast.expr) -> Node:
        """What is to be told of a value of which an attribute is taken that nobody can name."""
        path = words.dotted(node)
        if path is not None and not self._is_hidden(path.partition(".")[0]):
            return ("attr", f"{path}.__getattr__")
        if isinstance(node, ast.Name):
            return seq(*[("attr", f"{name}.[]") for name in self._made_from(node)])
        return seq(*[("attr", f"{name}.*") for name in self._made_from(node)])

    def _made_from(self, *nodes: ast.expr) -> list[str]:
        """The names that expressions are made from."""
        names = [each.id for node in nodes for each in ast.walk(node) if isinstance(each, ast.Name)]
        known: dict[str, list[str]] = {}
        for scope in self._hidden:
            known |= scope
        return [each for name in names for each in known.get(name, [name])]

    def _value_subscript(self, node: ast.Subscript) -> Node:
        if _is_modules(node.value) and _is_text(node.slice):
            return seq(self.value(node.value.value), self.value(node.slice))  # type: ignore[attr-defined]
        return self._children(node)

    def _value_namedexpr(self, node: ast.NamedExpr) -> Node:
        value = self.value(node.value)  # used at once as well: nothing is parked
        hidden, self._hidden = self._hidden, []  # binds in the scope around the comprehensions
        bound = self._store(node.target.id)
        self._hidden = hidden
        return seq(value, bound)

    def _part(
        self, parent: ast.AST, field: str, index: int | None, node: ast.expr
    ) -> tuple[int | None, Node]:
        inner = self.value(node)
        return self._mark_value(parent, field, index), inner

    def _value_boolop(self, node: ast.BoolOp) -> Node:
        later = [("opt", *self._part(node, "values", i, each)) for i, each in enumerate(node.values) if i]
        return seq(self.value(node.values[0]), _chain(later))

    def _value_compare(self, node: ast.Compare) -> Node:
        if words.is_main_guard(node):
            return NOTHING
        if len(node.ops) == 1 and isinstance(node.ops[0], (ast.In, ast.NotIn)):
            modules = node.comparators[0]
            if _is_modules(modules):
                return seq(self.value(node.left), self.value(modules.value))  # type: ignore[attr-defined]
        if all(_is_shell(each) or isinstance(each, ast.Constant) for each in (node.left, *node.comparators)):
            return NOTHING  # `get_ipython() is None`
        first = seq(self.value(node.left), self.value(node.comparators[0]))
        later = [
            ("opt", *self._part(node, "comparators", i, each)) for i, each in enumerate(node.comparators) if i
        ]
        return seq(first, _chain(later))

    def _value_ifexp(self, node: ast.IfExp) -> Node:
        test = self.value(node.test)
        arms = (self._part(node, "body", None, node.body), self._part(node, "orelse", None, node.orelse))
        return seq(test, ("if", arms, True))

    def _comprehension(self, node: Any) -> Node:
        generators: list[ast.comprehension] = node.generators
        first = self.value(generators[0].iter)
        turns = None if generators[0].is_async else self._mark_turns(generators[0])
        live, self._live = self._live, False
        hidden: dict[str, list[str]] = {}
        self._hidden.append(hidden)
        parts: list[Node | None] = []
        for i, generator in enumerate(generators):
            if i:
                parts.append(self.value(generator.iter))
            parts.append(self._hide(generator, hidden))
            parts.extend(self.value(test) for test in generator.ifs)
        kept = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        parts.extend(self.value(each) for each in kept)
        self._hidden.pop()
        self._live = live
        return seq(first, ("comp", turns, seq(*parts)))

    def _hide(self, generator: ast.comprehension, hidden: dict[str, list[str]]) -> Node:
        """Targets of a comprehension live in it alone; other parts of a target are evaluated."""
        target = generator.target
        names = [each.id for each in ast.walk(target) if isinstance(each, ast.Name)]
        stored = {
            each.id
            for each in ast.walk(target)
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
        }
        reads = [self._load(name) for name in names if name not in stored]
        hidden |= dict.fromkeys(stored, self._made_from(generator.iter))
        return seq(*reads)

    def _value_call(self, node: ast.Call) -> Node:
        known = magics.shell_call(self, node)
        if known is not None:
            return known
        name = words.callee(node)
        if isinstance(node.func, ast.Name) and name == "type" and node.args and _is_shell(node.args[0]):
            return NOTHING
        if _is_shell(node):
            return ("any",)
        if node.args and isinstance(node.func, ast.Name) and name in words.LOCAL_NAMES:
            path = words.dotted(node.args[0])
            return seq(self._rest_of_call(node), ("attr", f"{path}.__dict__") if path else None)
        made = seq(self._called_on(node), *self._risks(node, name), *words.library_reads(node))
        if name is not None and words.KEEPERS.search(name):
            # A `setattr` is no more than an assignment to the attribute.
            root = words.first_name(node.args[0]) if name == "setattr" and node.args else None
            return seq(made, ("lend", root, self._rest_of_call(node)))
        return made

    def _called_on(self, node: ast.Call) -> Node:
        """The parts of a call, where `x.modules()` and `sys.modules.get("text")` are nothing special."""
        func = node.func
        if isinstance(func, ast.Attribute) and func.attr == "modules":
            return seq(self.value(func.value), self._rest_of_call(node))
        if isinstance(func, ast.Attribute) and node.args and _is_text(node.args[0]):
            if func.attr in ("get", "pop") and _is_modules(func.value):
                return seq(self.value(func.value.value), self._rest_of_call(node))  # type: ignore[attr-defined]
            if func.attr == "import_module":  # its text tells
                return seq(self.value(func.value), self._rest_of_call(node))
        return seq(self._callee(func), self._rest_of_call(node))

    def _risks(self, node: ast.Call, name: str | None) -> Iterable[Node | None]:
        """Calls that take an attribute, or a module, by a text."""
        if name == "getattr" and len(node.args) > 1:
            attr = words.text_of(node.args[1])
            if attr is not None:
                yield ("any",) if attr == "modules" else None
                yield ("reader", words.first_name(node.args[0]), attr) if attr in words.READERS else None
                yield self._attribute(ast.Attribute(node.args[0], attr, ast.Load()), attr)
            else:
                yield self._any_attribute(node.args[0])
        elif name in words.FORMATTERS and isinstance(node.func, ast.Attribute):
            template = node.func.value
            if words.text_of(template) is None:  # else the text itself tells
                given = [*node.args, *[each.value for each in node.keywords]]
                whole = isinstance(template, ast.Name) and not self._is_hidden(template.id)
                yield ("format", words.first_name(template), whole, tuple(self._made_from(*given)))
        elif name in ("attrgetter", "methodcaller"):
            texts = [text for each in node.args if (text := words.text_of(each)) is not None]
            parts = {part for text in texts for part in text.split(".")}
            risky = parts & (words.LOADERS | words.UNSAFE_NAMES | words.UNSAFE_ATTRIBUTES | {"modules"})
            yield ("any",) if risky or (len(texts) < len(node.args) and name == "attrgetter") else None
            yield from (("reader", None, part) for part in parts if part in words.READERS)
        elif name == "import_module":
            fixed = node.args and _is_text(node.args[0])
            yield None if fixed else ("any",)
        for keyword in node.keywords:
            plain = isinstance(keyword.value, ast.Constant) and not keyword.value.value
            yield ("any",) if keyword.arg in words.UNSAFE_TEXTS and not plain else None

    def _rest_of_call(self, node: ast.Call) -> Node:
        values = [*node.args, *[each.value for each in node.keywords]]
        return seq(*[self.value(each) for each in values])


def _is_shell(node: ast.expr) -> bool:
    """`get_ipython()`, however it is come by."""
    return isinstance(node, ast.Call) and words.callee(node) == "get_ipython"


def _is_modules(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "modules"


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _chain(parts: list[Node]) -> Node | None:
    """Each part is met only if the one before it was: nested, so that nothing is sure after a skipped one."""
    node: Node | None = None
    for _, mark, inner in reversed(parts):
        node = ("opt", mark, inner if node is None else seq(inner, node))
    return node
