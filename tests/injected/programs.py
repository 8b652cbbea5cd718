"""Random small notebooks for the differential test of the symbol lists, and the truth about each cell.

`Maker(seed).notebook()` gives the texts of a few cells. `truth` runs them in a dict subclass that sees every read,
bind and removal by name (slow in the way the product must not be). Functions call `tick`, which ends runaway
recursion (some releases of Python do not): both sides must have a fresh `ticker()` among the builtins.
"""

from __future__ import annotations

import builtins
import contextlib
import dis
import io
import random
import warnings
from collections.abc import Callable
from typing import Any

NAMES = [f"v{i}" for i in range(6)]
FUNCS = [f"f{i}" for i in range(4)]
CLASSES = ["C0", "C1"]
BOXES = ["b0", "b1"]  # hold functions, instances, generators


def ticker(limit: int = 300) -> Callable[[], None]:
    """A function that raises once it has been called `limit` times."""
    left = limit

    def tick() -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise RuntimeError("too many calls")

    return tick


class Maker:
    """Draws programs; the same seed gives the same one."""

    def __init__(self, seed: int) -> None:
        self.r = random.Random(seed)
        self._fresh = 0

    def notebook(self) -> list[str]:
        """A first cell that binds every name, then two to four others."""
        r = self.r
        first = [f"{name} = {r.choice([0, 1, 2, 5, '[1, 2]', '[]'])}" for name in NAMES]
        lines = [
            *first,
            "import functools, contextlib",
            "b0 = b1 = f0 = f1 = f2 = f3 = print",
            "C0 = C1 = object",
        ]
        for name in FUNCS:
            lines += self.define(name)
        for name in CLASSES:
            lines += self.klass(name)
        lines += [f"b0 = {self.holder()}", f"b1 = {self.holder()}"]
        return ["\n".join(lines), *[self.valid() for _ in range(r.randint(2, 4))]]

    def valid(self) -> str:
        """A cell that compiles, and whose stores `Trace` can see (a walrus in a comprehension hides them)."""
        while True:
            cell = self.cell()
            with contextlib.suppress(SyntaxError), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                code = compile(python_of(cell), "<cell>", "exec")
                if all(each.opname != "STORE_GLOBAL" for each in dis.get_instructions(code)):
                    return cell

    def cell(self) -> str:
        body = self.block(self.r.randint(1, 6), 0)
        if self.r.random() < 0.06:
            body = ["%%time", *body]
        elif self.r.random() < 0.06:
            body = ["%%capture caught", *body]
        elif self.r.random() < 0.05:
            body.append(f"%time {self.expr(1)}")
        return "\n".join(body)

    def block(self, count: int, depth: int, *, loop: bool = False) -> list[str]:
        lines: list[str] = []
        for _ in range(count):
            lines += self.statement(depth, loop)
        return lines or ["pass"]

    def inner(self, depth: int, *, loop: bool = False) -> list[str]:
        return ["    " + line for line in self.block(self.r.randint(1, 2), depth + 1, loop=loop)]

    def statement(self, depth: int, loop: bool) -> list[str]:
        r = self.r
        simple = [self.assign, self.assign, self.augment, self.remove, self.show, self.show, self.unpack]
        deep = [self.if_, self.if_, self.for_, self.while_, self.try_, self.with_, self.match_]
        deep += [lambda d: self.define(r.choice(FUNCS)), lambda d: self.klass(r.choice(CLASSES))]
        if loop and r.random() < 0.15:
            return [r.choice(["break", "continue"])]
        if depth < 2 and r.random() < 0.4:
            return r.choice(deep)(depth)
        return r.choice(simple)()

    # -- statements

    def assign(self) -> list[str]:
        r = self.r
        if r.random() < 0.2:
            return [f"{r.choice(BOXES)} = {self.holder()}"]
        if r.random() < 0.1:
            return [f"{r.choice(FUNCS)} = lambda k=0: (tick(), {self.expr(1)})[1]"]
        return [f"{r.choice(NAMES)} = {self.expr(2)}"]

    def augment(self) -> list[str]:
        return [f"{self.r.choice(NAMES)} += {self.expr(1)}"]

    def remove(self) -> list[str]:
        return [f"del {self.r.choice(NAMES)}"] if self.r.random() < 0.5 else [self.expr(1)]

    def show(self) -> list[str]:
        return [f"str({self.expr(2)})"]

    def unpack(self) -> list[str]:
        r = self.r
        return [f"{r.choice(NAMES)}, *{r.choice(NAMES)} = ({self.expr(1)}, {self.expr(1)})"]

    def if_(self, depth: int) -> list[str]:
        lines = [f"if {self.expr(2)}:", *self.inner(depth)]
        if self.r.random() < 0.3:
            lines += [f"elif {self.expr(1)}:", *self.inner(depth)]
        if self.r.random() < 0.5:
            lines += ["else:", *self.inner(depth)]
        return lines

    def for_(self, depth: int) -> list[str]:
        items = self.r.choice(
            ["[]", "range(2)", "range(0)", "[1, 2]", "(x for x in [1])", f"[{self.expr(1)}]"]
        )
        lines = [f"for {self.r.choice(NAMES)} in {items}:", *self.inner(depth, loop=True)]
        return lines + (["else:", *self.inner(depth)] if self.r.random() < 0.3 else [])

    def while_(self, depth: int) -> list[str]:
        self._fresh += 1
        n = f"n{self._fresh}"
        turn = [f"    {n} -= 1", *self.inner(depth, loop=True)]
        if self.r.random() < 0.5:
            return [f"{n} = {self.r.randint(0, 2)}", f"while {n} > 0 and ({self.expr(1)}, 1):", *turn]
        return [f"{n} = 2", "while True:", f"    if {n} < 1: break", *turn]

    def try_(self, depth: int) -> list[str]:
        r = self.r
        lines = ["try:", *self.inner(depth)]
        if r.random() < 0.5:
            lines += [r.choice(["    1/0", "    raise KeyError(1)", f"    ({self.expr(1)}).nope"])]
        if r.random() < 0.8:
            lines += ["except KeyError:", *self.inner(depth)] if r.random() < 0.4 else []
            lines += [f"except (Exception, {r.choice(['OSError', 'E0'])}) as {r.choice([*NAMES, 'e'])}:"]
            lines += self.inner(depth)
            if r.random() < 0.3:
                lines += ["else:", *self.inner(depth)]
            if r.random() < 0.3:
                lines += ["finally:", *self.inner(depth)]
        else:
            lines += ["finally:", *self.inner(depth)]
        return lines

    def with_(self, depth: int) -> list[str]:
        kind = self.r.choice(["contextlib.suppress(Exception)", f"contextlib.nullcontext({self.expr(1)})"])
        return [f"with {kind} as {self.r.choice(NAMES)}:", *self.inner(depth)]

    def match_(self, depth: int) -> list[str]:
        r = self.r
        lines = [f"match {self.expr(1)}:"]
        for pattern in r.sample(
            ["0", "[x0, *_]", "int()", f"{r.choice(NAMES)} if {self.expr(1)}", "str()"], 2
        ):
            lines += [f"    case {pattern}:", *["    " + line for line in self.inner(depth)]]
        if r.random() < 0.5:
            lines += ["    case _:", *["    " + line for line in self.inner(depth)]]
        return lines

    def define(self, name: str) -> list[str]:
        r = self.r
        lines = []
        if r.random() < 0.2:
            lines.append(
                r.choice(
                    ["@functools.lru_cache", f"@(lambda g: g if {self.expr(0)} else g)", "@functools.cache"]
                )
            )
        lines += [f"def {name}(k={self.expr(0)}):", "    tick()"]
        if r.random() < 0.3:
            target = r.choice(NAMES)
            lines += [f"    global {target}", f"    {target} = {self.leaf()}"]
        if r.random() < 0.3:
            lines += ["    def inner():", f"        return {self.expr(1)}"]
            lines += ["    inner()"] if r.random() < 0.6 else []
        if r.random() < 0.3:
            lines += [f"    if {self.expr(0)}: return {self.expr(1)}"]
        if r.random() < 0.2:
            lines += [f"    return (lambda: {self.expr(1)})"]
        return [*lines, f"    return {self.expr(1)}"]

    def klass(self, name: str) -> list[str]:
        r = self.r
        base = r.choice(["", "", "(C0)" if name != "C0" else "(object)"])
        lines = [f"class {name}{base}:", f"    w = {self.expr(1)}", f"    z = (w, {self.expr(0)})"]
        lines += ["    def m(self):", "        tick()", f"        return {self.expr(1)}"]
        special = r.choice(["__len__", "__repr__", "__call__", "__add__", "__bool__"])
        value = {"__len__": "1", "__repr__": "'r'", "__bool__": "True"}.get(special, "0")
        other = ", o=0" if special == "__add__" else ""
        lines += [
            f"    def {special}(self{other}):",
            "        tick()",
            f"        ({self.expr(1)},)",
            f"        return {value}",
        ]
        return lines

    # -- expressions

    def leaf(self) -> str:
        r = self.r
        return r.choice([*NAMES, *NAMES, "0", "1", "[1]", r.choice(BOXES), r.choice(FUNCS)])

    def holder(self) -> str:
        r = self.r
        f = r.choice(FUNCS)
        return r.choice(
            [f"[{f}]", f"{{'g': {f}}}", f"functools.partial({f})", f"{r.choice(CLASSES)}()",
             f"lambda: (tick(), {self.expr(1)})[1]", f"[lambda: (tick(), {self.expr(1)})[1]]",
             f"(({self.expr(1)}) for _q in [1])", f"map({f}, [1])", f"{r.choice(CLASSES)}().m",
             f"{{1: [({f},)]}}", f"iter([{f}])", f"{f}", "[]"]
        )  # fmt: skip

    def expr(self, depth: int) -> str:
        r = self.r
        if depth == 0 or r.random() < 0.25:
            return self.leaf()
        a, b = self.expr(depth - 1), self.expr(depth - 1)
        box = r.choice(BOXES)
        return r.choice(
            [
                f"({a} or {b})", f"({a} and {b})", f"({a} if {b} else {self.leaf()})", f"[{a}, {b}]",
                f"[{a} for q in {r.choice(['[]', '[1]', 'range(2)'])} if {b}]", f"{{q: {a} for q in [1]}}",
                f"(lambda: {a})", f"(lambda: {a})()", f"f'{{{self.leaf()}}}'", f"({r.choice(NAMES)} := {a})",
                f"{r.choice(FUNCS)}()", f"{r.choice(FUNCS)}({a})",
                f"{r.choice(CLASSES)}()", f"{r.choice(CLASSES)}().m()",
                f"({box} and {box}[0]())", f"{box}()", f"list({box})", f"list(map({r.choice(FUNCS)}, [{a}]))",
                f"(1 < 2 < {a})", f"(2 < 1 < {a})", f"sorted([1, 2], key=lambda s: ({a}, 0)[1])", f"{box}.m()",
                f"bool({box})", f"next({box})", f"any({a} for q in [0, 1])", f"(not {a})", f"{box}['g']()",
                f"[q for q in [{a}]]", f"({box}, {a})",
            ]
        )  # fmt: skip


class Trace(dict[str, Any]):
    """A namespace that notes reads of values from before, and binds, while `on`."""

    def __init__(self) -> None:
        super().__init__()
        self.on = False
        self.reads: set[str] = set()
        self.binds: set[str] = set()
        self._old: dict[str, Any] = {}

    def start(self) -> None:
        self.on, self.reads, self.binds, self._old = True, set(), set(), dict(self)

    def __getitem__(self, name: str) -> Any:
        value = super().__getitem__(name)
        if self.on and name in self._old and self._old[name] is value:
            self.reads.add(name)
        return value

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, value)
        if self.on:
            self.binds.add(name)
            self._old.pop(name, None)

    def __delitem__(self, name: str) -> None:
        super().__delitem__(name)
        if self.on:
            self._old.pop(name, None)


def python_of(cell: str) -> str:
    """The cell without its magics, which change nothing that is compared."""
    lines = cell.split("\n")
    return "\n".join(lines[1:] if lines[0].startswith("%%") else lines).replace("%time ", "")


def truth(cells: list[str]) -> list[tuple[set[str], set[str], set[str]]]:
    """What each cell reads, binds and removes: (reads, modified, deleted)."""
    space = Trace()
    dict.__setitem__(space, "__name__", "__main__")
    results = []
    for cell in cells:
        before = dict(space)
        builtins.tick = ticker()  # type: ignore[attr-defined]
        space.start()
        captured = cell.startswith("%%capture")
        code = compile(python_of(cell), "<cell>", "exec")
        with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(Exception):
            exec(code, space)
        if captured:
            space["caught"] = None
        space.on = False
        modified = {name for name in space if before.get(name, space) is not space.get(name)} | space.binds
        hidden = {"__builtins__"}
        results.append(
            (space.reads - hidden, {n for n in modified if n in space} - hidden, before.keys() - space.keys())
        )
    return results
