"""IPython's own names: told from the user's, and kept out of the namespace where that is wanted.

The REST door wants it (`PlainNamespace`). A user's `globals()` then holds what a plain script's would, and no name in
it needs to be told from the user's own. `In`, `Out`, `_`, `_3`, `exit` and the like live in `builtins`, which name
lookup reaches last: a variable of the user's that is called `_` is the user's.
"""

from __future__ import annotations

import builtins
import contextlib
import types
from collections.abc import Callable, Iterator
from typing import Any

_MOVED = ("In", "Out", "_ih", "_oh", "_dh", "_", "__", "___", "_i", "_ii", "_iii")
_UNDERS = ("_", "__", "___")
_DROPPED = ("exit", "quit", "get_ipython", "open")  # builtins, or put there by IPython while a cell runs
# Magics that look some of these up in the namespace.
_LOOKED_UP = {
    **dict.fromkeys(("cd", "pushd", "popd", "dirs", "dhist", "bookmark"), ("_dh",)),
    **dict.fromkeys(("reset", "reset_selective", "xdel"), _MOVED),
}


def _is_same(one: Any, other: Any) -> bool:
    """Whether two are one object, or the same method of one: a reset makes `get_ipython` anew."""
    return one is other or (type(one) is types.MethodType and one == other)


class Names:
    """IPython's own names, where IPython keeps them: in the namespace, among the user's."""

    def __init__(self, shell: Any) -> None:
        self.shell = shell
        self.hook = shell.displayhook
        self.history = shell.history_manager
        self.outputs: dict[int, Any] = shell.user_ns.get("_oh", {})
        self.place: dict[str, Any] = shell.user_ns
        self._shell_own = {name: shell.user_ns[name] for name in _DROPPED if name in shell.user_ns}

    def install(self) -> None:
        """Nothing: they stay where they are."""

    def hide(self) -> None:
        """Nothing: they are seen."""

    def own(self) -> set[str]:
        """Those in the namespace that are IPython's at this moment: none that the user has bound anew."""
        scope, hook, nothing = self.shell.user_ns, self.hook, object()
        found = {name for name, value in self._present().items() if _is_same(scope.get(name, nothing), value)}
        found.update(name for name in _UNDERS if scope.get(name, nothing) is getattr(hook, name))
        found.update(
            name
            for name, value in scope.items()
            if type(name) is str and name[:1] == "_" and self._is_numbered(name, value)
        )
        return found

    def _present(self) -> dict[str, Any]:
        """The names as a reset binds them (`InteractiveShell.init_user_ns`). `_` and the like are not among them."""
        history = self.history
        found: dict[str, Any] = {}
        found.update(In=history.input_hist_parsed, _ih=history.input_hist_parsed, _dh=history.dir_hist)
        found.update(Out=self.outputs, _oh=self.outputs)
        found.update(self._shell_own, get_ipython=self.shell.get_ipython)
        return found

    def _is_numbered(self, name: str, value: Any) -> bool:
        """Whether a name is one of an input (`_i`, `_ii`, `_i3`) or of an output (`_3`)."""
        if name.startswith("_i"):
            return type(value) is str and (name in _MOVED or name[2:].isdecimal())
        number = name[1:]
        return number.isdecimal() and self.outputs.get(int(number), self) is value

    def restore(self, cells: list[str], outputs: dict[int, Any], keep: int, count: int) -> None:
        """Make inputs, outputs and the counter those of a state.

        `cells` are the inputs after the first `keep` ones, which stay; `outputs` is the whole of `Out`.
        """
        shell, history, own = self.shell, self.history, self.place
        names: dict[str, Any] = {}
        for number in range(keep + 1, len(history.input_hist_raw)):
            own.pop(f"_i{number}", None)
        del history.input_hist_raw[keep + 1 :], history.input_hist_parsed[keep + 1 :]
        for text in cells:
            history.input_hist_raw.append(text)
            history.input_hist_parsed.append(self.transformed(text))
            names[f"_i{len(history.input_hist_raw) - 1}"] = text
        # As between two cells: IPython moves each on by one when the next cell begins.
        last = ["", "", "", "", *history.input_hist_raw[1:]][-4:]
        history._i00, history._i, history._ii, history._iii = last[3], last[2], last[1], last[0]
        names.update(_i=last[2], _ii=last[1], _iii=last[0])
        for number in self.outputs.keys() - outputs.keys():
            own.pop(f"_{number}", None)
        self.outputs.clear()
        self.outputs.update(sorted(outputs.items()))
        names.update({f"_{number}": value for number, value in outputs.items()})
        recent: list[Any] = ["", "", "", *(value for _, value in sorted(outputs.items()))][-3:]
        self.hook.___, self.hook.__, self.hook._ = recent
        names.update(_=recent[2], __=recent[1], ___=recent[0])
        shell.push(names, interactive=False)  # as IPython binds them: it then knows them for its own
        shell.execution_count = count

    def transformed(self, text: str) -> str:
        """A cell's text as Python, or as it is where it is none."""
        try:
            return str(self.shell.transform_cell(text)).rstrip("\n")
        except SyntaxError:
            return text


class PlainNamespace(Names):
    """Keeps one shell's own names in builtins."""

    def __init__(self, shell: Any) -> None:
        super().__init__(shell)
        self.place = vars(builtins)

    def install(self) -> None:
        """Move the names, and have IPython write them there from now on."""
        shell = self.shell
        vars(builtins).update({name: shell.user_ns.pop(name) for name in _MOVED if name in shell.user_ns})
        self.hide()
        # While a cell runs IPython hides these from builtins, since its namespace has them.
        own = self._shell_own
        shell.builtin_trap.auto_builtins.update({name: own[name] for name in ("exit", "quit") if name in own})
        push: Callable[..., None] = shell.push

        def push_plainly(variables: Any, interactive: bool = True) -> None:
            if interactive or not isinstance(variables, dict):
                push(variables, interactive)
            else:
                vars(builtins).update(variables)

        shell.push = push_plainly
        self.hook.update_user_ns = self._remember
        # It would take a variable `_` that was just shown for IPython's own, and a `_` in builtins for a library's.
        self.hook.check_for_underscore = lambda: None
        line_magic = shell.run_line_magic

        def run_line_magic(magic_name: str, line: str, _stack_depth: int = 1) -> Any:
            # The magic looks up variables in the frame that many levels above its caller: one more with us between.
            with self._shown(_LOOKED_UP.get(magic_name, ())):
                return line_magic(magic_name, line, _stack_depth + 1)

        shell.run_line_magic = run_line_magic

    def hide(self) -> None:
        """Take IPython's own names out of the namespace: at the start, and after a reset made them anew."""
        scope, own = self.shell.user_ns, vars(builtins)
        for name, value in self._present().items():
            if name in scope and (scope[name] is value or scope[name] == value):
                del scope[name]
                if name in _MOVED:
                    own[name] = value

    def own(self) -> set[str]:
        """None: what is in the namespace is the user's."""
        return set()

    @contextlib.contextmanager
    def _shown(self, names: tuple[str, ...]) -> Iterator[None]:
        """Show some names in the namespace for the time of a magic that looks them up there."""
        if not names:
            yield
            return
        scope, own = self.shell.user_ns, vars(builtins)
        shown = {name: own[name] for name in names if name not in scope and name in own}
        scope.update(shown)
        try:
            yield
        finally:
            for name in shown.keys() & scope.keys():
                own[name] = scope.pop(name)
            self.hide()

    def _remember(self, result: Any) -> None:
        """Keep a cell's result as `Out[n]`, `_n` and `_`, as `DisplayHook.update_user_ns` does."""
        hook = self.hook
        if not hook.cache_size or result is self.outputs:
            return
        if len(self.outputs) >= hook.cache_size:
            hook.cull_cache()
        hook.___, hook.__, hook._ = hook.__, hook._, result
        number = hook.prompt_count
        self.outputs[number] = result
        vars(builtins).update({"_": hook._, "__": hook.__, "___": hook.___, f"_{number}": result})
