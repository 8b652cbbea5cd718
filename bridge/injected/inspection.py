"""States that the kernel does not hold, looked at in a namespace apart: nothing of the user's is touched.

Units are loaded into a dict of their own, which is also the globals of the functions among them: a `__repr__` that
calls another function of its notebook finds that state's.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from typing import Any

from . import canonical, failures
from .blobs import Folder
from .items import MISSING
from .loader import Source
from .snapshot import Snapshots, is_name

_REPR_LIMIT = 10_000  # characters
_REPR_SECONDS = 2.0  # for one value


class Scratch:
    """A namespace apart, with units loaded into it."""

    def __init__(self, folder: Folder, kernel_id: str) -> None:
        self.scope: dict[str, Any] = {"__name__": "__main__"}
        self.snapshots = Snapshots(self.scope, folder, f"{kernel_id}-scratch")
        self.failed: dict[str, str] = {}

    def load(self, sources: list[Source]) -> None:
        """Load units; the roots that could not be had are in `failed`."""
        values, failed = self.snapshots.load(sources)
        self.scope.update((root, value) for root, value in values.items() if is_name(root))
        self.failed.update((lost["name"], lost["reason"]) for lost in failed)


class Aliased:
    """The variables of an aliased state, loaded when they are first asked for."""

    def __init__(self, alias: str, scratch: Scratch, sources: list[Source]) -> None:
        self.alias = alias
        self._scratch = scratch
        self._by_name = {
            root: source for source in sources for root in source.record["roots"] if is_name(root)
        }
        self._by_node = {node: source for source in sources for node in source.record["nodes"]}

    def names(self) -> list[str]:
        """The state's variables."""
        return sorted(self._by_name)

    def value(self, name: str) -> Any:
        """One variable; AttributeError when there is none or it could not be had."""
        source = self._by_name.get(name)
        if source is None:
            raise AttributeError(f"state {self.alias!r} has no variable {name!r}")
        if name not in self._scratch.scope:
            self._scratch.load(self._closure(source))
        if name not in self._scratch.scope:
            reason = self._scratch.failed.get(name, "it is not there")
            raise AttributeError(f"{name!r} of state {self.alias!r} could not be brought back: {reason}")
        return self._scratch.scope[name]

    def _closure(self, source: Source) -> list[Source]:
        """A unit with those that it refers to and those whose names its functions look up, unless loaded already."""
        loaded = self._scratch.snapshots.ledger.units
        found: dict[str, Source] = {}
        waiting = [source]
        while waiting:
            one = waiting.pop()
            if one.key in found or one.key in loaded:
                continue
            found[one.key] = one
            record = one.record
            waiting.extend(self._by_node[key] for key in record["refs"] if key in self._by_node)
            waiting.extend(self._by_name[name] for name in record.get("globals", ()) if name in self._by_name)
        return list(found.values())


class StateView:
    """A state as an object: its variables are attributes."""

    __slots__ = ("__bridge__", "__dict__")

    def __init__(self, aliased: Aliased) -> None:
        self.__bridge__ = aliased

    def __getattr__(self, name: str) -> Any:
        value = self.__bridge__.value(name)
        object.__setattr__(self, name, value)
        return value

    def __dir__(self) -> list[str]:
        return self.__bridge__.names()

    def __repr__(self) -> str:
        return f"<state {self.__bridge__.alias!r}: {', '.join(dir(self))}>"


def are_plain(request: dict[str, Any], namespace: dict[str, Any]) -> bool:
    """Whether the content of the values asked for can be told where they are, as if they had just been loaded.

    Nothing of the user's runs for that, and no two names of a group share but a part.
    """
    groups = [[name] for name in request.get("hashes", ())] + request.get("groups", [])
    values = [[namespace.get(name, MISSING) for name in names] for names in groups]
    return bool(values) and all(
        canonical.is_plain(first) and all(each is first for each in others) for first, *others in values
    )


def answer(
    request: dict[str, Any], scope: dict[str, Any], failed: dict[str, str], shell: Any
) -> dict[str, Any]:
    """What was asked of the values in `scope`.

    `hashes`: names; `groups`: lists of names, each to be divided into alias groups with fingerprints; `reprs`: names;
    `bundle`: one name. What could not be loaded is named in `failed`.
    """
    values = {name: value for name, value in scope.items() if name != "__name__"}
    reply: dict[str, Any] = {"failed": failed}
    if request.get("hashes"):
        reply["hashes"] = {name: _hash(values, name) for name in request["hashes"] if name in values}
    if request.get("groups"):
        reply["groups"] = [group for names in request["groups"] for group in _groups(values, names)]
    if request.get("reprs"):
        reply["reprs"] = {name: short_repr(values[name]) for name in request["reprs"] if name in values}
    if request.get("bundle") in values:
        reply["bundle"] = _bundle(values[request["bundle"]], shell)
    return reply


def _hash(values: dict[str, Any], name: str) -> str | None:
    try:
        return canonical.content_hash(values[name])
    except canonical.Undefined:
        return None


def _groups(values: dict[str, Any], names: list[str]) -> list[dict[str, Any]]:
    """The alias groups among these names, each with its fingerprint (None where that cannot be told)."""
    present = {name: values[name] for name in names if name in values}
    found = []
    for group in canonical.alias_groups(present):
        try:
            mark: str | None = canonical.fingerprint({name: present[name] for name in group})
        except canonical.Undefined:
            mark = None
        found.append({"names": group, "fingerprint": mark})
    return found


def short_repr(value: Any) -> str:
    """A value's repr, cut at a limit, made within a time; a failing one is named."""
    text: str = _in_time(lambda: repr(value), value)
    return text if len(text) <= _REPR_LIMIT else text[:_REPR_LIMIT] + "..."


def _bundle(value: Any, shell: Any) -> dict[str, Any]:
    """A value's display bundle, made within a time."""
    made = _in_time(lambda: shell.display_formatter.format(value), value)
    if isinstance(made, str):
        return {"data": {"text/plain": made}, "metadata": {}}
    return {"data": _jsonable(made[0]), "metadata": made[1]}


def _in_time(make: Callable[[], Any], value: Any) -> Any:
    """What `make` gives, or a text that says how the value's display failed or that it takes too long.

    Bounded by a signal: a display that catches everything is ended by the server, with its kernel.
    """
    timer = threading.current_thread() is threading.main_thread() and hasattr(signal, "setitimer")
    outer = signal.getsignal(signal.SIGALRM) if timer else None
    try:
        if timer:
            signal.signal(signal.SIGALRM, _too_long)
            signal.setitimer(signal.ITIMER_REAL, _REPR_SECONDS)
        return make()
    except _TooLong:
        return f"<{type(value).__name__}: its display takes longer than {_REPR_SECONDS:g} s>"
    except Exception as error:  # whatever the user's methods raise
        return f"<{type(value).__name__}: its display failed with {failures.explain(error)}>"
    finally:
        if timer:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, outer)


class _TooLong(BaseException):
    """A display took too long. No Exception: IPython's formatters would catch it and go on."""


def _too_long(*_: Any) -> None:
    raise _TooLong


def _jsonable(data: dict[str, Any]) -> dict[str, Any]:
    """A display bundle whose bytes are base64 text, as in a message."""
    import base64

    return {
        mime: base64.b64encode(value).decode() if isinstance(value, bytes) else value
        for mime, value in data.items()
    }
