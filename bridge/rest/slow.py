"""Answers that take long: the work in a thread of its own, the reply's body kept alive meanwhile.

No client's read timeout may end an execution, so after `every` seconds the answer begins with a space and
goes on with one every `every` seconds; JSON ignores them. The status is sent by then, so it is 200, and an
error that comes later is told inside the reply.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any

from bridge.errors import BridgeError
from bridge.rest.replies import dump, failed_execution

EVERY = 15.0
"""Seconds between two signs of life."""

IDLE = 60.0
"""Seconds that a thread waits for its next call before it ends."""

log = logging.getLogger(__name__)


class Threads:
    """Threads that are used again: the start of one takes ten times as long as to hand it a call.

    They are daemons: an engine that fails to end a run in time must not hold up the end of the process.
    """

    def __init__(self) -> None:
        self._idle: list[queue.SimpleQueue[Callable[[], None]]] = []

    @property
    def idle(self) -> int:
        """How many of them wait for a call."""
        return len(self._idle)

    def run(self, call: Callable[[], None]) -> None:
        """Has a thread of ours make the call, which must not raise."""
        try:
            calls = self._idle.pop()
        except IndexError:
            calls = queue.SimpleQueue()
            threading.Thread(target=self._serve, args=(calls,), name="execution", daemon=True).start()
        calls.put(call)

    def _serve(self, calls: queue.SimpleQueue[Callable[[], None]]) -> None:
        while True:  # ends when nobody needs it for IDLE seconds
            try:
                calls.get(timeout=IDLE)()
            except queue.Empty:
                with contextlib.suppress(ValueError):  # taken this very moment: its call is on its way
                    self._idle.remove(calls)
                    return
            else:
                self._idle.append(calls)


_threads = Threads()


class Job:
    """One call, made by a thread that does nothing else meanwhile: a client that leaves does not end it."""

    def __init__(self, call: Callable[[], dict[str, Any]]) -> None:
        self._call = call
        self._ended = threading.Event()
        self._reply: dict[str, Any] = {}
        self._error: BaseException | None = None
        _threads.run(self._run)

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
