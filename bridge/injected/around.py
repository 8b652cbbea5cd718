"""What ipykernel does around each cell, and a REST kernel does without: each takes its part of a short cell's time."""

from __future__ import annotations

import functools
import itertools
from os import utime
from typing import Any

QUIET = "quiet"


def reply_at_once(kernel: Any) -> None:
    """Do without the half millisecond that ipykernel sleeps before each reply, so that the outputs may come first.

    The server waits for both, the reply and the idle status after the outputs.
    """
    if hasattr(kernel, "_execute_sleep"):
        kernel._execute_sleep = 0.0


def inspect_once() -> None:
    """Remember which parameters a shell's method takes; ipykernel looks at its signature for every cell."""
    from ipykernel import ipkernel

    module: Any = ipkernel
    accepts = getattr(module, "_accepts_parameters", None)
    if accepts is None:
        return

    @functools.lru_cache(maxsize=16)
    def known(function: Any, names: tuple[str, ...]) -> dict[str, bool]:
        found: dict[str, bool] = accepts(function, names)
        return found

    def remembered(method: Any, names: list[str]) -> dict[str, bool]:
        return known(getattr(method, "__func__", method), tuple(names))

    module._accepts_parameters = remembered


def begin_unannounced(kernel: Any, orders: str) -> None:
    """Publish neither the busy status of a message nor the input of a cell: each takes its part of a short one's time.

    Nobody hears the status, and what the input is waited for, the cell's begin, is said by setting a file's time.
    Without such a file (`begin` in the cell's orders, which its metadata has under that name: path and nanoseconds)
    the input is published.
    """
    publish = kernel._publish_status
    publish_input = kernel._publish_execute_input

    def publish_status(status: str, *args: Any, **kwargs: Any) -> None:
        if status != "busy":
            publish(status, *args, **kwargs)

    def publish_execute_input(code: Any, parent: Any, *args: Any, **kwargs: Any) -> None:
        try:
            path, moment = parent["metadata"][orders]["begin"]
            utime(path, ns=(moment, moment))
        except (KeyError, OSError):
            publish_input(code, parent, *args, **kwargs)

    kernel._publish_status = publish_status
    kernel._publish_execute_input = publish_execute_input


class Quiet:
    """Leaves out the idle status of a cell during which nothing was published: its reply says so, and is all of it.

    To publish a status takes the kernel two thirds of what the reply does, and its reader waits for both. `QUIET` is
    set in the metadata of such a reply.
    """

    def __init__(self, kernel: Any) -> None:
        self._numbers = itertools.count(1)  # next() on it is atomic; the output thread publishes, too
        self._published = self._before = 0  # the last number by now, and when the last cell began
        self._told = self._replied = False  # the reply under way says that it is all; it is sent
        kernel._publish_execute_input = self._beginning(kernel._publish_execute_input)
        kernel._publish_status = self._leaving_out(kernel._publish_status)
        kernel.finish_metadata = self._telling(kernel.finish_metadata)
        kernel.session.send = self._seeing(kernel.session.send)
        # The class: a fork has a thread of its own.
        kind = type(kernel.iopub_thread)
        kind.send_multipart = self._counting(kind.send_multipart)

    def _counting(self, send: Any) -> Any:
        def send_multipart(thread: Any, *args: Any, **kwargs: Any) -> None:
            self._published = next(self._numbers)
            send(thread, *args, **kwargs)

        return send_multipart

    def _beginning(self, publish: Any) -> Any:
        def publish_execute_input(*args: Any, **kwargs: Any) -> None:
            self._before = self._published
            publish(*args, **kwargs)

        return publish_execute_input

    def _telling(self, finish: Any) -> Any:
        def finish_metadata(parent: Any, metadata: Any, content: Any) -> Any:
            # ipykernel has flushed both streams just before.
            self._told, self._replied = self._published == self._before, False
            found = finish(parent, metadata, content)
            return {**found, QUIET: True} if self._told else found

        return finish_metadata

    def _seeing(self, send: Any) -> Any:
        def see(*args: Any, **kwargs: Any) -> Any:
            sent = send(*args, **kwargs)
            self._replied = self._replied or args[1:2] == ("execute_reply",)
            return sent

        return see

    def _leaving_out(self, publish: Any) -> Any:
        def publish_status(status: str, channel: str, *args: Any, **kwargs: Any) -> None:
            if channel == "shell":
                quiet, self._told = self._told and self._replied, False
                if status == "idle" and quiet:
                    return
            publish(status, channel, *args, **kwargs)

        return publish_status
