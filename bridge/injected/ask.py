"""Questions that a cell puts to the bridge while it runs.

They go where `input()` goes, over the stdin channel, and so does the answer: the front end never sees either. See
`Kernel._input_request` in ipykernel, whose way this is.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from typing import Any

SECONDS = 60.0
_STEP = 0.05


def ask(kernel: Any, question: dict[str, Any]) -> dict[str, Any]:
    """The bridge's answer. RuntimeError when this is no place to ask from, or none comes within SECONDS."""
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError("the bridge can be asked in a cell's main thread alone")
    import zmq

    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    socket, session = kernel.stdin_socket, kernel.session
    with contextlib.suppress(zmq.Again):
        while True:  # what is left of an older input request; ends when there is none
            socket.recv_multipart(zmq.NOBLOCK)
    sent = session.send(socket, "bridge_question", question, kernel.get_parent("shell"), ident=_route(kernel))
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        if not zmq.select([socket], [], [], _STEP)[0]:
            continue
        _, reply = session.recv(socket)
        if reply is not None and reply["parent_header"].get("msg_id") == sent["header"]["msg_id"]:
            answer: dict[str, Any] = reply["content"]
            return answer
    raise RuntimeError("the bridge does not answer")


def _route(kernel: Any) -> Any:
    """The identities of whoever sent the cell."""
    if hasattr(kernel, "_shell_parent_ident"):  # ipykernel 7
        return kernel._get_shell_context_var(kernel._shell_parent_ident)
    return kernel._parent_ident["shell"]
