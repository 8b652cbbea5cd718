"""The routes: for each its fields, what it asks of the engine, and what it answers.

One table serves the application and the OpenAPI document; the part of it about sessions is in `session_routes`. A
handler gets the engine and the checked fields (body, URL parameters and names from the path together) and gives the
reply as a dict.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from bridge.errors import BadRequest, NotFound, StateNotFound
from bridge.rest.body import COUNT, FLAG, MAPPING, NAME, TEXT, TEXTS, Field, choice
from bridge.rest.fields import CODE, EXEC_ID, STDIN, TIMEOUT
from bridge.rest.route import Given, Route
from bridge.rest.session_routes import SESSION_ROUTES
from bridge.version import VERSION

if TYPE_CHECKING:
    from bridge.engine import Kernel

T = TypeVar("T")


def execute(kernel: Kernel, given: Given) -> dict[str, Any]:
    return kernel.execute(
        given["code"],
        given["exec_id"],
        given["state_name"],
        given["new_state_name"],
        timeout=given["timeout"],
        stdin=given["stdin"],
        isolation=given["isolation"],
        keep_on_error=given["keep_on_error"],
        hot=given["hot"],
        feed=given.get("feed"),
    )


def multistate_execute(kernel: Kernel, given: Given) -> dict[str, Any]:
    return kernel.multistate_execute(
        given["code"],
        given["exec_id"],
        given["state_mapping"],
        given["default_state"],
        timeout=given["timeout"],
        stdin=given["stdin"],
        feed=given.get("feed"),
    )


def list_states(kernel: Kernel, given: Given) -> dict[str, Any]:
    names = kernel.list_states(given["workspace"], given["detail"], given["after"], given["limit"])
    return {"states": names}


def get_state(kernel: Kernel, given: Given) -> dict[str, Any]:
    return _found(kernel.get_state(given["name"]), given["name"])


def delete_state(kernel: Kernel, given: Given) -> dict[str, Any]:
    _found(kernel.delete_state(given["name"]) or None, given["name"])
    return {"deleted": given["name"]}


def label_state(kernel: Kernel, given: Given) -> dict[str, Any]:
    _found(kernel.label_state(given["name"], given["label"]) or None, given["name"])
    return {"state_name": given["label"]}


def get_variable(kernel: Kernel, given: Given) -> dict[str, Any]:
    name, variable = given["name"], given["variable"]
    bundle = kernel.get_variable(name, variable)
    if bundle is None:
        raise NotFound(f"there is no state named {name!r} with a variable {variable!r}")
    return bundle


def symbol_hashes(kernel: Kernel, given: Given) -> dict[str, Any]:
    try:
        hashes = kernel.get_symbol_hashes(given["state_name"], given["symbols"], given["hash_algo"])
    except ValueError as error:
        raise BadRequest(f"the field `hash_algo`: {error}") from error
    return {"hashes": _found(hashes, given["state_name"])}


def alias_groups(kernel: Kernel, given: Given) -> dict[str, Any]:
    return _found(kernel.get_alias_groups(given["state_name"]), given["state_name"])


def rebuild_state(kernel: Kernel, given: Given) -> dict[str, Any]:
    rebuilt = kernel.rebuild_state(
        given["input_state"],
        given["source_state"],
        given["source_vars"],
        given["input_vars"],
        given["new_state_name"],
    )
    return _found(rebuilt, given["input_state"], given["source_state"])


def diff(kernel: Kernel, given: Given) -> dict[str, Any]:
    return _found(kernel.diff(given["a"], given["b"]), given["a"], given["b"])


def reset(kernel: Kernel, given: Given) -> dict[str, Any]:
    kernel.reset()
    return {"status": "ok"}


def interrupt(kernel: Kernel, given: Given) -> dict[str, Any]:
    return kernel.interrupt(given["exec_id"], given["force"])


def events(kernel: Kernel, given: Given) -> dict[str, Any]:
    feed = kernel.events(given["exec_id"])
    if feed is None:
        raise NotFound(f"no execution with exec_id {given['exec_id']!r} runs or ended of late")
    return {"feed": feed}


def health(kernel: Kernel, given: Given) -> dict[str, Any]:
    if not given["authorised"]:
        return {"status": "ok"}
    return {"status": "ok", "version": VERSION, **kernel.status()}


def _found(value: T | None, *names: str) -> T:
    if value is None:
        spelled = " or none named ".join(repr(name) for name in dict.fromkeys(names))
        raise StateNotFound(f"there is no state named {spelled}")
    return value


_STATE_NAME = Field("state_name", TEXT, "the state to start from, `NAME` or `WORKSPACE:NAME`", required=True)
_NEW_NAME = Field("new_state_name", NAME, "names the state made; a name in use is given a new content")

ROUTES = (
    Route(
        "POST",
        "/execute",
        "Runs a cell from a state and stores the state it leaves",
        execute,
        "Execution",
        body=(
            CODE,
            EXEC_ID,
            _STATE_NAME,
            _NEW_NAME,
            TIMEOUT,
            STDIN,
            Field(
                "isolation",
                choice("shared", "fresh"),
                "`fresh`: in a process that never ran anything else",
                default="shared",
            ),
            Field("keep_on_error", FLAG, "stores the state that a failed cell leaves, too", default=False),
            Field("hot", FLAG, "keeps the state as a process that can be forked, too", default=False),
        ),
        executes=True,
    ),
    Route(
        "POST",
        "/multistate_execute",
        "Runs a cell that reads several states, each under an alias; stores nothing",
        multistate_execute,
        "Execution",
        body=(
            CODE,
            EXEC_ID,
            Field("state_mapping", MAPPING, "alias: state name", required=True),
            Field("default_state", TEXT, "the state whose variables the cell sees directly"),
            TIMEOUT,
            STDIN,
        ),
        executes=True,
    ),
    Route(
        "GET",
        "/states",
        "Names the states, oldest first",
        list_states,
        "States",
        query=(
            Field("workspace", TEXT, "another workspace's name, or * for all"),
            Field("detail", FLAG, "1 adds parent, timestamp, code and bytes", default=False),
            Field("limit", COUNT, "so many states at most"),
            Field("after", TEXT, "only those after the one of this name"),
        ),
    ),
    Route("GET", "/states/<name>", "Describes a state and its variables", get_state, "State"),
    Route("DELETE", "/states/<name>", "Deletes a state", delete_state, "Deleted"),
    Route(
        "POST",
        "/states/<name>/label",
        "Gives a state one more name, which keeps it from being evicted",
        label_state,
        "StateName",
        body=(Field("label", NAME, "the further name; one in use moves to this state", required=True),),
    ),
    Route(
        "GET",
        "/states/<name>/variables/<variable>",
        "Shows one variable as a notebook would",
        get_variable,
        "Bundle",
    ),
    Route(
        "POST",
        "/symbol_hashes",
        "Hashes variables by their content; null for one that the state lacks",
        symbol_hashes,
        "Hashes",
        body=(
            _STATE_NAME,
            Field("symbols", TEXTS, "the variables' names", required=True),
            Field("hash_algo", choice("full"), "how to hash; `full` is the only way and the default"),
        ),
    ),
    Route(
        "POST",
        "/alias_groups",
        "Groups a state's variables by the mutable objects they share",
        alias_groups,
        "Groups",
        body=(_STATE_NAME,),
    ),
    Route(
        "POST",
        "/rebuild_state",
        "Makes a state from the variables of two others, without running code",
        rebuild_state,
        "Rebuilt",
        body=(
            Field("input_state", TEXT, "the state that gives `input_vars`", required=True),
            Field("source_state", TEXT, "the state that gives `source_vars`; it wins a clash", required=True),
            Field("source_vars", TEXTS, "names to take from `source_state`", required=True),
            Field("input_vars", TEXTS, "names to take from `input_state`", required=True),
            _NEW_NAME,
        ),
    ),
    Route(
        "GET",
        "/diff",
        "Names what differs between two states",
        diff,
        "Diff",
        query=(
            Field("a", TEXT, "a state's name", required=True),
            Field("b", TEXT, "another's", required=True),
        ),
    ),
    Route(
        "POST",
        "/reset",
        "Interrupts every execution and deletes every state but `initial`",
        reset,
        "Status",
    ),
    Route(
        "POST",
        "/interrupt",
        "Interrupts an execution that runs or waits",
        interrupt,
        "Interrupted",
        body=(EXEC_ID, Field("force", FLAG, "kills the kernel's process", default=False)),
    ),
    Route(
        "GET",
        "/events",
        "Follows an execution that runs, or reads again what one showed that ended of late",
        events,
        "Event",
        query=(
            EXEC_ID,
            Field(
                "after", COUNT, "the number of the last event seen; the header Last-Event-ID wins", default=0
            ),
        ),
        streams=True,
    ),
    Route("GET", "/health", "Tells that the server lives; with a token, how", health, "Health", public=True),
    *SESSION_ROUTES,
)
