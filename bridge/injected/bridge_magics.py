"""The notebook's magics for its states: `%states`, `%undo`, `%checkout` and the others.

What they do is the bridge's to decide; here they are found, completed and documented, and the answer is shown.
"""

from __future__ import annotations

import re
from typing import Any

from .ask import ask

NAMES = ("states", "undo", "redo", "checkout", "branch", "label", "diff", "keep", "forget", "rerun")
_COMMAND = re.compile(rf"%({'|'.join(NAMES)})\b")


def only_commands(code: str) -> bool:
    """Whether a cell consists of these magics, and of requests for help, alone; comments aside."""
    lines = [line.strip() for line in code.splitlines()]
    lines = [line for line in lines if line and not line.startswith("#")]
    return bool(lines) and all(map(_is_command, lines))


def _is_command(line: str) -> bool:
    return line[0] == "?" or line[-1] == "?" or (line[0] == "%" and _COMMAND.match(line) is not None)


def install(helper: Any) -> None:
    """Register the magics in the helper's shell."""
    from IPython.core.error import UsageError
    from IPython.core.magic import Magics, line_magic, magics_class
    from IPython.display import display

    show: Any = display

    def command(name: str, line: str) -> None:
        try:
            answer = ask(helper.kernel, {"command": name, "arguments": line})
        except RuntimeError as error:
            raise UsageError(f"%{name}: {error}") from None
        if "error" in answer:
            raise UsageError(f"%{name}: {answer['error']}")
        helper.moving = helper.moving or bool(answer.get("moving"))
        if "html" in answer:
            show({"text/plain": answer["text"], "text/html": answer["html"]}, raw=True)
        else:
            print(answer["text"])

    @magics_class
    class BridgeMagics(Magics):
        """The states of this notebook, and the way between them."""

        @line_magic
        def states(self, line: str) -> None:
            """Show this notebook's states, the newest last: a table, and as text a tree.

            `%states` shows the last 50, `%states all` every one. Each has its name, the cell that made it, when,
            its size and which variables that cell changed. ← marks the state that the notebook stands in.
            """
            command("states", line)

        @line_magic
        def undo(self, line: str) -> None:
            """Go back to the state before the last cell, or `%undo 3`: before the last three.

            All variables are as they were then, when this cell ends; the cell itself leaves no state. The numbers
            in brackets count on, and `In` keeps every cell. `%redo` takes it back, `%checkout` reaches every state.
            """
            command("undo", line)

        @line_magic
        def redo(self, line: str) -> None:
            """Take the last `%undo` back, as long as no other cell has made a state since; `%redo 2` takes two."""
            command("redo", line)

        @line_magic
        def checkout(self, line: str) -> None:
            """Go to any state by its name or label: `%checkout s4`, when this cell ends.

            `%checkout last` goes to the state in which an earlier kernel left this notebook. No state is lost by it:
            the cells that follow make new ones, in a branch of the tree.
            """
            command("checkout", line)

        @line_magic
        def branch(self, line: str) -> None:
            """Begin a branch at this state: its name goes on to each new state. `%branch NAME` once more returns to it.

            Without a name: which branch the notebook is on.
            """
            command("branch", line)

        @line_magic
        def label(self, line: str) -> None:
            """Give this state one more name, by which `%checkout` finds it. A label that exists is moved here."""
            command("label", line)

        @line_magic
        def diff(self, line: str) -> None:
            """Which variables differ: `%diff A B` between two states, `%diff A` between that one and this."""
            command("diff", line)

        @line_magic
        def keep(self, line: str) -> None:
            """Keep this notebook's states for good; else they go when it was not used for long (14 days).

            A label or a branch does so too.
            """
            command("keep", line)

        @line_magic
        def forget(self, line: str) -> None:
            """Delete states or labels: `%forget s3 s4`. What other states share with them stays."""
            command("forget", line)

        @line_magic
        def rerun(self, line: str) -> None:
            """With `%rerun on` a cell that is run again starts from the state before it ran last; `off` ends that.

            So running `x += 1` twice gives the same x.
            """
            command("rerun", line)

    helper.shell.register_magics(BridgeMagics)
