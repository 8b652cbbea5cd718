"""Values that open the namespace to code that names nothing of it: the namespace itself, functions that run text or
look into frames, the shell, and loaders that resolve names in the main module.

Who holds one can read everything, whatever way it came to him: from a container, a partial, an attribute.
"""

from __future__ import annotations

import builtins
import operator
import sys
import types
from typing import Any

from . import words

# Functions and classes of libraries, by the name of their module and their own.
_OPENERS = frozenset(
    {
        ("inspect", "stack"), ("inspect", "trace"), ("inspect", "get_annotations"),
        ("importlib", "import_module"), ("importlib", "reload"), ("importlib._bootstrap", "_gcd_import"),
        ("timeit", "timeit"), ("timeit", "repeat"), ("timeit", "Timer"),
        ("IPython.core.getipython", "get_ipython"), ("IPython", "embed"),
        ("typing", "get_type_hints"), ("jsonpickle.unpickler", "decode"),
        ("unittest.mock", "patch"), ("unittest.mock", "_patch_dict"), ("unittest.mock", "_patch_multiple"),
        ("unittest.mock", "_patch_object"), ("logging.config", "dictConfig"), ("logging.config", "fileConfig"),
        ("logging.config", "BaseConfigurator"), ("logging.config", "DictConfigurator"),
        ("numpy.lib.utils", "who"),
        ("yaml.loader", "Loader"), ("yaml.cyaml", "CLoader"), ("yaml.cyaml", "CUnsafeLoader"),
        ("pydoc", "locate"), ("copyreg", "pickle"), ("pkgutil", "resolve_name"), ("shelve", "open"),
    }
)  # fmt: skip
_BUILTINS = words.UNSAFE_NAMES | {"compile"}
_RISKY = frozenset(
    {
        "sys",
        "gc",
        "inspect",
        "pickle",
        "_pickle",
        "timeit",
        "importlib",
        "IPython",
        "dill",
        "cloudpickle",
        "joblib",
        "typing",
        "traceback",
        "ctypes",
    }
)
_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType)


def opens(value: Any, namespace: dict[str, Any]) -> bool:
    """Whether the value itself opens the namespace (not what it refers to)."""
    kind = type(value)
    if kind in _FUNCTIONS:
        return _function_opens(value, namespace) or reads_texts(value)
    if kind is dict:
        return value is namespace or value is sys.modules or value is vars(builtins)
    if kind is types.ModuleType or issubclass(kind, types.ModuleType):
        return _module_opens(value, namespace)
    if issubclass(kind, type):
        return _class_opens(value)
    if kind is types.MethodType:
        if is_shell(value.__self__):
            return getattr(value.__func__, "__name__", "") not in words.SHELL_PARTS
        return opens(value.__func__, namespace)
    if kind is operator.attrgetter or kind is operator.methodcaller:
        return any(map(words.opens_as_text, value.__reduce__()[1]))
    return is_shell(value) or reads_texts(value)


def _module_opens(module: Any, namespace: dict[str, Any]) -> bool:
    held = types.ModuleType.__getattribute__(module, "__dict__")
    return held is namespace or held.get("__name__") in words.UNSAFE_MODULES


def _function_opens(function: Any, namespace: dict[str, Any]) -> bool:
    if type(function) is types.FunctionType:
        if function.__globals__ is namespace:
            return False  # its code tells
        # What it is called says nothing of a wrapper, which takes over the names of what it wraps.
        name, module = function.__code__.co_name, function.__globals__.get("__name__")
    else:
        name, module = function.__name__, function.__module__
    if not isinstance(module, str) or module == "__main__":
        return name in words.UNSAFE_ATTRIBUTES
    if module == "builtins":
        return name in _BUILTINS
    if module in words.UNSAFE_MODULES or name in words.UNSAFE_ATTRIBUTES:
        return True
    return (module, name) in _OPENERS or (name in words.LOADERS and _loads_pickles(module))


def _class_opens(cls: type) -> bool:
    module, name = _module_of(cls), _name_of(cls)
    if not isinstance(module, str) or module == "builtins" or module == "__main__":
        return False
    if module in words.UNSAFE_MODULES or (module, name) in _OPENERS:
        return True
    return name in words.LOADERS and _loads_pickles(module)


def _loads_pickles(module: str) -> bool:
    return module.partition(".")[0] not in words.DATA_MODULES


def loader_opens(value: Any, name: str) -> bool:
    """Whether this method of the value can unpickle: not a data format's, not one that a cell wrote."""
    if isinstance(value, types.ModuleType):
        module: Any = value.__name__
    else:
        kind = value if isinstance(value, type) else type(value)
        module = _module_of(kind)
        if module == "__main__":  # it may have the method of a library's class
            module = next((_module_of(each) for each in kind.__mro__ if name in vars(each)), module)
    return not isinstance(module, str) or (module != "__main__" and _loads_pickles(module))


def is_risky(module: types.ModuleType) -> bool:
    """Whether a module has an attribute that opens the namespace, so that no unknown one may be taken."""
    return module.__name__.partition(".")[0] in _RISKY


def opens_by_any_name(value: Any, namespace: dict[str, Any]) -> bool:
    """Whether an attribute whose name is not known can open the namespace."""
    if isinstance(value, types.ModuleType):
        return is_risky(value) or _module_opens(value, namespace)
    return isinstance(value, (*_FUNCTIONS, types.MethodType)) or value is object or is_shell(value)


def reads_texts(value: Any) -> bool:
    """Whether it is a function or method that takes names from its caller's frame out of a text."""
    function = value.__func__ if type(value) is types.MethodType else value
    if type(function) not in _FUNCTIONS and _module_of(type(function)) != "nanobind":
        return False
    name, module = getattr(function, "__name__", None), getattr(function, "__module__", None)
    if not isinstance(name, str) or not isinstance(module, str):
        return False
    package = module.partition(".")[0].lstrip("_")
    # DuckDB's begin with what they belong to: `module_sql`.
    return any(package in words.READERS.get(each, ()) for each in (name, name.rpartition("_")[2]))


def takes_any_attribute(value: Any) -> bool:
    """Whether it takes an attribute by a text that is given to it."""
    return value is getattr or value is operator.attrgetter or value is operator.methodcaller


def may_format(value: Any) -> bool:
    """Whether `format` of the value, or of what it holds, can be a string's."""
    if isinstance(value, types.ModuleType):
        return value.__name__ == "string"
    kind = value if isinstance(value, type) else type(value)
    return _module_of(kind) in ("builtins", "string", "__main__")


def is_shell(value: Any) -> bool:
    """Whether it is IPython's shell, or its kernel."""
    return is_shell_type(type(value))


def is_shell_type(kind: type) -> bool:
    """Whether these are IPython's shells, or its kernels."""
    shells = sys.modules.get("IPython.core.interactiveshell")
    kernels = sys.modules.get("ipykernel.kernelbase")
    return (shells is not None and issubclass(kind, shells.InteractiveShell)) or (
        kernels is not None and issubclass(kind, kernels.Kernel)
    )


# Read from `type` itself: a class can have attributes of these names, a metaclass its own way to look them up.
_module_of = type.__dict__["__module__"].__get__
_name_of = type.__dict__["__name__"].__get__
