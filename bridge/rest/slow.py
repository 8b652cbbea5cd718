"""Answers that take long: the work in a thread of its own, the reply's body kept alive meanwhile.

No client's read timeout may end an execution, so after `every` seconds the answer begins with a space and
goes on with one every `every` seconds; JSON ignores them. The status is sent by then, so it is 200, and an
error that comes later is told inside the reply.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any

from bridge.errors import BridgeError
from bridge.rest.replies import dump, failed_execution

EVERY = 15.0
"""Seconds between two signs of life."""

log = logging.getLogger(__name__)


class Job:
    """One call in a thread of its own, which ends with the call: a client that leaves does not end it."""

    def __init__(self, call: Callable[[], dict[str, Any]], name: str) -> None:
        self._call = call
        self._ended = threading.Event()
        self._reply: dict[str, Any] = {}
        self._error: BaseException | None = None
        # A daemon: an engine that fails to end a run in time must not hold up the end of the process.
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def wait(self, timeout: float) -> bool:
        """True when the call has ended within `timeout` seconds."""
        return self._ended.wait(timeout)

    def result(self) -> dict[str, Any]:
        """What the ended call returned; raises what it raised."""
        if self._error is not None:
            raise self._error
        return self._reply

    def body(self, every: float) -> Iterator[bytes]:
        """The reply as a body that has begun: a space at once and every `every` seconds, then the JSON."""
        yield b" "
        while not self._ended.wait(every):
            yield b" "
        if self._error is None:
            yield dump(self._reply)
            return
        if not isinstance(self._error, BridgeError):
            log.error("an execution ended in an internal error", exc_info=self._error)
        yield dump(failed_execution(self._error))

    def _run(self) -> None:
        try:
            self._reply = self._call()
        except BaseException as error:
            self._error = error
        finally:
            self._ended.set()
