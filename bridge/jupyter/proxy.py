"""The loop between the front end and the real kernel: every message passes, both ways."""

from __future__ import annotations

import logging
import os
import socket
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import zmq

from bridge.jupyter.answers import Answers
from bridge.jupyter.cells import Cells
from bridge.jupyter.driver import Attached, Driver
from bridge.jupyter.frontend import FrontEnd
from bridge.jupyter.inner import Inner
from bridge.jupyter.turns import Turns
from bridge.pool import KernelProcess
from bridge.pool.wire import BadMessage, Letter
from bridge.version import VERSION

log = logging.getLogger(__name__)

BATCH = 200
"""Messages read from one socket before the others get their turn."""
LOOK_MS = 500
"""Milliseconds between looks at the parent process and at a cell that does not end."""
DRAIN_QUIET_MS, DRAIN_ROUNDS = 50, 10
"""After a death: milliseconds without a message that mean that all has been read, and how often messages may come."""

BANNER = f"\njupyter-bridge {VERSION}: %states shows this notebook's states, %undo goes back."


class Proxy:
    """One front end and one real kernel at a time; `run` returns when the front end, or a signal, ends it.

    One thread polls all sockets. What may take its time (a lease, a switch, a write to the store) is done by the one
    worker, one thing after the other, while messages go on to pass where their order allows.
    """

    def __init__(self, front: FrontEnd) -> None:
        self._front = front
        self._inner: Inner | None = None
        self._turns = Turns()
        self._early: list[Letter] = []  # of control, from before there is a kernel
        self._interrupts: list[Letter] = []  # of cells that have yet to begin
        self._events: deque[Callable[[], None]] = deque()
        self._ear, self._mouth = socket.socketpair()
        self._ear.setblocking(False)
        self._mouth.setblocking(False)
        self._worker = ThreadPoolExecutor(1, "bridge-worker")
        self._over: str | None = None
        self._failure: BaseException | None = None

    def lead(self, driver: Driver) -> None:
        """Have this driver's kernels on the other side."""
        self._driver = driver
        self._answers = Answers(driver)
        self._cells = Cells(
            self._front,
            driver,
            self._turns,
            send=self._to_kernel,
            work=self._work,
            attached=self._attached,
            fetch=lambda: self._read_front("shell"),
        )

    # -- for other threads and signal handlers

    def soon(self, event: Callable[[], None]) -> None:
        """Has something done in the loop's thread."""
        self._events.append(event)
        try:
            self._mouth.send(b"!")
        except BlockingIOError:
            log.debug("the loop has been woken often enough")

    def end(self, reason: str) -> None:
        """Ends the loop, and with it the process."""
        self._over = self._over or reason

    def interrupt(self) -> None:
        """Interrupts the real kernel: a signal has come where a message was expected."""
        if self._inner is not None:
            self._cells.interrupted()
            self._inner.send("control", self._inner.wire.letter("interrupt_request", {}))
            self._inner.nudge()

    def died(self, kernel: KernelProcess, reason: str) -> None:
        """A kernel has ended; in any thread."""
        self.soon(lambda: self._lost(kernel, reason))

    # -- the loop

    def run(self) -> None:
        """Serve until the end. Raises what kept a kernel from coming up."""
        watched = os.getppid() if os.environ.get("JPY_PARENT_PID", "1") != "1" else None
        self._front.publish("status", {"execution_state": "starting"})
        self._attach()
        while self._over is None:
            self._turn(LOOK_MS)
            self._cells.look()
            if watched is not None and os.getppid() != watched:
                self.end("the parent process is gone")
        log.info("ending: %s", self._over)
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        """Close the sockets to the real kernel, after what the worker has begun."""
        self._worker.shutdown(wait=True, cancel_futures=True)
        if self._inner is not None:
            self._inner.close()
        self._ear.close()
        self._mouth.close()

    def _turn(self, timeout_ms: int) -> bool:
        """Read what has come, or comes within the time; whether anything has."""
        poller = zmq.Poller()
        poller.register(self._ear, zmq.POLLIN)
        for front in self._front.sockets.values():
            poller.register(front, zmq.POLLIN)
        inner = self._inner
        for connected in inner.sockets.values() if inner is not None else ():
            poller.register(connected, zmq.POLLIN)
        ready = {sock for sock, _ in poller.poll(0 if self._events else timeout_ms)}
        if self._ear.fileno() in ready:
            self._ear.recv(4096)
        # iopub first: who subscribes and then asks hears what the answer is about.
        for channel in ("iopub", "shell", "control", "stdin"):
            if self._front.sockets[channel] in ready:
                self._read_front(channel)
        if inner is not None:
            # iopub first: what a cell shows comes before its reply.
            for channel in ("iopub", "stdin", "shell", "control"):
                if inner is self._inner and inner.sockets[channel] in ready:
                    self._read_inner(inner, channel)
        while self._events:
            self._events.popleft()()
        if self._interrupts and self._inner is not None and not self._cells.is_to_begin:
            interrupts, self._interrupts = self._interrupts, []
            self._cells.interrupted()
            for letter in interrupts:
                self._inner.send("control", letter)
        return bool(ready)

    def _work(self, work: Callable[[], Any], then: Callable[[Any, BaseException | None], None]) -> None:
        """Have the worker do something, and then go on with its result, or with what it raised."""

        def done(future: Future[Any]) -> None:
            if not future.cancelled():
                error = future.exception()
                self.soon(lambda: then(None if error else future.result(), error))

        self._worker.submit(work).add_done_callback(done)

    # -- from the front end

    def _read_front(self, channel: str) -> None:
        for _ in range(BATCH):
            try:
                frames = self._front.sockets[channel].recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            if channel == "iopub":
                self._front.welcome(frames[0])
                continue
            try:
                letter = self._front.wire.open(frames)
            except BadMessage as error:
                log.warning("unreadable message on %s: %s", channel, error)
                continue
            self._from_front(channel, letter)

    def _from_front(self, channel: str, letter: Letter) -> None:
        if channel != "stdin" and letter.header.get("msg_type") == "shutdown_request":
            content = {"status": "ok", "restart": bool(letter.part(3).get("restart"))}
            self._front.answer(channel, letter, content)
            self._front.publish("shutdown_reply", content, letter.parts[0])
            self.end("the front end asked for it")
        elif channel == "shell":
            self._cells.go_on(self._turns.arrive(letter))
        elif letter.header.get("msg_type") == "interrupt_request" and self._cells.is_to_begin:
            # A cell waits while the state before it is kept; ahead of it there would be nothing to interrupt.
            self._interrupts.append(letter)
        elif self._inner is not None:
            if letter.header.get("msg_type") == "interrupt_request":
                self._cells.interrupted()
            self._inner.send(channel, letter)
        elif channel == "control":
            self._early.append(letter)

    def _to_kernel(self, letter: Letter) -> None:
        if self._inner is not None:
            self._inner.send("shell", letter)

    # -- from the kernel

    def _read_inner(self, inner: Inner, channel: str) -> None:
        for _ in range(BATCH):
            try:
                letter = inner.receive(channel)
            except zmq.Again:
                return
            if letter is None:
                log.warning("unreadable message on %s of the kernel", channel)
            elif channel == "iopub":
                if not inner.is_private(letter):
                    self._front.send("iopub", letter)
                    self._cells.heard(letter)
            elif channel == "stdin" and b'"bridge_question"' in letter.parts[0]:
                self._answer(inner, letter)
            elif letter.idents and not (channel == "shell" and self._cells.replied(letter)):
                self._to_front(inner, channel, letter)

    def _to_front(self, inner: Inner, channel: str, letter: Letter) -> None:
        """Pass on a reply, or a request for input."""
        if b'"kernel_info_reply"' in letter.parts[0]:
            content = letter.part(3)
            letter.put(3, {**content, "banner": str(content.get("banner", "")) + BANNER})
        elif b'"interrupt_reply"' in letter.parts[0]:
            inner.nudge()
        self._front.send(channel, letter)

    def _answer(self, inner: Inner, question: Letter) -> None:
        """Answer a magic's question, which the front end never sees."""
        cell, content = self._cells.cell, question.part(3)

        def answered(answer: dict[str, Any] | None, error: BaseException | None) -> None:
            if error is not None:
                log.error("a question failed", exc_info=error)
            reply = self._front.wire.letter(
                "bridge_answer",
                answer or {"error": str(error)},
                idents=question.idents,
                parent=question.parts[0],
            )
            if inner is self._inner:
                inner.send("stdin", reply)

        self._work(lambda: self._answers.to(content, cell), answered)

    # -- kernels come and go

    def _attach(self) -> None:
        def done(attached: Attached | None, error: BaseException | None) -> None:
            if attached is None:
                self._failure = error
                self.end(f"no kernel can be had: {error}")
            else:
                self._attached(attached)
                self._cells.resume()
                self._cells.go_on(self._turns.resume())

        self._turns.suspend()
        self._work(self._driver.attach, done)

    def _attached(self, attached: Attached) -> None:
        """Go on with this kernel."""
        self._cells.note(attached.notes)
        if attached.inner is None:
            return
        if self._inner is not None:
            self._inner.close()
        self._inner = attached.inner
        early, self._early = self._early, []
        for letter in early:
            self._inner.send("control", letter)

    def _lost(self, kernel: KernelProcess, reason: str) -> None:
        inner = self._inner
        if self._over is not None or inner is None or self._driver.kernel is not kernel:
            return  # it was let go, and another one has its place
        for _ in range(DRAIN_ROUNDS):
            if not any(connected.poll(DRAIN_QUIET_MS) for connected in (inner.sockets["iopub"],)):
                break
            self._read_inner(inner, "iopub")
        self._read_inner(inner, "shell")
        self._inner = None
        inner.close()
        if self._cells.leaving:
            self.end("a cell asked for the kernel's end")
            return
        self._turns.suspend()
        self._cells.died(reason)
        self._attach()
