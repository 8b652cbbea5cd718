"""What magics, shell escapes and other calls of IPython's own read and bind.

IPython turns `%name line`, `!command` and the like into calls such as
`get_ipython().run_line_magic("name", "line")` with constant arguments; those calls are recognised here. A
magic that is not known may read anything.
"""

from __future__ import annotations

import ast
import shlex
from typing import Any, Protocol

from . import units, words

Node = tuple[Any, ...]

# Run their code through the shell's compiler, where it is seen when the hook is installed.
_COMPILED = words.word_set("time timeit capture")
# Read nothing but what `$x` and `{x}` expand to.
_HARMLESS = words.word_set(
    """alias alias_magic autoawait autocall automagic bookmark cat cd code_wrap colors conda config cp
    dhist dirs doctest_mode env gui hist history killbgscripts ldir lf lk ll load load_ext loadpy logoff
    logon logstart logstate logstop ls lsmagic lx magic mamba matplotlib micromamba mkdir mv notebook
    pip popd pprint precision pushd pwd pylab quickref rehashx reload_ext rep rm rmdir sc set_env sx
    system tb unalias unload_ext uv xmode autoreload aimport pastebin save man more less clear config
    pdb recall connect_info qtconsole subshell HTML SVG html javascript js latex markdown svg file
    writefile ! sh bash perl pypy python python2 python3 ruby script cmd"""
)
# Look at the names written in their line.
_NAMING = words.word_set("pinfo pinfo2 pdoc psource pdef pfile pycat page psearch store xdel macro")
_SCRIPTS = words.word_set("sh bash perl pypy python python2 python3 ruby script cmd")
_CALLS = words.word_set("run_line_magic run_cell_magic system getoutput")


class Source(Protocol):
    """What turns a cell's text into Python (IPython's input transformation)."""

    def transform(self, text: str) -> str:
        """Plain Python; the text itself if that fails."""
        ...

    def knows(self, kind: str, name: str) -> bool:
        """Whether the magic of this name is IPython's own, not one that replaced it."""
        ...


def shell_call(builder: Any, node: ast.Call) -> Node | None:
    """The tree of a call `get_ipython().…(constants)`; None for any other call."""
    func = node.func
    if not (isinstance(func, ast.Attribute) and func.attr in _CALLS and isinstance(func.value, ast.Call)):
        return None
    if not (isinstance(func.value.func, ast.Name) and func.value.func.id == "get_ipython"):
        return None
    values = [each.value if isinstance(each, ast.Constant) else None for each in node.args]
    if node.keywords or not all(isinstance(each, str) for each in values):
        return ("any",)
    texts: list[str] = [str(each) for each in values]
    if func.attr in ("system", "getoutput"):
        return _reads(words.expanded(" ".join(texts)))
    if func.attr == "run_line_magic" and len(texts) == 2:
        return _magic(builder, "line", texts[0], texts[1], "")
    if func.attr == "run_cell_magic" and len(texts) == 3:
        return _magic(builder, "cell", texts[0], texts[1], texts[2])
    return ("any",)


def _reads(names: set[str]) -> Node:
    return ("seq", tuple(("see", name) for name in sorted(names)))


def _both(*nodes: Node) -> Node:
    return ("seq", nodes)


def _magic(builder: Any, kind: str, name: str, line: str, cell: str) -> Node:
    if not builder.source.knows(kind, name):
        return ("any",)
    expanded = _reads(words.expanded(line))
    if name in _COMPILED and not builder.hooked:
        return _both(expanded, _static(builder, kind, name, line, cell), _outputs(name, line))
    if name in _COMPILED:
        return _both(expanded, _outputs(name, line))
    if name == "prun":
        return _both(expanded, _code(builder, cell or _without_options(line)))
    if name == "run":
        return _run(line)
    if name == "sx" and kind == "cell":
        return _reads(words.expanded(f"{line}\n{cell}"))
    if name in _NAMING:
        return _reads(words.identifiers(line)) if "*" not in line else ("any",)
    if name in _HARMLESS:
        return _both(
            expanded,
            _reads(words.expanded(cell)) if name in ("!", "system") else ("seq", ()),
            _outputs(name, line),
        )
    return ("any",)


def _run(line: str) -> Node:
    """`%run` starts from an empty namespace, unless it is told or its file says otherwise."""
    pieces = line.split()
    shares = any(piece.startswith("-") and "i" in piece for piece in pieces)
    notebook = any(piece.endswith((".ipy", ".ipynb")) for piece in pieces)
    return ("any",) if shares or notebook else _reads(words.expanded(line))


def _outputs(name: str, line: str) -> Node:
    """Names that a magic binds to what it caught: `%%capture name`, `%%bash --out name`."""
    try:
        pieces = shlex.split(line)
    except ValueError:
        pieces = line.split()
    bound: list[str] = []
    if name == "capture":
        bound = [piece for piece in pieces if not piece.startswith("-")][:1]
    elif name in _SCRIPTS:
        for i, piece in enumerate(pieces):
            option, _, value = piece.partition("=")
            if option in ("--out", "--err", "--proc"):
                bound.append(value or (pieces[i + 1] if i + 1 < len(pieces) else ""))
    return ("seq", tuple(("maybe", each) for each in bound if each.isidentifier()))


def _without_options(line: str) -> str:
    """A line magic's statement without the options before it (too much is left rather than too little)."""
    pieces = line.split(" ")
    while pieces and (not pieces[0] or (pieces[0].startswith("-") and len(pieces[0]) > 1)):
        option = pieces.pop(0)
        if option in ("-n", "-r", "-p", "-t", "-s", "-l", "-T", "-D", "-c", "-o") and option not in (
            "-c",
            "-o",
        ):
            pieces = pieces[1:]
    return " ".join(pieces)


def _static(builder: Any, kind: str, name: str, line: str, cell: str) -> Node:
    """The code a magic will run, read without running; `%%timeit` has its set-up in the line."""
    if name == "capture":
        return _code(builder, cell)
    statement = _without_options(line)
    return _both(
        _code(builder, statement, nested=name == "timeit"), _code(builder, cell, nested=name == "timeit")
    )


def _code(builder: Any, text: str, *, nested: bool = False) -> Node:
    """A tree for code given as text. `nested`: it runs inside a function, so it binds nothing outside."""
    if not text.strip():
        return ("seq", ())
    source = builder.source.transform(text)
    try:
        tree = ast.parse(source)
        code = compile(tree, "<cell>", "exec", units.AWAIT, True)
    except (SyntaxError, ValueError):
        return _reads(words.identifiers(text))  # it will fail; what it names is listed, in doubt
    inner = type(builder)(None, builder.source, hooked=builder.hooked, annotations=builder.annotations)
    unit = units.Unit(inner.body(tree.body), units.inner_codes(code), None, foreign=nested)
    return ("code", unit)
