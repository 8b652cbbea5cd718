"""What happens to kernels and states over time: chains of cells and how each of them must end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Step:
    """One cell: the text it shows, and the error it ends with (None: it must not fail).

    `evalue` is a part of the error's message. A step that fails leaves its predecessor's state as the one
    that the next step runs from.
    """

    code: str
    shows: str = ""
    error: str | None = None
    evalue: str = ""
    fields: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Living:
    """One row: steps in a line."""

    id: str
    about: str
    steps: tuple[Step, ...]


CASES = (
    Living(
        "K06",
        "a process that ends itself is reported with its exit code and the output so far",
        (
            Step("x = 1"),
            Step(
                "print('bye', flush=True); import os, time; time.sleep(0.3); os._exit(3)",
                "bye\n",
                error="KernelDied",
                evalue="3",
            ),
            Step("print(x)", "1\n"),
        ),
    ),
    Living(
        "K08",
        "exit() and sys.exit() cost nobody anything",
        (
            Step("y = 2"),
            Step("import sys; sys.exit('reason')", error="SystemExit", evalue="reason"),
            Step("print(y)", "2\n"),
            Step("raise BaseException('base')", error="BaseException", evalue="base"),
            Step("print(y)", "2\n"),
        ),
    ),
    Living(
        "K10",
        "a timeout is one deadline; the output so far comes back, the next cell runs",
        (
            Step("z = 1"),
            Step(
                "print('so far', flush=True); import time; time.sleep(60)",
                "so far\n",
                error="TimeoutError",
                fields={"timeout": 1},
            ),
            Step("print('next', z)", "next 1\n"),
        ),
    ),
    Living(
        "K12",
        "a process that is killed from outside is reported with the signal",
        (
            Step("z = 5"),
            Step(
                "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
                error="KernelDied",
                evalue="SIGKILL",
            ),
            Step("print(z)", "5\n"),
        ),
    ),
    Living(
        "K20",
        "names of one object are still that in a later cell",
        (Step("a = [1]; b = a"), Step("b.append(2); print(a)", "[1, 2]\n")),
    ),
)
