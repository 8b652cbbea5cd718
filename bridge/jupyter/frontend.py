"""The sockets that front ends talk to, bound where the connection file says."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import zmq

from bridge.pool.wire import Letter, Wire

log = logging.getLogger(__name__)

LINGER_MS = 1000
"""Milliseconds that unsent messages may take after the end, as in ipykernel."""

# Of ipykernel's signal files: the field of the port, and the kind of socket.
_CHANNELS = {"shell": zmq.ROUTER, "control": zmq.ROUTER, "stdin": zmq.ROUTER, "iopub": zmq.XPUB}


class FrontEnd:
    """One connection file's sockets; `close` in the end. All of it in one thread, the heart beats in its own.

    The file's format is `jupyter_client.connect.write_connection_file`'s. No socket has a limit: a limit loses
    messages without an error.
    """

    def __init__(self, connection_file: Path) -> None:
        info = json.loads(connection_file.read_text(encoding="utf-8"))
        self.wire = Wire(info["key"].encode(), info.get("signature_scheme") or "hmac-sha256")
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.sockets = {
            channel: self._bind(self.context, info, channel, kind) for channel, kind in _CHANNELS.items()
        }
        self._heart = _Heart(info)
        self._topic = f"kernel.{self.wire.session}".encode()

    def _bind(
        self, context: zmq.Context[Any], info: Mapping[str, Any], channel: str, kind: int
    ) -> zmq.Socket[Any]:
        bound: zmq.Socket[Any] = context.socket(kind)
        bound.linger = LINGER_MS
        bound.sndhwm = bound.rcvhwm = 0
        if kind == zmq.ROUTER:
            bound.router_handover = True  # a front end that comes back with its old identity gets its place
        else:
            # A subscription counts from its welcome on: else what is sent just before is heard ahead of it.
            bound.setsockopt(zmq.XPUB_MANUAL, 1)
        _bind(bound, info, channel)
        return bound

    def send(self, channel: str, letter: Letter) -> None:
        """Send a message as it is, signed for the front end."""
        # Copied: pyzmq's zero-copy send starts a thread with a context of its own that nobody ends.
        self.sockets[channel].send_multipart(self.wire.seal(letter))

    def publish(self, msg_type: str, content: Mapping[str, Any], parent: bytes = b"{}") -> None:
        """Send a message of our own to everybody; `parent` is the header of the message that it is about."""
        topic = self._topic + b"." + msg_type.encode()
        self.send("iopub", self.wire.letter(msg_type, content, idents=[topic], parent=parent))

    def answer(
        self,
        channel: str,
        request: Letter,
        content: Mapping[str, Any],
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Reply to a request ourselves, with the busy and idle status that belong to it."""
        kind = str(request.header.get("msg_type", "")).removesuffix("_request") + "_reply"
        parent = request.parts[0]
        self.publish("status", {"execution_state": "busy"}, parent)
        reply = self.wire.letter(kind, content, idents=request.idents, parent=parent, metadata=metadata)
        self.send(channel, reply)
        self.publish("status", {"execution_state": "idle"}, parent)

    def welcome(self, subscription: bytes) -> None:
        """Let in a new subscriber and greet it, as ipykernel 7 does (Jupyter enhancement proposal 65).

        `subscription` is the frame that was read last from iopub: 1 (come) or 0 (gone), and the topic (zmq_socket(3)).
        """
        topic = subscription[1:]
        if subscription[:1] == b"\0":
            self.sockets["iopub"].setsockopt(zmq.UNSUBSCRIBE, topic)
        elif subscription[:1] == b"\1":
            self.sockets["iopub"].setsockopt(zmq.SUBSCRIBE, topic)
            content = {"subscription": topic.decode("utf-8", "replace")}
            self.send("iopub", self.wire.letter("iopub_welcome", content, idents=[topic] if topic else []))

    def close(self) -> None:
        """Close all sockets; what is unsent has LINGER_MS."""
        for bound in self.sockets.values():
            bound.close()
        self.context.term()
        self._heart.close()


class _Heart:
    """Echoes on the heartbeat port from a thread that needs no interpreter lock, so it beats always."""

    def __init__(self, info: Mapping[str, Any]) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket = self._context.socket(zmq.ROUTER)
        self._socket.linger = 0
        _bind(self._socket, info, "hb")
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)
        self._thread.start()

    def _beat(self) -> None:
        try:
            zmq.proxy(self._socket, self._socket)
        except zmq.ContextTerminated:
            log.debug("the heart stops: the process ends")
        finally:
            self._socket.close()

    def close(self) -> None:
        self._context.term()
        self._thread.join(1.0)


def _bind(bound: zmq.Socket[Any], info: Mapping[str, Any], channel: str) -> None:
    public, secret = info.get("curve_publickey"), info.get("curve_secretkey")
    if public and secret:
        bound.curve_server = True
        bound.curve_publickey, bound.curve_secretkey = public.encode(), secret.encode()
    mark = "-" if info["transport"] == "ipc" else ":"
    bound.bind(f"{info['transport']}://{info['ip']}{mark}{info[f'{channel}_port']}")
