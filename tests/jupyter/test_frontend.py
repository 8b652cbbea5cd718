"""The sockets that front ends talk to, without a kernel behind them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import zmq
from jupyter_client.connect import write_connection_file
from jupyter_client.session import Session

from bridge.jupyter.frontend import FrontEnd

PATIENCE_MS = 30_000


class Chatter:
    """A front end's other side that publishes all the time, and looks for subscribers between two messages."""

    def __init__(self, connection_file: Path) -> None:
        self._front = FrontEnd(connection_file)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._talk)
        self._thread.start()

    def _talk(self) -> None:
        iopub = self._front.sockets["iopub"]
        while not self._over.is_set():
            self._front.publish("status", {"execution_state": "idle"})
            if iopub.poll(0):
                self._front.welcome(iopub.recv())
        self._front.close()

    def close(self) -> None:
        self._over.set()
        self._thread.join(30)


@pytest.fixture
def iopub(tmp_path: Path) -> Iterator[str]:
    """The address of one that chatters."""
    path = tmp_path / "kernel.json"
    write_connection_file(str(path), transport="ipc", ip=str(tmp_path / "ipc"), key=b"a key")
    info = json.loads(path.read_text())
    chatter = Chatter(path)
    yield f"ipc://{info['ip']}-{info['iopub_port']}"
    chatter.close()


@contextmanager
def subscriber(address: str, topic: bytes) -> Iterator[zmq.Socket[bytes]]:
    with zmq.Context() as context, context.socket(zmq.SUB) as sub:
        sub.linger = 0
        sub.subscribe(topic)
        sub.connect(address)
        yield sub


def hear(sub: zmq.Socket[bytes]) -> dict[str, Any]:
    """The next message."""
    assert sub.poll(PATIENCE_MS), "nothing came"
    session = Session(key=b"a key")
    message: dict[str, Any] = session.deserialize(session.feed_identities(sub.recv_multipart())[1])
    return message


def test_every_subscriber_is_welcomed_before_it_hears_anything_else(iopub: str) -> None:
    with subscriber(iopub, b"") as first:
        assert hear(first)["msg_type"] == "iopub_welcome"
        for _ in range(40):
            with subscriber(iopub, b"") as sub:
                assert [hear(sub)["msg_type"] for _ in range(3)] == ["iopub_welcome", "status", "status"]


def test_a_subscription_is_of_its_topic(iopub: str) -> None:
    with subscriber(iopub, b"other") as sub:
        first = hear(sub)
        assert (first["msg_type"], first["content"]) == ("iopub_welcome", {"subscription": "other"})
        assert not sub.poll(200), "a status is of another topic"
        sub.subscribe(b"kernel.")
        assert [hear(sub)["msg_type"] for _ in range(3)] == ["iopub_welcome", "status", "status"]
