"""A connection's two files. Cheroot's own are written in Python, and take twenty steps for each line of a head."""

from __future__ import annotations

import io
import socket
from collections.abc import Iterator
from contextlib import contextmanager


def open_file(sock: socket.socket, mode: str, size: int = io.DEFAULT_BUFFER_SIZE) -> Incoming | Outgoing:
    """What cheroot's `MakeFile` gives."""
    return Incoming(sock, size) if "r" in mode else Outgoing(sock)


class _Socket(socket.SocketIO):
    """The socket as a file, which can be told to have nothing to read for the moment."""

    silent = False

    def readinto(self, buffer: memoryview) -> int | None:  # type: ignore[override]
        return None if self.silent else super().readinto(buffer)


class Incoming(io.BufferedReader):
    """What the client sends."""

    raw: _Socket

    def __init__(self, sock: socket.socket, size: int) -> None:
        super().__init__(_Socket(sock, "rb"), size)
        self.bytes_read = 0  # cheroot's statistics, which nobody keeps here

    def has_data(self) -> bool:
        """Whether something has been read from the socket that nobody has taken yet."""
        self.raw.silent = True
        try:
            return bool(self.peek(1))
        finally:
            self.raw.silent = False


class Outgoing:
    """What the client gets. A piece that its socket does not take within the socket's timeout is an OSError."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._held: list[bytes] | None = None
        self.bytes_written = 0  # cheroot's statistics, which nobody keeps here

    def write(self, data: bytes) -> int:
        """Send all of it now, or when `in_one` ends."""
        if self._held is not None:
            self._held.append(data)
            return len(data)
        left = memoryview(data)
        while left:  # not sendall, whose timeout is one for all of it
            left = left[self._socket.send(left) :]
        return len(data)

    @contextmanager
    def in_one(self) -> Iterator[None]:
        """Send what is written meanwhile as one piece, at the end."""
        self._held = []
        try:
            yield
        finally:
            held, self._held = self._held, None
            self.write(b"".join(held))
