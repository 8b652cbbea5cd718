"""The OpenAPI 3 document, made from the same table that serves the routes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from bridge.rest.body import Field
from bridge.rest.events import EVENT_STREAM
from bridge.rest.replies import JSON
from bridge.rest.route import Route
from bridge.rest.routes import ROUTES
from bridge.version import VERSION

_TEXT = {"type": "string"}
_TEXTS = {"type": "array", "items": _TEXT}
_OPEN = {"type": "object"}


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": list(properties), "properties": properties}


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}]}


_NUMBER = {"type": "number"}
_LOST = {"type": "array", "items": _object(name=_TEXT, reason=_TEXT)}
_SESSION_STATE = _object(
    saved=_TEXTS,
    restored=_TEXTS,
    skipped=_LOST,
    failed=_LOST,
    engine=_or_null(_TEXT),
    error=_or_null(_TEXT),
    defs=_TEXTS,
    largest={"type": "array", "items": _object(name=_TEXT, bytes={"type": "integer"})},
)
_SESSION = _object(
    session_id=_TEXT,
    live={"type": "boolean", "description": "whether it has a kernel"},
    running={"type": "boolean", "description": "whether a cell runs or waits"},
    created={**_NUMBER, "description": "seconds since the epoch, as last_reply"},
    last_reply=_or_null(_NUMBER),
    idle_seconds=_or_null(_NUMBER),
    state_bytes=_or_null({"type": "integer"}),
)

SCHEMAS: dict[str, dict[str, Any]] = {
    "Error": _object(error=_object(code=_TEXT, message=_TEXT)),
    "Execution": _object(
        output={"type": "array", "items": _OPEN, "description": "nbformat 4 outputs, in the order shown"},
        state_name=_or_null(_TEXT),
        error=_or_null(_object(ename=_TEXT, evalue=_TEXT, traceback=_TEXTS)),
        accessed_symbols=_TEXTS,
        modified_symbols=_TEXTS,
        deleted_symbols=_TEXTS,
        changed_symbols={
            **_TEXTS,
            "description": "names whose content differs from the input state; empty where no state is stored, "
            "as by cells of sessions and cells that fail",
        },
        execution_count=_or_null({"type": "integer"}),
        duration=_or_null({"type": "number", "description": "seconds"}),
        notice=_or_null(_TEXT),
        kernel_id=_or_null(_TEXT),
        state=_or_null({**_OPEN, "description": "the snapshot's report"}),
    ),
    "States": _object(states={"type": "array", "items": {"anyOf": [_TEXT, _OPEN]}}),
    "State": _object(
        name=_TEXT,
        timestamp=_TEXT,
        variables={"type": "object", "additionalProperties": _object(type=_TEXT, repr=_TEXT)},
    ),
    "Deleted": _object(deleted=_TEXT),
    "Bundle": _object(data=_OPEN, metadata=_OPEN),
    "Hashes": _object(hashes={"type": "object", "additionalProperties": _or_null(_TEXT)}),
    "Groups": _object(groups={"type": "array", "items": _TEXTS}, fingerprints=_TEXTS),
    "Rebuilt": _object(state_name=_TEXT, groups={"type": "array", "items": _TEXTS}, fingerprints=_TEXTS),
    "Diff": _object(added=_TEXTS, removed=_TEXTS, changed=_TEXTS),
    "Event": {
        **_object(event=_TEXT),
        "description": "the data of each event: `queued`, `running`, `output`, `update`, `clear`, and last `reply`",
    },
    "Status": _object(status=_TEXT),
    "NewSession": _object(session_id=_TEXT, state=_SESSION_STATE),
    "Sessions": _object(sessions={"type": "array", "items": _SESSION}),
    "Session": _SESSION,
    "SessionState": _object(state=_SESSION_STATE),
    "StateName": _object(state_name=_TEXT),
    "Paste": _object(path=_TEXT),
    "Interrupted": _object(interrupted={"type": "boolean"}),
    "Health": _object(status=_TEXT),
}

_STATUSES = {
    "400": "a field is missing or wrong, or the body is not a JSON object",
    "401": "the token is missing or wrong",
    "403": "the Host or the Origin is foreign",
    "404": "there is no such state, variable or session, or the state was evicted (`StateEvicted`)",
    "409": "the request contradicts what exists or runs now",
    "413": "the body is over the limit",
    "415": "the body is not application/json",
    "503": "the server is ending",
}
_ALWAYS = ("401", "403", "503")
_WITH_BODY = ("400", "409", "413", "415")


def document() -> dict[str, Any]:
    """The whole document, as JSON data."""
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        path = route.rule.replace("<", "{").replace(">", "}")
        paths.setdefault(path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "jupyter-bridge",
            "version": VERSION,
            "description": "Runs cells in real IPython kernels and keeps an immutable state after each.",
        },
        "paths": paths,
        "components": {
            "schemas": SCHEMAS,
            "securitySchemes": {
                "parameter": {"type": "apiKey", "in": "query", "name": "token"},
                "bearer": {"type": "http", "scheme": "bearer"},
            },
        },
        "security": [{"parameter": []}, {"bearer": []}],
    }


def _operation(route: Route) -> dict[str, Any]:
    names = re.findall(r"<(\w+)>", route.rule)
    statuses = {*_ALWAYS, *(_WITH_BODY if route.method == "POST" else ())}
    if names:
        statuses |= {"400", "404"}
    if route.method == "DELETE":
        statuses.add("409")
    if any(
        field.name in ("state_name", "input_state", "a", "after") for field in (*route.body, *route.query)
    ):
        statuses |= {"400"} if route.executes else {"400", "404"}
    operation: dict[str, Any] = {
        "operationId": route.handler.__name__,
        "summary": route.about,
        "parameters": [
            *({"name": name, "in": "path", "required": True, "schema": _TEXT} for name in names),
            *(_parameter(field) for field in route.query),
        ],
        "responses": {
            str(route.status): _success(route),
            **{status: _answer(_STATUSES[status], "Error") for status in sorted(statuses)},
        },
    }
    if route.method == "POST":
        operation["requestBody"] = {
            "required": any(field.required for field in route.body),
            "content": {JSON: {"schema": _body_schema(route.body)}},
        }
    if route.public:
        operation["security"] = [{}, {"parameter": []}, {"bearer": []}]
    return operation


def _success(route: Route) -> dict[str, Any]:
    """The reply, its events, or the one that the client asks for."""
    events = _answer("the execution's events", "Event", EVENT_STREAM)
    if route.streams:
        return events
    answer = _answer("the reply", route.reply)
    if route.executes:
        answer["content"].update(events["content"])
    return answer


def _answer(description: str, schema: str, content_type: str = JSON) -> dict[str, Any]:
    reference = {"$ref": f"#/components/schemas/{schema}"}
    return {"description": description, "content": {content_type: {"schema": reference}}}


def _parameter(field: Field) -> dict[str, Any]:
    return {
        "name": field.name,
        "in": "query",
        "required": field.required,
        "description": field.about,
        "schema": dict(field.kind.schema),
    }


def _body_schema(fields: Sequence[Field]) -> dict[str, Any]:
    return {
        "type": "object",
        "required": [field.name for field in fields if field.required],
        "properties": {field.name: _property(field) for field in fields},
    }


def _property(field: Field) -> dict[str, Any]:
    schema: dict[str, Any] = {**field.kind.schema, "description": field.about}
    if field.default is not None:
        schema["default"] = field.default
    if not field.required:
        # An optional field may be sent as null, which counts as absent.
        schema = {"anyOf": [schema, {"type": "null"}], "description": field.about}
    return schema
