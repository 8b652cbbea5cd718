"""Which names of the namespace are IPython's own, not the user's."""

from __future__ import annotations

from typing import Any

_ALWAYS = frozenset({"In", "Out", "_ih", "_oh", "_dh", "_i", "_ii", "_iii", "_sh", "_exit_code"})
_UNDERS = ("_", "__", "___")


class Own:
    """Tells IPython's names at one moment. Holds values: not to be kept while a cell runs."""

    def __init__(self, shell: Any) -> None:
        hook = getattr(shell, "displayhook", None)
        self._namespace: dict[str, Any] = shell.user_ns
        self._hidden: dict[str, Any] = getattr(shell, "user_ns_hidden", {})
        self._unders = {name: getattr(hook, name, None) for name in _UNDERS}

    def names(self) -> set[str]:
        """All names in the namespace that are not the user's, dunder names among them."""
        hidden = self._hidden
        return {
            name for name in list(self._namespace) if (name[:1] == "_" or name in hidden) and self.has(name)
        }

    def has(self, name: str) -> bool:
        """Whether a name of the namespace is IPython's or a dunder name; what the user binds is his."""
        value = self._namespace[name]
        if name in _ALWAYS or (name in self._hidden and self._hidden[name] is value):
            return True
        if not name.startswith("_"):
            return False
        if name in _UNDERS:
            return self._unders[name] is value
        if name.startswith("__") and name.endswith("__"):
            return True
        if name.startswith("_i") and name[2:].isdecimal():
            return isinstance(value, str)
        if name[1:].isdecimal():
            outputs = self._namespace.get("_oh")
            return isinstance(outputs, dict) and outputs.get(int(name[1:]), self) is value
        return False
