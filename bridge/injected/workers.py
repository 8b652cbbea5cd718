"""Work that several threads share: what hashes and writes holds no lock of Python's. None of them outlives it."""

from __future__ import annotations

import os
import time
from _thread import allocate_lock, get_native_id, start_new_thread  # before a library replaces them
from collections.abc import Callable

_MOST = 4
_END_SECONDS = 0.05


class Workers:
    """Threads that help the one that made this with a task, whose pieces all fetch from one iterator."""

    def __init__(self) -> None:
        self._hired: list[_Worker] | None = None

    def hire(self, task: Callable[[], None], pieces: int) -> None:
        """Have others do the task too, if none do yet and there are cores for them; `pieces` are left of it."""
        if self._hired is None:
            self._hired = []
            for _ in range(min(_cores() - 1, _MOST - 1, pieces)):
                self._hired.append(_Worker(task))

    def join(self) -> None:
        """Wait until they have ended; raises what one of them raised."""
        hired, self._hired = self._hired or [], None
        for worker in hired:
            worker.join()
        errors = [worker.error for worker in hired if worker.error is not None]
        if errors:
            hired.clear()
            try:
                raise errors[0]
            finally:
                errors.clear()  # what they passed through may hold the notebook's values


class _Worker:
    """A thread that `threading` knows nothing of: the notebook finds no trace of it."""

    def __init__(self, task: Callable[[], None]) -> None:
        self.error: BaseException | None = None
        self._native_id = 0
        self._done = allocate_lock()
        self._done.acquire()
        try:
            start_new_thread(self._run, (task,))
        except RuntimeError:  # no more threads are to be had
            self._done.release()

    def _run(self, task: Callable[[], None]) -> None:
        try:
            self._native_id = get_native_id()
            task()
        except BaseException as error:  # `join` raises it
            self.error = error
        finally:
            del task  # it may hold the notebook's values
            self._done.release()

    def join(self) -> None:
        """Wait until it has ended. While the system still lists it, the process could not be copied."""
        with self._done:
            deadline = time.monotonic() + _END_SECONDS
            place = f"/proc/self/task/{self._native_id}"
            while self._native_id and os.path.exists(place) and time.monotonic() < deadline:
                time.sleep(0)


def _cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
