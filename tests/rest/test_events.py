"""Executions followed event by event: while they run, after a lost connection, and when they are over."""

from __future__ import annotations

import http.client
import json
import urllib.parse
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bridge.engine.feed import KEPT, Feed
from tests.support import Client, text_of

BOUND = 60.0
Event = tuple[int, dict[str, Any]]


@contextmanager
def following(
    client: Client, method: str, path: str, body: Any = None, **headers: str
) -> Iterator[Iterator[Event]]:
    """The events of one answer, one by one as they come: (number, data)."""
    address = urllib.parse.urlsplit(client.url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=BOUND)
    sent = {"Authorization": f"Bearer {client.token}", "Content-Type": "application/json", **headers}
    try:
        connection.request(method, path, None if body is None else json.dumps(body), sent)
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        assert answer.headers.get_content_type() == "text/event-stream"
        yield _events(answer)
    finally:
        connection.close()


def _events(answer: http.client.HTTPResponse) -> Iterator[Event]:
    fields: dict[str, str] = {}
    for line in answer:
        text = line.decode().rstrip("\n")
        if not text and fields:
            data = json.loads(fields["data"])
            assert data["event"] == fields["event"]
            yield int(fields["id"]), data
            fields = {}
        elif not text.startswith(":") and text:
            name, _, value = text.partition(": ")
            fields[name] = value


def shown(events: list[Event]) -> str:
    """The stream text of events."""
    return "".join(data["output"]["text"] for _, data in events if data["event"] == "output")


def test_an_execution_is_followed_while_it_runs(client: Client) -> None:
    body = {
        "exec_id": uuid.uuid4().hex,
        "state_name": "initial",
        "code": "print('one'); name = input(); print(name)",
    }
    accept = {"Accept": "text/event-stream"}
    with following(client, "POST", "/execute", {**body, "stdin": ["two"]}, **accept) as events:
        everything = list(events)
    kinds = [data["event"] for _, data in everything]
    assert kinds[:2] == ["queued", "running"]
    assert kinds[-1] == "reply"
    assert [number for number, _ in everything] == list(range(1, len(everything) + 1))
    reply = everything[-1][1]["reply"]
    assert shown(everything) == text_of(reply) == "one\ntwo\n"
    assert client.get(f"/states/{reply['state_name']}")[1]["variables"]["name"]["repr"] == "'two'"


def test_o17_output_made_while_the_client_was_away_can_be_read_again(client: Client) -> None:
    exec_id = uuid.uuid4().hex
    path = f"/events?exec_id={exec_id}"
    code = "import time\nprint('first', flush=True)\nwhile True: time.sleep(0.01)"
    with following(client, "POST", "/execute", _cell(code, exec_id), Accept="text/event-stream") as events:
        seen = [next(events) for _ in range(3)]  # then the connection is lost
    assert [data["event"] for _, data in seen] == ["queued", "running", "output"]
    with following(client, "GET", path) as events:
        again = [next(events) for _ in range(3)]
        assert again == seen
        assert client.post("/interrupt", {"exec_id": exec_id})[1]["interrupted"]
        rest = list(events)
    assert rest[-1][1]["reply"]["error"]["ename"] == "KeyboardInterrupt"
    with following(client, "GET", path, **{"Last-Event-ID": "3"}) as events:
        assert list(events) == rest
    with following(client, "GET", f"{path}&after=2") as events:
        assert list(events) == seen[2:] + rest


def _cell(code: str, exec_id: str) -> dict[str, Any]:
    return {"code": code, "exec_id": exec_id, "state_name": "initial"}


def test_what_keeps_an_execution_from_beginning_is_an_ordinary_error(client: Client) -> None:
    body = {**_cell("1", "x"), "new_state_name": "initial"}
    reply = client.request("POST", "/execute", body, headers={"Accept": "text/event-stream"})
    assert (reply.status, reply.json["error"]["code"]) == (409, "Conflict")
    missing = client.request(
        "POST",
        "/execute",
        {**_cell("1", "x"), "state_name": "nowhere"},
        headers={"Accept": "text/event-stream"},
    )
    assert missing.status == 200
    assert '"ename": "StateNotFound"' in missing.body.decode()


def test_events_of_what_never_ran_are_not_found_and_a_bad_position_is_named(client: Client) -> None:
    assert client.get("/events", exec_id="never")[0] == 404
    status, reply = client.get("/events", exec_id="never", after="soon")
    assert (status, "`after`" in reply["error"]["message"]) == (400, True)
    exec_id = uuid.uuid4().hex
    client.run("1", exec_id=exec_id)
    bad = client.request("GET", f"/events?exec_id={exec_id}", headers={"Last-Event-ID": "x"})
    assert (bad.status, "Last-Event-ID" in bad.json["error"]["message"]) == (400, True)


def test_a_feed_that_grows_too_large_keeps_the_outputs_alone() -> None:
    feed = Feed()
    outputs = [{"output_type": "stream", "name": "stdout", "text": "done"}]
    feed.begin(lambda: outputs, "k1")
    bar = {
        "event": "output",
        "output": {"output_type": "stream", "name": "stdout", "text": "x" * (KEPT // 4)},
    }
    for _ in range(4):
        feed.add(bar)
    feed.end({"error": None})
    kept, ended = feed.after(2, 0)
    assert ended
    assert [data for _, data in kept] == [
        {"event": "clear"},
        {"event": "output", "output": outputs[0]},
        {"event": "reply", "reply": {"error": None}},
    ]
    assert [number for number, _ in kept] == [6, 7, 8]
    assert feed.after(8, 0) == ([], True)
