"""The OpenAPI document: whole, and about the routes there are."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from jsonschema import Draft202012Validator

from bridge.rest.body import parse_body
from bridge.rest.openapi import SCHEMAS, document
from bridge.rest.routes import ROUTES

DOCUMENT = json.loads(json.dumps(document()))


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if "$ref" in value:
            yield value["$ref"]
        for item in value.values():
            yield from references(item)
    elif isinstance(value, list):
        for item in value:
            yield from references(item)


def operation(method: str, path: str) -> dict[str, Any]:
    found = DOCUMENT["paths"][path][method]
    assert isinstance(found, dict)
    return found


def test_every_route_is_described_once() -> None:
    described = {(method, path) for path, item in DOCUMENT["paths"].items() for method in item}
    served = {(r.method.lower(), r.rule.replace("<", "{").replace(">", "}")) for r in ROUTES}
    assert described == served
    ids = [item[method]["operationId"] for item in DOCUMENT["paths"].values() for method in item]
    assert len(set(ids)) == len(ids) == len(ROUTES)


def test_every_reference_leads_somewhere_and_every_schema_is_used() -> None:
    used = {reference.removeprefix("#/components/schemas/") for reference in references(DOCUMENT)}
    assert used == set(SCHEMAS)
    for schema in SCHEMAS.values():
        Draft202012Validator.check_schema(schema)


def test_the_schema_of_a_body_agrees_with_what_is_read() -> None:
    request = operation("post", "/execute")["requestBody"]
    schema = request["content"]["application/json"]["schema"]
    Draft202012Validator.check_schema(schema)
    assert request["required"] is True
    assert schema["required"] == ["exec_id", "state_name"]
    route = next(route for route in ROUTES if route.rule == "/execute")
    body = {
        "exec_id": "e",
        "state_name": "s",
        "isolation": "fresh",
        "timeout": 1,
        "stdin": ["a"],
        "code": None,
    }
    Draft202012Validator(schema).validate(body)
    assert parse_body(json.dumps(body).encode(), "application/json", route.body)["isolation"] == "fresh"
    assert not Draft202012Validator(schema).is_valid({**body, "isolation": "other"})
    assert not Draft202012Validator(schema).is_valid({**body, "timeout": 0})


def test_paths_and_parameters_are_declared() -> None:
    variable = operation("get", "/states/{name}/variables/{variable}")
    assert [(p["name"], p["in"], p["required"]) for p in variable["parameters"]] == [
        ("name", "path", True),
        ("variable", "path", True),
    ]
    diff = operation("get", "/diff")
    assert [(p["name"], p["in"], p["required"]) for p in diff["parameters"]] == [
        ("a", "query", True),
        ("b", "query", True),
    ]


def test_only_health_answers_without_a_token() -> None:
    free = [
        path
        for path, item in DOCUMENT["paths"].items()
        for op in item.values()
        if {} in op.get("security", [])
    ]
    assert free == ["/health"]
    assert DOCUMENT["security"] == [{"parameter": []}, {"bearer": []}]
