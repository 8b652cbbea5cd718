"""A session's namespace into its state file and back, in the kernel that holds it."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable
from typing import Any

from . import failures, state_file
from .captured import Captured, looked_up
from .state_file import Content, Lost

WORKING_DIRECTORY = "working directory"

Reply = dict[str, Any]


class Session:
    """What the helper does for a kernel that holds a session.

    `names` gives the user's names in order; `know_cell` makes a source's text known to tracebacks and gives the file
    name of its code.
    """

    def __init__(self, shell: Any, names: Callable[[], list[str]], know_cell: Callable[[str], str]) -> None:
        self._shell = shell
        self._names = names
        self._know_cell = know_cell
        self._captured = Captured(shell.user_ns)

    def after_cell(self, code: str, error: BaseException | None, file_name: str) -> None:
        """Note what a cell of the session defined; `code` is its Python text."""
        self._captured.after_cell(code, error, file_name)

    def adopt(self, request: Reply, buffers: list[Any]) -> Reply:
        """Take the namespace of a state as the session's: these cells, as Python text, have made it."""
        # As one cell: what each name was bound to in between is not known any more.
        self._captured.after_cell("\n".join(filter(_is_python, request["cells"])), None, "")
        return {}

    def save(self, request: Reply, buffers: list[Any]) -> Reply:
        """The state file's bytes, as the answer's one buffer, and what is to be said of them."""
        scope = self._shell.user_ns
        saved = state_file.save(
            {name: scope[name] for name in self._names()},
            self._captured.sources(),
            cwd=_cwd(),
            count=self._shell.execution_count,
            used=looked_up,
        )
        return {
            "saved": saved.names,
            "skipped": saved.skipped,
            "defs": saved.definitions,
            "largest": saved.largest,
            "engine": state_file.engine_name(),
            "buffers": [saved.data],
        }

    def restore(self, request: Reply, buffers: list[Any]) -> Reply:
        """Load a state file, the request's one buffer, into the namespace. Without one only `cwd` is taken.

        Values first, then definitions, then the values that need these; `sources` are the definitions' texts.
        """
        answer: Reply = {"restored": [], "failed": [], "defs": [], "error": None, "sources": []}
        answer["engine"] = state_file.engine_name()
        if not buffers:
            _chdir(request["cwd"], answer["failed"])
            return answer
        try:
            content = state_file.read(bytes(buffers[0]))
        except state_file.NotAStateFile as error:
            return {**answer, "error": f"the state file is damaged or not one: {error}"}
        failed = answer["failed"]
        _chdir(content.cwd, failed)
        self._shell.execution_count = content.count
        waiting = dict(content.names)
        for name in content.names:
            if not content.needs_definition(name):
                self._load(name, content, waiting, failed)
        for name, source in content.definitions.items():
            for needed in sorted(self._looked_up(source) & waiting.keys()):
                self._load(needed, content, waiting, failed)
            self._replay(name, source, failed)
        for name in content.names:
            self._load(name, content, waiting, failed)
        copied = "a definition needs it and it needs that definition: it came back with one of its own"
        scope = self._shell.user_ns
        copies = [name for name in content.copies if name in scope]
        failed += [{"name": name, "reason": copied} for name in copies]
        defined = self._captured.sources()
        answer["sources"] = list(content.definitions.values())
        answer["defs"] = [name for name in content.definitions if name in defined]
        lost = {item["name"] for item in failed} - set(copies)
        names = [*content.names, *answer["defs"]]
        answer["restored"] = [name for name in names if name in scope and name not in lost]
        return answer

    def _load(self, name: str, content: Content, waiting: dict[str, bytes], failed: list[Lost]) -> None:
        """Load a value that still waits, after the classes among the values that it needs."""
        data = waiting.pop(name, None)
        if data is None:
            return
        for needed in content.needs.get(name, ()):
            self._load(needed, content, waiting, failed)
        try:
            self._shell.user_ns[name] = state_file.load(data)
        except BaseException as error:  # whatever the value's own methods raise while it is loaded
            failed.append({"name": name, "reason": failures.explain(error)})

    def _replay(self, name: str, source: str, failed: list[Lost]) -> None:
        """Run one definition in the namespace, and note it as the session's again."""
        scope = self._shell.user_ns
        try:
            tree = ast.parse(source)
            # The shell's compiler knows the `from __future__` imports of the cells so far.
            exec(self._shell.compile(tree, self._know_cell(source), "exec"), scope)
            self._captured.register(name, source)
        except BaseException as error:  # it runs the user's code
            failed.append({"name": name, "reason": failures.explain(error)})

    @staticmethod
    def _looked_up(source: str) -> set[str]:
        try:
            return looked_up(source)
        except (SyntaxError, ValueError, RecursionError):
            return set()  # its replay will say what is wrong with it


def _is_python(code: str) -> bool:
    try:
        ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _cwd() -> str | None:
    try:
        return os.getcwd()
    except OSError:
        return None  # it was removed


def _chdir(path: str | None, failed: list[Lost]) -> None:
    if path is None:
        return
    try:
        os.chdir(path)
    except OSError as error:
        failed.append({"name": WORKING_DIRECTORY, "reason": f"{path}: {error.strerror}"})
