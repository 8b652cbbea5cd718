"""The application in process, under wsgiref's validator: all that is decided before the engine is asked."""

from __future__ import annotations

import io
import json
from threading import Event
from typing import Any, NamedTuple, cast
from wsgiref.util import setup_testing_defaults
from wsgiref.validate import validator

import pytest

from bridge.rest.app import Site, make_app
from bridge.rest.auth import Access
from bridge.rest.routes import ROUTES
from bridge.rest.url import canonical_path
from bridge.version import VERSION

ACCESS = Access(b"T", origins=frozenset({"https://ok.test"}))
PATHS = [(route.method, route.rule.replace("<name>", "s1").replace("<variable>", "x")) for route in ROUTES]
EVERY_PATH = [*PATHS, ("GET", "/openapi.json"), ("GET", "/nope"), ("GET", "/"), ("PUT", "/states")]


class Unreached:
    """Stands where the engine would; a request that gets this far fails as any defect does."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"the secret reason: {name}")


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def error(self) -> dict[str, Any]:
        """The error in the body, which must be JSON of the one shape."""
        assert self.headers["Content-Type"] == "application/json"
        read = json.loads(self.body)
        assert read.keys() == {"error"}
        assert read["error"].keys() == {"code", "message"}
        return cast(dict[str, Any], read["error"])


def ask(
    method: str,
    path: str,
    body: bytes = b"",
    *,
    query: str = "token=T",
    site: Site | None = None,
    content_type: str | None = "application/json",
    **headers: str,
) -> Answer:
    """One request to the application; `headers` are named as WSGI names them, without HTTP_."""
    here = site or Site(cast(Any, Unreached()), ACCESS, body_limit=1000)
    environ: dict[str, Any] = {
        "REQUEST_METHOD": method,
        "SCRIPT_NAME": "",
        "PATH_INFO": path,
        "QUERY_STRING": query,
        "CONTENT_LENGTH": str(len(body)),
        "HTTP_HOST": "localhost:8080",
        "wsgi.input": io.BytesIO(body),
        **{f"HTTP_{name}": value for name, value in headers.items()},
    }
    if content_type is not None:
        environ["CONTENT_TYPE"] = content_type
    setup_testing_defaults(environ)
    started: list[Any] = []

    def start(status: str, sent: list[tuple[str, str]], _exc: Any = None) -> Any:
        started[:] = [status, sent]

    result = validator(make_app(lambda: here))(environ, start)
    try:
        content = b"".join(result)
    finally:
        result.close()  # type: ignore[attr-defined]
    return Answer(int(started[0][:3]), dict(started[1]), content)


@pytest.mark.parametrize(("method", "path"), EVERY_PATH)
def test_a_foreign_host_is_refused_before_anything_else(method: str, path: str) -> None:
    assert ask(method, path, HOST="evil.test").status == 403
    assert ask(method, path, HOST="evil.test", query="").error["code"] == "Forbidden"


@pytest.mark.parametrize(("method", "path"), EVERY_PATH)
def test_a_foreign_origin_is_refused_even_with_the_token(method: str, path: str) -> None:
    answer = ask(method, path, ORIGIN="https://no.test")
    assert answer.error["code"] == "Forbidden"
    assert answer.status == 403
    assert "Access-Control-Allow-Origin" not in answer.headers


@pytest.mark.parametrize(("method", "path"), [pair for pair in EVERY_PATH if pair[1] != "/health"])
def test_without_the_token_everything_is_401_alike(method: str, path: str) -> None:
    missing, wrong = ask(method, path, query=""), ask(method, path, query="token=wrong")
    assert missing.status == wrong.status == 401
    assert missing.body == wrong.body
    assert missing.error["code"] == "Unauthorized"
    assert missing.headers["Www-Authenticate"].startswith("Bearer")


def test_health_tells_strangers_that_it_lives_and_no_more() -> None:
    answer = ask("GET", "/health", query="")
    assert (answer.status, json.loads(answer.body)) == (200, {"status": "ok"})
    assert ask("GET", "/health", query="token=wrong").status == 401


@pytest.mark.parametrize(("method", "path"), EVERY_PATH)
def test_a_preflight_needs_no_token_on_any_route(method: str, path: str) -> None:
    answer = ask("OPTIONS", path, query="", ORIGIN="https://ok.test", ACCESS_CONTROL_REQUEST_METHOD=method)
    assert (answer.status, answer.body) == (204, b"")
    assert answer.headers["Access-Control-Allow-Origin"] == "https://ok.test"
    assert "Authorization" in answer.headers["Access-Control-Allow-Headers"]
    refused = ask("OPTIONS", path, query="", ORIGIN="https://no.test", ACCESS_CONTROL_REQUEST_METHOD=method)
    assert refused.status == 403
    assert not [name for name in refused.headers if name.startswith("Access-Control")]


def test_an_allowed_origin_gets_its_headers_on_errors_too() -> None:
    for answer in (
        ask("GET", "/nope", ORIGIN="https://ok.test"),
        ask("GET", "/states", query="", ORIGIN="https://ok.test"),
    ):
        assert answer.status in (401, 404)
        assert answer.headers["Access-Control-Allow-Origin"] == "https://ok.test"
        assert answer.headers["Vary"] == "Origin"


def test_without_an_origin_there_are_no_cors_headers() -> None:
    answer = ask("GET", "/openapi.json")
    assert not [name for name in answer.headers if name.startswith("Access-Control")]
    assert ask("OPTIONS", "/states").status == 405


@pytest.mark.parametrize("path", ["/nope", "/", "/states/", "/states/a/b", "/sessions/a/b", "/execute/x"])
def test_what_is_no_route_is_404_in_json(path: str) -> None:
    answer = ask("GET", path)
    assert (answer.status, answer.error["code"]) == (404, "NotFound")
    assert path in answer.error["message"]


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/execute", "POST"),
        ("POST", "/states", "GET"),
        ("PUT", "/states/s1", "DELETE"),
        ("DELETE", "/health", "GET"),
    ],
)
def test_a_wrong_method_is_405_and_says_which_are_right(method: str, path: str, allowed: str) -> None:
    answer = ask(method, path)
    assert (answer.status, answer.error["code"]) == (405, "MethodNotAllowed")
    assert allowed in answer.headers["Allow"]


@pytest.mark.parametrize(
    "path", [route.rule for route in ROUTES if any(field.required for field in route.body)]
)
def test_a_missing_field_is_400_and_named(path: str) -> None:
    answer = ask("POST", path, b"{}")
    assert (answer.status, answer.error["code"]) == (400, "BadRequest")
    assert "` is missing" in answer.error["message"]
    assert ask("POST", path, b"", content_type=None).error == answer.error


@pytest.mark.parametrize(
    ("path", "body", "named"),
    [
        ("/execute", {"exec_id": "e", "state_name": "s", "code": 5}, "code"),
        ("/execute", {"exec_id": 1, "state_name": "s"}, "exec_id"),
        ("/execute", {"exec_id": "e", "state_name": None}, "state_name"),
        ("/execute", {"exec_id": "e", "state_name": "s", "new_state_name": ""}, "new_state_name"),
        ("/execute", {"exec_id": "e", "state_name": "s", "new_state_name": "n" * 256}, "new_state_name"),
        ("/execute", {"exec_id": "e", "state_name": "s", "timeout": 0}, "timeout"),
        ("/execute", {"exec_id": "e", "state_name": "s", "stdin": "line"}, "stdin"),
        ("/execute", {"exec_id": "e", "state_name": "s", "isolation": "none"}, "isolation"),
        ("/execute", {"exec_id": "e", "state_name": "s", "keep_on_error": 1}, "keep_on_error"),
        ("/multistate_execute", {"exec_id": "e", "state_mapping": ["s"]}, "state_mapping"),
        ("/multistate_execute", {"exec_id": "e", "state_mapping": {"a": 1}}, "state_mapping"),
        ("/symbol_hashes", {"state_name": "s", "symbols": "x"}, "symbols"),
        ("/symbol_hashes", {"state_name": "s", "symbols": ["x"], "hash_algo": "md5"}, "hash_algo"),
        (
            "/rebuild_state",
            {"input_state": "a", "source_state": "b", "source_vars": [1], "input_vars": []},
            "source_vars",
        ),
        ("/interrupt", {"exec_id": "e", "force": "yes"}, "force"),
    ],
)
def test_a_wrong_field_is_400_and_named(path: str, body: dict[str, Any], named: str) -> None:
    answer = ask("POST", path, json.dumps(body).encode())
    assert answer.status == 400
    assert f"`{named}`" in answer.error["message"]


def test_wrong_parameters_are_400_and_named() -> None:
    assert "`a` is missing" in ask("GET", "/diff").error["message"]
    assert "`b` is missing" in ask("GET", "/diff", query="token=T&a=s1").error["message"]
    assert "`detail`" in ask("GET", "/states", query="token=T&detail=maybe").error["message"]


@pytest.mark.parametrize("path", [rule for method, rule in PATHS if method == "POST"])
def test_a_form_on_a_web_page_cannot_post(path: str) -> None:
    for content_type in (
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        None,
    ):
        answer = ask("POST", path, b'{"code": "1"}', content_type=content_type)
        assert (answer.status, answer.error["code"]) == (415, "UnsupportedMedia")


@pytest.mark.parametrize("path", [rule for method, rule in PATHS if method == "POST"])
def test_a_body_that_is_no_object_is_400(path: str) -> None:
    for body in (b"[]", b"{", b"5", b"null"):
        assert ask("POST", path, body).status == 400


def test_a_body_over_the_limit_is_413_and_says_the_limit() -> None:
    answer = ask("POST", "/execute", b" " * 1001)
    assert (answer.status, answer.error["code"]) == (413, "BodyTooLarge")
    assert "1,000 bytes" in answer.error["message"]
    assert ask("POST", "/execute", b" " * 1000).status == 400


def test_a_server_that_ends_is_503() -> None:
    closing = Event()
    closing.set()
    site = Site(cast(Any, Unreached()), ACCESS, closing=closing)
    for method, path in PATHS:
        answer = ask(method, path, site=site)
        assert (answer.status, answer.error["code"]) == (503, "ShuttingDown")
    assert ask("GET", "/states", query="", site=site).status == 401


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/states", b""),
        ("POST", "/reset", b""),
        ("POST", "/execute", b'{"exec_id": "e", "state_name": "s"}'),
    ],
)
def test_a_defect_is_500_without_its_details_and_the_log_has_them(
    method: str, path: str, body: bytes, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    answer = ask(method, path, body)
    assert (answer.status, answer.error["code"]) == (500, "InternalServerError")
    assert "secret" not in answer.body.decode()
    assert "the secret reason" in caplog.text
    assert capfd.readouterr() == ("", "")


def test_a_name_that_is_no_utf8_is_400() -> None:
    answer = ask("GET", "/states/\xff")
    assert (answer.status, answer.error["code"]) == (400, "BadRequest")


def test_head_is_get_without_its_body() -> None:
    get, head = ask("GET", "/openapi.json"), ask("HEAD", "/openapi.json")
    assert (head.status, head.body) == (200, b"")
    assert head.headers["Content-Type"] == "application/json"
    assert json.loads(get.body)["info"]["version"] == VERSION


def test_answers_are_not_kept_by_browsers() -> None:
    for answer in (ask("GET", "/openapi.json"), ask("GET", "/nope"), ask("GET", "/states", query="")):
        assert answer.headers["Cache-Control"] == "no-store"


def test_the_log_has_paths_and_no_tokens(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "bridge")
    ask("GET", "/openapi.json", query="token=T&more=very-long-secret")
    ask("GET", "/nope\r\nforged", query="token=T", AUTHORIZATION="Bearer very-long-secret")
    assert "GET /openapi.json 200" in caplog.text
    assert "very-long-secret" not in caplog.text
    assert "token=" not in caplog.text
    assert canonical_path(None, "/nope\r\nforged") in caplog.text
    assert "\nforged" not in caplog.text
