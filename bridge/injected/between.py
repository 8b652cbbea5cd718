"""What can change the namespace while no cell of the notebook runs: callbacks, tasks, silent code, the debugger."""

from __future__ import annotations

import asyncio
from typing import Any

_MESSAGES = ("comm_open", "comm_msg", "comm_close")
_LIBRARIES = ("ipykernel", "tornado", "zmq", "jupyter_client", "asyncio", "IPython")


class Between:
    """Notes whether something else than cells has run since the last snapshot."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self.noted = False  # something has run since the last snapshot, or is about to

    def install(self) -> None:
        """Watch the messages that run code of the user's beside cells."""
        kernel = self._shell.kernel
        for handlers, names in (
            (kernel.shell_handlers, _MESSAGES),
            (kernel.control_handlers, ("debug_request",)),
        ):
            for name in names:
                if name in handlers:
                    handlers[name] = self._noting(handlers[name])

    def note(self) -> None:
        """Something has run, or is about to."""
        self.noted = True

    def take(self) -> bool:
        """Whether something has run since the last call, or may run before the next."""
        noted, self.noted = self.noted, has_tasks()
        return noted or self.noted

    def _noting(self, handler: Any) -> Any:
        def handle(*args: Any, **kwargs: Any) -> Any:
            self.noted = True
            return handler(*args, **kwargs)

        return handle


def has_tasks() -> bool:
    """Whether tasks or timers of the user's are under way in the kernel's event loop."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return False
    if any(_is_users(task.get_coro()) for task in asyncio.all_tasks(loop) if not task.done()):
        return True
    return any(_is_users(getattr(timer, "_callback", None)) for timer in getattr(loop, "_scheduled", ()))


def _is_users(work: Any) -> bool:
    """Whether a coroutine or callback comes from elsewhere than the libraries that a kernel is made of."""
    module = getattr(work, "__module__", None)
    if module is None:
        frame = getattr(work, "cr_frame", None) or getattr(work, "gi_frame", None)
        module = frame.f_globals.get("__name__") if frame is not None else None
    return module is not None and str(module).partition(".")[0] not in _LIBRARIES
