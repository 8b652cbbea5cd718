"""The words that matter: names and attributes through which code reads the namespace unseen, and who
reads strings.

Nothing here looks at values; `judge` and `reach` do.
"""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Iterable
from typing import Any


def word_set(text: str) -> frozenset[str]:
    """The words of a text as a set."""
    return frozenset(text.split())


# Builtins that can reach every name. `vars`, `dir` and `locals` count wherever they are named.
UNSAFE_NAMES = word_set(
    """eval exec compile globals locals vars dir breakpoint execfile __import__ runfile __builtins__
    __builtin__ builtins __loader__ __spec__"""
)
# In a function these see its own names only.
LOCAL_NAMES = word_set("locals vars dir")
# Attributes that lead to frames, to the namespace, or run code given as text.
UNSAFE_ATTRIBUTES = word_set(
    """_getframe _current_frames currentframe getouterframes getinnerframes getargvalues f_globals f_locals
    f_back f_builtins tb_frame gi_frame cr_frame ag_frame gi_yieldfrom cr_await user_ns user_global_ns
    user_module user_ns_hidden ns_table ev ex run_cell run_cell_async run_code run_line_magic
    run_cell_magic safe_execfile safe_run_module all_ns_refs get_objects get_referrers get_referents
    __globals__ __builtins__ builtins func_globals var_expand object_inspect object_inspect_mime
    find_user_code globals locals exec __import__ user_expressions getclosurevars run_path run_module
    _main_mod_cache set_trace post_mortem drop_by_id run_ast_nodes _run_cell __subclasses__ pythonapi
    py_object get_type_hints dump_session load_session load_module load_module_asdict dump_module
    breakpointhook unsafe_load unsafe_load_all UnsafeLoader __self__ __getattribute__ register_globals"""
)
# The same as texts, whole or between dots: `getattr(f, "__globals__")`, `attrgetter("f_back.f_globals")`;
# and arguments by which libraries are told to go to the namespace.
UNSAFE_TEXTS = (UNSAFE_ATTRIBUTES - word_set("ev ex exec globals locals")) | word_set(
    "__code__ capture_locals allow_pickle eval_str show_locals"
)
# Methods that follow the attributes named in a text: `"{0.x}".format(y)`.
FORMATTERS = word_set("format format_map vformat get_field")
# What takes an attribute by a text, or gives what does.
GETTERS = word_set("getattr attrgetter methodcaller getattr_static")
# What is read of the shell without a look at the namespace.
SHELL_PARTS = word_set(
    """__class__ __module__ config display_formatter display_pub events execution_count colors register_magics
    register_magic_function set_custom_exc set_next_input enable_gui showtraceback has_trait parent_header
    get_parent set_parent exit_now excepthook showsyntaxerror
    showindentationerror custom_exceptions"""
)

# Modules that run text in the main namespace or look into its frames.
UNSAFE_MODULES = word_set(
    """__main__ builtins __builtin__ cProfile profile pdb bdb code codeop runpy trace doctest ipdb pudb idlelib
    rlcompleter dill dill._dill dill.session dill.source dill.detect joblib.memory unittest.main unittest.loader
    ipytest ipytest._impl IPython.core.debugger IPython.terminal.embed"""
)

# Decorators known not to call what they decorate.
QUIET_DECORATORS = frozenset(
    {
        ("builtins", "property"), ("builtins", "staticmethod"), ("builtins", "classmethod"),
        ("functools", "wraps"), ("functools", "lru_cache"), ("functools", "cache"),
        ("functools", "cached_property"), ("functools", "total_ordering"), ("functools", "singledispatch"),
        ("dataclasses", "dataclass"), ("contextlib", "contextmanager"), ("contextlib", "asynccontextmanager"),
        ("abc", "abstractmethod"), ("typing", "overload"), ("typing", "final"), ("typing", "no_type_check"),
        ("typing", "runtime_checkable"), ("typing_extensions", "override"), ("typing", "override"),
    }
)  # fmt: skip

# Callables that take names from the caller's frame out of a string: name -> libraries it can belong to.
_PANDAS = ("pandas", "duckdb", "numexpr", "polars", "pandasql", "dask")
_FORMULA = ("patsy", "statsmodels", "formulaic", "linearmodels", "pyfixest", "bambi")
_SQL = ("duckdb", "polars", "pandasql", "chdb", "ibis")
READERS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(word_set("query eval"), _PANDAS),
    **dict.fromkeys(word_set("evaluate re_evaluate validate"), ("numexpr",)),
    **dict.fromkeys(
        word_set(
            "sql execute executemany execute_global from_query query_df sqldf query_relation table view"
        ),
        _SQL,
    ),
    **dict.fromkeys(
        word_set("""
        ols wls gls glsar glm rlm gee mixedlm logit probit poisson mnlogit negativebinomial quantreg phreg
        ordinal_gee nominal_gee from_formula dmatrix dmatrices incr_dbuilder incr_dbuilders model_matrix gam
        glmgam conditional_logit feols fepois feglm Model"""),
        _FORMULA,
    ),
    "bmat": ("numpy",),
}
_TEXT_KEYWORDS = word_set("expr formula query sql string")
# Those that take a text again that they were given once.
RECALLERS = word_set("re_evaluate")
# Those whose text may come second.
LATE_READERS = word_set("query query_df")
# Calls that look up classes and functions in the main module by name.
PICKLERS = word_set("to_pickle dump dumps Pickler")
# … and any name of it, if the pickle says so.
LOADERS = word_set("load loads read_pickle Unpickler _Unpickler load_all")
DATA_MODULES = word_set(
    "json yaml _yaml toml tomllib tomli csv orjson ujson simplejson marshal msgpack ruamel numpy librosa h5py"
)

# Calls that keep a function to call it later, on their own account.
KEEPERS = re.compile(
    r"register|subscribe|connect|observe|hook|signal|callback|listener|option|formatter|for_type|(?:^|_)on_\w+|interact"
    r"|^pickle$|addHandler|addFilter|basicConfig"
    r"|call_later|call_soon|call_at|setattr|patch|settrace|setprofile|excepthook|finalize|atexit|schedule"
)

_WORD = re.compile(r"[^\W\d]\w*")
_ATTRIBUTE = re.compile(r"\.(\w+)")


def identifiers(text: str) -> set[str]:
    """Every word of a text that can be a name."""
    return {word for word in _WORD.findall(text) if not keyword.iskeyword(word)}


def expanded(line: str) -> set[str]:
    """Names that IPython's `$name` and `{expression}` expansion can read in a line."""
    names: set[str] = set()
    if "$" in line:
        for match in re.finditer(r"\$+([\w.]+)", line):
            names |= identifiers(match[1])
    if "{" in line:
        names |= identifiers(line[line.index("{") :])
    return names


def names_main(value: Any) -> bool:
    """A string constant that names the main module, in whatever sentence."""
    return isinstance(value, str) and "__main__" in value


def reads_texts(package: str) -> bool:
    """Whether a library takes names from its caller's frame out of strings."""
    return any(package in libraries for libraries in READERS.values())


def opens_as_text(value: Any) -> bool:
    """A constant that names the main module, or something through which it is seen."""
    if isinstance(value, tuple):
        return any(map(opens_as_text, value))
    if isinstance(value, bytes):
        return b"__main__" in value
    if not isinstance(value, str):
        return False
    if "__main__" in value:
        return True
    if "{" in value:  # a format string follows attributes
        return not UNSAFE_TEXTS.isdisjoint(_ATTRIBUTE.findall(value))
    return len(value) < 100 and any(part in UNSAFE_TEXTS for part in value.split("."))


def text_of(node: ast.AST) -> str | None:
    """The text that an expression of string constants gives, in one piece or added up; else None."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = text_of(node.left), text_of(node.right)
        return None if left is None or right is None else left + right
    return None


def is_main_guard(node: ast.Compare) -> bool:
    """`__name__ == "__main__"`, which looks at nothing."""
    sides = [node.left, *node.comparators]
    named = [isinstance(side, ast.Name) and side.id == "__name__" for side in sides]
    fixed = [isinstance(side, ast.Constant) for side in sides]
    return len(sides) == 2 and any(named) and any(fixed)


def dotted(node: ast.expr) -> str | None:
    """`a.b.c` of names and attributes, else None."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        inner = dotted(node.value)
        return None if inner is None else f"{inner}.{node.attr}"
    return None


def callee(node: ast.Call) -> str | None:
    """The last name of what is called."""
    func = node.func
    return func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else None


def first_name(node: ast.expr) -> str | None:
    """The name that a chain of attributes, items and calls begins with; None if it begins with none."""
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else None


def root_of(target: ast.expr) -> str | None:
    """The first name of a target `a.b.c` or `a.b[0]`; None for other targets and plain names."""
    if not isinstance(target, (ast.Attribute, ast.Subscript)):
        return None
    node: ast.expr = target
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def library_reads(node: ast.Call) -> Iterable[tuple[Any, ...]]:
    """Tree nodes for what a library may read by itself in a call: names in strings, pickled classes."""
    func, name = node.func, callee(node)
    if name is None:
        return
    if name in READERS:
        yield _strings(name, node)
    if name in PICKLERS:
        yield ("classes", dotted(func.value) if isinstance(func, ast.Attribute) else name)


def _strings(name: str, node: ast.Call) -> tuple[Any, ...]:
    """("strings", callee, constant texts, variables of text, variables put into text, is that all)."""
    constants = [each.value for each in ast.walk(node) if isinstance(each, ast.Constant)]
    texts = [each for each in constants if isinstance(each, str)]
    variables: list[str] = []
    parts: list[str] = []
    whole = name not in RECALLERS and all(each.arg is not None for each in node.keywords)
    places = 2 if name in LATE_READERS else 1
    spoken = [*node.args[:places], *[each.value for each in node.keywords if each.arg in _TEXT_KEYWORDS]]
    for each in spoken:
        if isinstance(each, ast.Name):
            variables.append(each.id)
        elif isinstance(each, ast.JoinedStr):
            values = [part.value for part in each.values if isinstance(part, ast.FormattedValue)]
            parts += [value.id for value in values if isinstance(value, ast.Name)]
            whole = whole and all(isinstance(value, (ast.Name, ast.Constant)) for value in values)
        elif not isinstance(each, ast.Constant):
            whole = False
    return ("strings", name, tuple(texts), tuple(variables), tuple(parts), whole)
