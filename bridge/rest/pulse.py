"""Answers that take long: one that has not begun by then begins with a space, and goes on with one now and again.

No client's read timeout may end an execution. JSON ignores the spaces. The status is sent by then, so it is 200, and
an error that comes later is told inside the reply. The call is made by the request's own thread, so that a short one
hands nothing to another; one thread gives all the signs of life.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bridge.errors import BridgeError
from bridge.rest.replies import failed_execution

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse

EVERY = 15.0
"""Seconds between two signs of life."""

IDLE = 60.0
"""Seconds that the thread waits for an answer to keep alive before it ends."""

Headers = list[tuple[str, str]]

log = logging.getLogger(__name__)


class Answer:
    """The answer to one request, as the WSGI server takes it: `start` is the application's start_response.

    `beat` may begin it from another thread; once the application has come to its end, it does nothing any more.
    """

    def __init__(self, start_response: StartResponse) -> None:
        self.status = ""
        self._start_response = start_response
        self._lock = threading.Lock()
        self._write: Callable[[bytes], object] | None = None
        self._over = False

    def start(self, status: str, headers: Headers, exc_info: Any = None, /) -> Callable[[bytes], object]:
        """The status and the headers; of an answer that has begun they are what they were."""
        self.end()
        if self._write is not None:
            return self._write
        self.status = status
        return self._start_response(status, headers, exc_info)

    def beat(self, headers: Headers) -> bool:
        """One sign of life, the first with these headers; False when no further one is wanted."""
        with self._lock:
            if self._over:
                return False
            try:
                if self._write is None:
                    self.status = "200 OK"
                    self._write = self._start_response(self.status, headers)
                self._write(b" ")
            except Exception as error:  # the client has left; what it asked for goes on
                log.debug("no sign of life could be given: %s", error)
                self._over = True
            return not self._over

    def end(self) -> bool:
        """No sign of life from here on; whether there was one, and with it the status."""
        with self._lock:
            self._over = True
            return self._write is not None


@dataclass(eq=False, slots=True)
class _Kept:
    """An answer that is kept alive: the next sign of life is due at `due` (monotonic), then every `every` seconds."""

    answer: Answer
    headers: Headers
    every: float
    due: float


class Pulse:
    """Gives the signs of life of all answers under way, in one thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._kept: set[_Kept] = set()
        self._wakes: float | None = None  # when the thread looks again; None while there is none

    @property
    def kept(self) -> int:
        """How many answers are kept alive."""
        return len(self._kept)

    @property
    def runs(self) -> bool:
        """Whether its thread is there."""
        return self._wakes is not None

    def keep(
        self, answer: Answer, headers: Headers, every: float, call: Callable[[], dict[str, Any]]
    ) -> dict[str, Any]:
        """What `call` returns; until then there is a sign of life every `every` seconds, the first with `headers`.

        What it raises is raised while a status can still tell of it; later it is an execution's reply.
        """
        kept = _Kept(answer, headers, every, time.monotonic() + every)
        self._add(kept)
        try:
            return call()
        except Exception as error:
            if not answer.end():
                raise
            if not isinstance(error, BridgeError):
                log.error("an execution ended in an internal error", exc_info=error)
            return failed_execution(error)
        finally:
            with self._changed:
                self._kept.discard(kept)

    def _add(self, kept: _Kept) -> None:
        with self._changed:
            self._kept.add(kept)
            if self._wakes is None:
                self._wakes = kept.due
                threading.Thread(target=self._serve, name="signs-of-life", daemon=True).start()
            elif kept.due < self._wakes:
                self._changed.notify()

    def _serve(self) -> None:
        needed = time.monotonic()
        while True:  # ends when it was not needed for IDLE seconds
            self._beat()
            with self._changed:
                now = time.monotonic()
                if self._kept:
                    needed = now
                elif now - needed > IDLE:
                    self._wakes = None
                    return
                self._wakes = min((kept.due for kept in self._kept), default=now + IDLE)
                self._changed.wait(self._wakes - now)

    def _beat(self) -> None:
        """The signs of life that are due; who wants no further one is let go."""
        now = time.monotonic()
        with self._changed:
            due = [kept for kept in self._kept if kept.due <= now]
        for kept in due:
            if kept.answer.beat(kept.headers):
                kept.due = time.monotonic() + kept.every
                continue
            with self._changed:
                self._kept.discard(kept)


PULSE = Pulse()
