"""What a function's code can do to the namespace, told by its instructions."""

from __future__ import annotations

import dis
import marshal
import sys
import types
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from . import words

_LOADS = words.word_set(
    "LOAD_GLOBAL LOAD_NAME LOAD_CLASSDEREF LOAD_FROM_DICT_OR_GLOBALS LOAD_FROM_DICT_OR_DEREF"
)
_STORES = words.word_set("STORE_GLOBAL")
_CALLS = words.word_set("LOAD_METHOD LOAD_ATTR LOAD_GLOBAL LOAD_NAME IMPORT_NAME")
_ATTRIBUTES = words.word_set("LOAD_METHOD LOAD_ATTR")
_FILLERS = words.word_set("PUSH_NULL PRECALL CACHE NOP RESUME")
_JOINING = ("LOAD_CONST", "LOAD_FAST", "LOAD_GLOBAL", "LOAD_DEREF", "FORMAT_", "CONVERT_", "BUILD_STRING")
_INLINE = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"})
_KEPT = 4096

# The way to a value: a name of the namespace (or `@module`, `@module:name` for what the function imports itself, or
# `?` for what is not known), and attributes.
Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Code:
    """What a function's code, with the code nested in it, can do to the namespace."""

    reads: frozenset[str]
    binds: frozenset[str]
    uncertain: bool  # names something that can reach every name
    texts: frozenset[
        str
    ]  # words of strings handed to callables in `words.READERS`, or expanded by a shell escape
    readers: frozenset[str]  # … whose texts are not known, by callee
    pickles: bool
    dynamic: bool  # takes an attribute that nobody can name, of what it was given or made
    passed: frozenset[str]  # names whose values go elsewhere than being called
    makes: bool  # a function
    paths: frozenset[Path]  # attributes it takes of what it names


Answer = TypeVar("Answer")


def remembered(ask: Callable[[types.CodeType], Answer]) -> Callable[[types.CodeType], Answer]:
    """The function with its answers kept, by the identity of the code object.

    No code object is kept alive by it, since which live tells what can be called.
    """
    kept: dict[int, tuple[weakref.ref[types.CodeType], Answer]] = {}

    def asked(code: types.CodeType) -> Answer:
        known = kept.get(id(code))
        if known is not None and known[0]() is code:
            return known[1]
        if len(kept) > _KEPT:
            kept.clear()
        answer = ask(code)
        kept[id(code)] = (weakref.ref(code), answer)
        return answer

    return asked


_by_text: dict[bytes, Code] = {}  # a cell that runs again has new code objects of the same content


@remembered
def code_of(code: types.CodeType) -> Code:
    """The summary of a code object."""
    try:
        text = marshal.dumps(code)
    except ValueError:  # it holds a constant of somebody's own making
        return _Scan(code).summary()
    found = _by_text.get(text)
    if found is None:
        if len(_by_text) > _KEPT:
            _by_text.clear()
        found = _by_text[text] = _Scan(code).summary()
    return found


def _is_function(constant: Any) -> bool:
    return isinstance(constant, types.CodeType) and constant.co_name not in _INLINE


class _Scan:
    """Reads the instructions of one code object."""

    def __init__(self, code: types.CodeType) -> None:
        self._code = code
        self._instructions = [each for each in dis.get_instructions(code) if each.opname not in _FILLERS]
        self._names = set(code.co_names)
        self._imported: dict[str, str] = {}  # local names of modules
        self._paths: set[Path] = set()

    def summary(self) -> Code:
        """What the code does, with all that is nested in it."""
        reads: set[str] = set()
        binds: set[str] = set()
        texts: set[str] = set()
        readers: set[str] = set()
        names = self._names
        uncertain = bool(names & words.UNSAFE_ATTRIBUTES)
        pickles = bool(names & words.PICKLERS)
        dynamic = False
        passed: set[str] = set()
        for i, ins in enumerate(self._instructions):
            if ins.opname in _LOADS:
                reads.add(ins.argval)
                if "NULL" not in str(ins.argrepr):  # Python 3.10 does not tell
                    passed.add(ins.argval)
            elif ins.opname in _STORES:
                binds.add(ins.argval)
            uncertain = uncertain or self._opens(i, ins)
            dynamic = dynamic or self._is_dynamic(i, ins)
            if ins.opname in _CALLS and ins.argval in words.READERS:
                found = self._texts_after(i)
                if found is None:
                    readers.add(ins.argval)
                texts |= found or set()
        if reads & (words.UNSAFE_NAMES - words.LOCAL_NAMES):
            uncertain = True
        nested: list[Code] = []
        for constant in self._code.co_consts:
            if isinstance(constant, types.CodeType):
                nested.append(code_of(constant))
                continue
            guard = words.names_main(constant) and "__name__" in names  # `if __name__ == "__main__"`
            uncertain = uncertain or (not guard and words.opens_as_text(constant))
            if isinstance(constant, str):
                if names & {"system", "getoutput"}:
                    texts |= words.expanded(constant)
                elif constant in words.READERS and names & words.GETTERS:
                    readers.add(constant)
                elif self._code.co_name in ("__reduce__", "__reduce_ex__"):
                    texts |= words.identifiers(constant)  # a pickler looks for a name of that text
        return Code(
            frozenset(reads.union(*[each.reads for each in nested])),
            frozenset(binds.union(*[each.binds for each in nested])),
            uncertain or any(each.uncertain for each in nested),
            frozenset(texts.union(*[each.texts for each in nested])),
            frozenset(readers.union(*[each.readers for each in nested])),
            pickles or any(each.pickles for each in nested),
            dynamic or any(each.dynamic for each in nested),
            frozenset(passed.union(*[each.passed for each in nested])),
            any(each.makes for each in nested) or any(map(_is_function, self._code.co_consts)),
            frozenset(self._paths.union(*[each.paths for each in nested])),
        )

    def _after(self, i: int) -> Any:
        return self._instructions[i] if i < len(self._instructions) else None

    def _is_text(self, i: int) -> bool:
        ins = self._after(i)
        return ins is not None and ins.opname == "LOAD_CONST" and isinstance(ins.argval, str)

    def _texts_after(self, i: int) -> set[str] | None:
        """Words of the constant strings that are the first arguments of the call begun at i; None: not constant."""
        found: set[str] = set()
        name, following = self._instructions[i].argval, self._after(i + 1)
        if following is not None and following.opname.startswith("CALL") and following.arg == 0:
            return None if name in words.RECALLERS else found  # nothing to take names from: `model.eval()`
        first = i + 1
        while self._is_text(i + 1):
            i += 1
            found |= words.identifiers(self._instructions[i].argval)
        following = self._after(i + 1)
        ended = following is not None and (
            "CALL" in following.opname or "KW" in following.opname or isinstance(following.argval, tuple)
        )
        return found if i >= first and (ended or name not in words.LATE_READERS) else None

    def _is_dynamic(self, i: int, ins: Any) -> bool:
        """Whether an attribute by a computed name is taken; notes a path where it is known of what."""
        before = self._after(i - 1) if i else None
        if ins.argval in words.FORMATTERS and ins.opname in _ATTRIBUTES:
            return not (before is not None and before.opname == "LOAD_CONST")
        if ins.argval not in words.GETTERS or ins.opname not in _CALLS or ins.opname == "IMPORT_NAME":
            return False
        if ins.argval != "getattr":
            return ins.argval == "getattr_static" or not self._is_text(i + 1)
        if ins.opname != "LOAD_GLOBAL" or (sys.version_info >= (3, 11) and "NULL" not in str(ins.argrepr)):
            return True  # it goes elsewhere
        return self._takes_any(i + 1)

    def _takes_any(self, i: int) -> bool:
        """The same of `getattr(…`, whose arguments begin at i."""
        ins = self._after(i)
        if ins is None:
            return True
        both = isinstance(ins.argval, tuple)  # one instruction for two names
        root = ins.argval[0] if both else ins.argval
        attributes = [] if both else list(self._attributes(i + 1))
        if not both and self._is_plain_text(i + 1 + len(attributes)):
            return False
        if "LOAD_FAST" in ins.opname or ins.opname == "LOAD_DEREF":
            if root in ("self", "cls") and not attributes:
                return False
            root = self._imported.get(root)
        elif ins.opname not in _LOADS or "NULL" in str(ins.argrepr):
            return True
        if root is None:
            return True
        self._paths.add((root, *attributes, "__getattr__"))
        return False

    def _is_plain_text(self, i: int) -> bool:
        """Whether the argument that begins at i is a text, or begins with one, through which nothing is seen."""
        if not self._is_text(i):
            return False
        start = self._instructions[i].argval
        if not start or "%" in start or any(text.startswith(start) for text in words.UNSAFE_TEXTS):
            return False
        while (ins := self._after(i)) is not None and "CALL" not in ins.opname:
            if not (ins.opname.startswith(_JOINING) or (ins.opname == "BINARY_OP" and ins.argrepr == "+")):
                return False
            i += 1
        return True

    def _opens(self, i: int, ins: Any) -> bool:
        """Whether this instruction can open the namespace; notes the paths that begin at it."""
        name = ins.argval
        if ins.opname == "IMPORT_NAME":
            self._import(i, name)
            return name in words.UNSAFE_MODULES
        if ins.opname == "STORE_ATTR":
            return bool(name == "__code__")
        if ins.opname in _LOADS:
            self._note((name,), i)
        elif "LOAD_FAST" in ins.opname or ins.opname == "LOAD_DEREF":  # one instruction may do two things
            self._local(name[-1] if isinstance(name, tuple) else name, i)
        if ins.opname not in _CALLS:
            return False
        if name == "get_ipython":
            return not self._is_harmless_shell(i + 1)
        if name == "import_module":
            return not self._is_text(i + 1)
        if ins.opname in _ATTRIBUTES:
            before = self._instructions[i - 1].opname if i else ""
            if name in words.LOADERS and not (
                before in _ATTRIBUTES or before in _LOADS or "LOAD_FAST" in before
            ):
                self._paths.add(("?", name))
            if name == "modules" and not self._is_method(ins):
                return not self._is_harmless_modules(i + 1)
        return False

    def _local(self, name: str, i: int) -> None:
        root = self._imported.get(name)
        if root is not None:
            self._note((root,), i)
        elif name not in ("self", "cls"):
            self._note(("?",), i)

    def _note(self, start: Path, i: int) -> None:
        path = [*start, *self._attributes(i + 1)]
        if path[-1] == "import_module":  # looked at by its text
            path.pop()
        if len(path) > 1 and (path[0] != "?" or path[-1] in words.LOADERS):
            self._paths.add(tuple(path) if path[0] != "?" else ("?", path[-1]))

    def _attributes(self, i: int) -> Iterator[str]:
        while (ins := self._after(i)) is not None and ins.opname in _ATTRIBUTES:
            if ins.argval == "modules":
                return
            yield ins.argval
            i += 1

    def _import(self, i: int, module: str) -> None:
        following = self._after(i + 1)
        while following is not None and following.opname == "IMPORT_FROM":
            root = f"@{module}:{following.argval}"
            self._paths.add((root,))
            i += 2
            while (stored := self._after(i)) is not None and stored.opname in ("SWAP", "ROT_TWO", "POP_TOP"):
                i += 1
            self._keep(stored, root)
            following = self._after(i + 1)
        self._keep(following, f"@{module.partition('.')[0]}")

    def _keep(self, stored: Any, root: str) -> None:
        """Notes the local name that an import binds."""
        if stored is not None and stored.opname.startswith("STORE_"):
            name = stored.argval[0] if isinstance(stored.argval, tuple) else stored.argval
            self._imported.setdefault(str(name), root)

    @staticmethod
    def _is_method(ins: Any) -> bool:
        """Whether an attribute is taken to be called at once."""
        return ins.opname == "LOAD_METHOD" or "NULL|self" in str(ins.argrepr)

    def _is_harmless_modules(self, i: int) -> bool:
        """`"text" in sys.modules`, `sys.modules["text"]`, `sys.modules.get("text")`."""
        ins = self._after(i)
        if ins is None:
            return False
        if ins.opname == "CONTAINS_OP":
            return True
        if ins.opname in _ATTRIBUTES:
            return ins.argval in ("get", "pop") and self._is_text(i + 1)
        following = self._after(i + 1)
        subscripts = ("BINARY_SUBSCR", "DELETE_SUBSCR", "STORE_SUBSCR", "BINARY_OP")
        return self._is_text(i) and following is not None and following.opname in subscripts

    def _is_harmless_shell(self, i: int) -> bool:
        """`get_ipython()` with something that does not look at the namespace; the index is after its name."""
        call, ins = self._after(i), self._after(i + 1)
        if call is None or ins is None or not call.opname.startswith("CALL") or call.arg != 0:
            return False
        if ins.opname in _ATTRIBUTES:
            shell = ins.argval in ("system", "getoutput") and self._is_text(i + 2)
            return shell or ins.argval in words.SHELL_PARTS
        checked = self._after(i + 2)
        is_none = ins.opname == "LOAD_CONST" and ins.argval is None and checked is not None
        return "NONE" in ins.opname or (is_none and checked.opname == "IS_OP")
