"""A process that can be forked: now a kernel, now a template of kernels, and its children likewise.

A *template* is a process of one thread that waits at a socket for orders to fork. It is made of a kernel that puts
down its sockets for good (`freeze`), or is the copy of one that goes on (`copy`); the child of a template takes up
sockets of its own and is a kernel. `live` is that life, told as one loop: whatever becomes of the process, its stack
does not grow.

A template speaks in lines of JSON over a unix socket of the server's. It says first who it is, `{"token", "pid",
"preloaded"}`. An order is `{"order": "kernel", "connection_file", "output"}` or `{"order": "template", "preload",
"token"}`; the child answers a "kernel" with `{"forked": pid}`, the template tells of each child's end:
`{"ended": pid, "code"}`, or that it could not fork: `{"refused": why}`. When the server's end of the socket closes,
the template ends.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import random
import select
import socket
import sys
import warnings
from typing import Any

from . import obstacles, preload, transport

_SET_CHILD_SUBREAPER = 36  # prctl(2)
_REAP_MS = 500  # between looks for orphans that were handed to the starter

Order = dict[str, Any]


class Forks:
    """The forks of one process and of those that come of it."""

    def __init__(self, helper: Any) -> None:
        self._helper = helper
        self.transport = transport.Transport(helper.shell)
        self._order: Order | None = None
        self._starter = False
        self._preloaded = False
        self._random: Any = None

    def order(self, request: Order, buffers: list[Any]) -> dict[str, Any]:
        """Become a template ("freeze"), or leave a copy that is one ("copy"), as soon as this is answered.

        `{"why"}` says what keeps it from that, None when nothing does.
        """
        why = transport.unsupported() or obstacles.obstacle(self._helper.leftovers)
        if why is None:
            self.transport.know_own()
            self.transport.know_pipes()
            self._order = request
            self.transport.stop()
        return {"why": why}

    def live(self) -> None:
        """The rest of this process's life, called when its kernel's event loop has come to its end."""
        while self._order is not None:
            order, self._order = self._order, None
            if order["how"] == "copy":
                if not self._leave_copy():
                    self.transport.run()
                    continue
            else:
                self._starter = True
                self.transport.close()
                _adopt_orphans()
            self._be_template(order)
            self.transport.run()

    def _leave_copy(self) -> bool:
        """Fork a copy that is nobody's child but the starter's; True in it."""
        self.transport.flush()
        try:
            child = self._fork()
        except OSError:  # no memory, or no more processes: the server hears of no copy
            return False
        if child:
            os.waitpid(child, 0)
            return False
        try:
            child = self._fork()
        except OSError:
            _leave()
        if child:
            _leave()
        self._starter = False
        self.transport.abandon()
        os.setsid()
        return True

    def _be_template(self, order: Order) -> None:
        """Wait for orders; returns in a child that is a kernel."""
        while True:
            if order["how"] != "copy":
                gc.collect()
                gc.freeze()  # what is here stays, and a collection would copy its pages in every child
            template = Template(order["path"], order["token"], self._preloaded, self._starter)
            asked = template.wait(self._fork)
            self._starter = False
            if asked["order"] == "kernel":
                break
            template.close()
            preload.load(asked["preload"])
            self._preloaded = True
            self._helper.environment.start()
            order = {**order, "token": asked["token"]}
        os.setsid()
        if order["how"] != "copy":
            gc.unfreeze()  # the namespace is among it, and `gc` must know whoever refers to what
        template.say({"forked": os.getpid()})
        template.close()
        self._random = random.getstate()
        self.transport.take_up(asked["connection_file"], asked["output"])

    def settle(self) -> None:
        """The kernel that this process has become answers, and no cell has run in it yet."""
        random.setstate(self._random)  # zmq drew a port, and IPython a tip for its banner

    def _fork(self) -> int:
        """As `os.fork`, the child has the parent's output streams and its place in the sequence of random numbers."""
        streams, state = (sys.stdout, sys.stderr), random.getstate()
        child = _fork()
        if not child:
            sys.stdout, sys.stderr = streams
            random.setstate(state)
        return child


class Template:
    """The server's orders to a template, and what becomes of its children."""

    def __init__(self, path: str, token: str, preloaded: bool, starter: bool) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        try:
            self._socket.connect(path)
        except OSError:
            _leave()  # the server has ended meanwhile
        self._starter = starter
        self._children: dict[int, int] = {}  # process descriptor -> process id
        self._received = b""
        self.say({"token": token, "pid": os.getpid(), "preloaded": preloaded})

    def say(self, line: dict[str, Any]) -> None:
        """Tell the server."""
        self._socket.sendall(json.dumps(line).encode() + b"\n")

    def close(self) -> None:
        """Let go of the socket, and of the parent's descriptors, in a child."""
        self._socket.close()
        for descriptor in self._children:
            os.close(descriptor)

    def wait(self, fork: Any) -> Order:
        """Fork as ordered; gives the order in the child. Ends the process when the server is gone."""
        while True:
            poll = select.poll()
            for descriptor in (self._socket.fileno(), *self._children):
                poll.register(descriptor, select.POLLIN)
            ready = poll.poll(_REAP_MS if self._starter else None)
            self._reap()
            if any(descriptor == self._socket.fileno() for descriptor, _ in ready):
                for order in self._orders():
                    try:
                        child = fork()
                    except OSError as error:
                        self.say({"refused": str(error)})
                        continue
                    if not child:
                        return order
                    with contextlib.suppress(ProcessLookupError):  # it has ended, and will be reaped next
                        self._children[os.pidfd_open(child)] = child

    def _orders(self) -> list[Order]:
        try:
            received = self._socket.recv(1 << 16)
        except ConnectionError:
            received = b""
        if not received:
            _leave()
        *lines, self._received = (self._received + received).split(b"\n")
        return [json.loads(line) for line in lines]

    def _reap(self) -> None:
        """Tell of the children that have ended; a starter's are also those that nobody else waits for any more."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if not pid:
                break
            for descriptor, child in list(self._children.items()):
                if child == pid:
                    os.close(descriptor)
                    del self._children[descriptor]
            self.say({"ended": pid, "code": os.waitstatus_to_exitcode(status)})


_process: Forks


def start(process: Forks) -> None:
    """What `live` is about."""
    global _process
    _process = process


def live() -> None:
    """The rest of the life of this process, once its kernel's event loop has come to its end."""
    _process.live()


def _fork() -> int:
    with warnings.catch_warnings():
        # That other threads run is known: a child does without them.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _leave() -> None:
    """End this process at once, and nothing else: what it would tidy up is its parent's."""
    os.kill(os.getpid(), 9)


def _adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends."""
    ctypes.CDLL(None, use_errno=True).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
