"""The routes of sessions: named namespaces, each with at most one live kernel and one state file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bridge.rest.body import NAME, SESSION_ID, TEXT, Field
from bridge.rest.fields import CODE, EXEC_ID, STDIN, TIMEOUT
from bridge.rest.route import Given, Route

if TYPE_CHECKING:
    from bridge.engine import Kernel


def create_session(kernel: Kernel, given: Given) -> dict[str, Any]:
    return kernel.sessions.create(given["session_id"], given["cwd"], given["from_state"])


def list_sessions(kernel: Kernel, given: Given) -> dict[str, Any]:
    return {"sessions": kernel.sessions.list()}


def get_session(kernel: Kernel, given: Given) -> dict[str, Any]:
    return kernel.sessions.describe(given["id"])


def execute_in_session(kernel: Kernel, given: Given) -> dict[str, Any]:
    return kernel.sessions.execute(
        given["id"],
        given["code"],
        given["exec_id"],
        timeout=given["timeout"],
        stdin=given["stdin"],
        feed=given.get("feed"),
    )


def snapshot_session(kernel: Kernel, given: Given) -> dict[str, Any]:
    return kernel.sessions.snapshot(given["id"])


def release_session(kernel: Kernel, given: Given) -> dict[str, Any]:
    return kernel.sessions.release(given["id"])


def restore_session(kernel: Kernel, given: Given) -> dict[str, Any]:
    return kernel.sessions.restore(given["id"])


def reset_session(kernel: Kernel, given: Given) -> dict[str, Any]:
    return kernel.sessions.reset(given["id"])


def save_session_as_state(kernel: Kernel, given: Given) -> dict[str, Any]:
    return kernel.sessions.save_state(given["id"], kernel.new_name(given["new_state_name"]))


def add_paste(kernel: Kernel, given: Given) -> dict[str, Any]:
    return kernel.sessions.add_paste(given["id"], given["text"], given["input"])


def delete_session(kernel: Kernel, given: Given) -> dict[str, Any]:
    return kernel.sessions.delete(given["id"])


SESSION_ROUTES = (
    Route(
        "POST",
        "/sessions",
        "Makes a session: a named namespace that outlives its kernel",
        create_session,
        "NewSession",
        body=(
            Field("session_id", SESSION_ID, "its name; one is made up by default"),
            Field("cwd", TEXT, "the working directory that it begins in"),
            Field("from_state", TEXT, "the state whose namespace it begins with; none: an empty one"),
        ),
        status=201,
    ),
    Route("GET", "/sessions", "Lists the sessions, oldest first", list_sessions, "Sessions"),
    Route("GET", "/sessions/<id>", "Describes a session", get_session, "Session"),
    Route(
        "POST",
        "/sessions/<id>/execute",
        "Runs a cell in a session, which is brought back first when it was released",
        execute_in_session,
        "Execution",
        body=(CODE, EXEC_ID, TIMEOUT, STDIN),
        executes=True,
    ),
    Route("POST", "/sessions/<id>/snapshot", "Writes the state file now", snapshot_session, "SessionState"),
    Route(
        "POST",
        "/sessions/<id>/release",
        "Writes the state file and ends the kernel",
        release_session,
        "SessionState",
    ),
    Route(
        "POST",
        "/sessions/<id>/restore",
        "Brings the state file's namespace back, whatever the kernel holds",
        restore_session,
        "SessionState",
    ),
    Route(
        "POST",
        "/sessions/<id>/reset",
        "Ends the kernel and deletes the state file",
        reset_session,
        "SessionState",
    ),
    Route(
        "POST",
        "/sessions/<id>/save_state",
        "Stores the namespace as a state of the tree",
        save_session_as_state,
        "StateName",
        body=(Field("new_state_name", NAME, "names the state made; a name in use is given a new content"),),
    ),
    Route(
        "POST",
        "/sessions/<id>/pastes",
        "Keeps a text in a file beside the session",
        add_paste,
        "Paste",
        body=(
            Field("text", TEXT, "what the file holds", required=True),
            Field("input", SESSION_ID, "the label that the file's name begins with", default="paste"),
        ),
    ),
    Route("DELETE", "/sessions/<id>", "Ends a session and deletes all of it", delete_session, "Deleted"),
)
