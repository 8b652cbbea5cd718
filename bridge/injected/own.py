"""Which names of the namespace are IPython's own, not the user's."""

from __future__ import annotations

from typing import Any

_ALWAYS = frozenset({"In", "Out", "_ih", "_oh", "_dh", "_i", "_ii", "_iii", "_sh", "_exit_code"})
_UNDERS = ("_", "__", "___")


class Own:
    """Tells IPython's names at the moment it was made. Holds names and identities, no values."""

    def __init__(self, shell: Any, ids: dict[str, int]) -> None:
        """`ids`: identity of every value in the namespace at that moment."""
        hidden: dict[str, Any] = getattr(shell, "user_ns_hidden", {})
        hook = getattr(shell, "displayhook", None)
        self._ids = ids
        self._names = {name for name, value in list(hidden.items()) if ids.get(name) == id(value)}
        self._names |= {name for name in _UNDERS if ids.get(name) == id(getattr(hook, name, self))}
        outputs = shell.user_ns.get("_oh")
        self._outputs: Any = outputs if isinstance(outputs, dict) else {}

    def has(self, name: str) -> bool:
        """Whether a name of the namespace is IPython's or a dunder name; what the user binds is his."""
        if name in self._names or name in _ALWAYS:
            return True
        if not name.startswith("_") or name in _UNDERS:
            return False
        if name.startswith("__") and name.endswith("__"):
            return True
        if name.startswith("_i") and name[2:].isdecimal():
            return True
        number = name[1:]
        return number.isdecimal() and self._ids.get(name) == id(self._outputs.get(int(number), self))
