"""The order of the front end's shell messages: which go to the kernel now, and which wait. Pure.

One cell is in the kernel at a time: between two, a state is stored and the kernel may be given another one.
"""

from __future__ import annotations

from collections import deque

from bridge.pool.wire import Letter


class Turns:
    """Shell messages that wait, in their order. `letters` that are given out go to the kernel in that order.

    It begins without a kernel: `ready` is False until `resume`, and again from `suspend` on.
    """

    def __init__(self) -> None:
        self.ready = False
        self.taken = False  # a cell is under way, or something is done between two
        self._held: deque[Letter] = deque()

    def arrive(self, letter: Letter) -> list[Letter]:
        """A message has come; gives what goes to the kernel now."""
        header = letter.header
        if self.ready and (header.get("subshell_id") or str(header.get("msg_type")).startswith("comm_")):
            # A cell that awaits may wait for a widget, whose messages ipykernel takes out of their order too.
            return [letter]
        self._held.append(letter)
        return self._release()

    @property
    def cells_wait(self) -> bool:
        """Whether a cell waits for the one under way."""
        return any(map(is_cell, self._held))

    def suspend(self) -> None:
        """There is no kernel: everything waits."""
        self.ready = False

    def resume(self) -> list[Letter]:
        """A kernel is there."""
        self.ready = True
        return self._release()

    def end(self) -> list[Letter]:
        """The cell is over, with all that follows it."""
        self.taken = False
        return self._release()

    def abort(self) -> list[Letter]:
        """Take out the cells that wait: one before them has failed."""
        aborted = [letter for letter in self._held if is_cell(letter)]
        self._held = deque(letter for letter in self._held if not is_cell(letter))
        return aborted

    def _release(self) -> list[Letter]:
        """What may go now: all up to and with the next cell, and nothing that has come after a waiting cell."""
        released: list[Letter] = []
        while self.ready and self._held and not (self.taken and is_cell(self._held[0])):
            letter = self._held.popleft()
            self.taken = self.taken or is_cell(letter)
            released.append(letter)
        return released


def is_cell(letter: Letter) -> bool:
    """Whether a message runs code in the kernel's main thread: a cell of the notebook's, or silent code."""
    header = letter.header
    return header.get("msg_type") == "execute_request" and not header.get("subshell_id")
