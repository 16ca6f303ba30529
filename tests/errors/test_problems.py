"""Every answer that is not a success is a problem document, whatever layer it comes from."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Annotated, Any

import httpx
import psycopg
import pytest
from fastapi import APIRouter
from fastapi.responses import StreamingResponse
from pydantic import Field

from api.app import create_app
from api.deps import Caller, Id, ServicesDep, needs_engine, require_scope
from api.http.json_body import MAX_BODY_BYTES
from api.http.openapi import problems
from api.http.strict_route import StrictRoute
from api.http.validation import Body
from database import Database
from embedded.postgres import Postgres
from models.errors import FieldError, NotFound, describe_errors
from settings import Settings
from tests.api_server import Api, running, serving

JSON = {"content-type": "application/json"}


class Inner(Body):
    count: int
    kind: str | None = None


class Sample(Body):
    read_only = frozenset({"id"})

    name: str
    inner: list[Inner] = Field(default_factory=list[Inner])
    secret: int = 0


router = APIRouter(prefix="/api/sample", route_class=StrictRoute)


@router.post("/echo")
async def echo(body: Sample) -> Sample:
    return body


@router.post("/optional")
async def optional(body: Sample | None = None) -> bool:
    return body is not None


@router.post("/empty")
async def empty() -> str:
    return "done"


@router.get("/bug")
async def bug() -> None:
    raise LookupError("the canary in the bug")


@router.get("/cut")
async def cut() -> StreamingResponse:
    async def parts() -> AsyncIterator[bytes]:
        yield b"first"
        raise LookupError("in the middle")

    return StreamingResponse(parts())


@router.get("/engine", responses=problems("engine_unavailable"))
async def engine(services: ServicesDep) -> None:
    with needs_engine():
        await services.temporal.get_workflow_handle("none").describe()


@router.get("/things/{id}")
async def thing(id: Id, caller: Annotated[Caller, require_scope("lookups")]) -> None:
    raise NotFound(f"thing {id}")


@pytest.fixture(scope="module")
async def api(settings: Settings) -> AsyncGenerator[Api]:
    app = create_app(settings.model_copy(update={"temporal_address": "127.0.0.1:1"}))
    app.include_router(router)
    async with serving(app) as api:
        yield api


def check(response: httpx.Response, status: int, code: str) -> dict[str, Any]:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    problem = response.json()
    assert problem["status"] == status
    assert problem["code"] == code
    assert problem["message"] == problem["detail"] != ""
    assert problem["request_id"] == response.headers["x-request-id"]
    assert problem["type"].endswith(f":8000/errors/{code}")
    assert {"title", "instance"} <= problem.keys()
    return problem


PLAIN = {
    "unknown path": ("GET", "/api/nothing", {}, b"", 404, "not_found"),
    "unknown path for a browser": ("GET", "/api/nothing", {"accept": "text/html"}, b"", 404, "not_found"),
    "trailing slash": ("GET", "/api/credits/", {}, b"", 404, "not_found"),
    "path outside the API": ("GET", "/nothing", {}, b"", 404, "not_found"),
    "method": ("PATCH", "/api/keys", {}, b"", 405, "method_not_allowed"),
    "no credential": ("GET", "/api/credits", {}, b"", 401, "not_authenticated"),
    "basic authentication": (
        "GET", "/api/credits", {"authorization": "Basic YTpi"}, b"", 401, "invalid_credentials",
    ),
    "form": (
        "POST", "/api/sample/echo", {"content-type": "application/x-www-form-urlencoded"}, b"a=b",
        415, "unsupported_media_type",
    ),
    "no content type": ("POST", "/api/sample/echo", {}, b"{}", 415, "unsupported_media_type"),
    "other JSON type": (
        "POST", "/api/sample/echo", {"content-type": "application/merge-patch+json"}, b"{}",
        415, "unsupported_media_type",
    ),
    "a packed body": (
        "POST", "/api/sample/echo", {**JSON, "content-encoding": "gzip"}, b"\x1f\x8b",
        415, "unsupported_content_encoding",
    ),
    "broken JSON": ("POST", "/api/sample/echo", JSON, b"{", 400, "invalid_json"),
    "deep JSON": ("POST", "/api/sample/echo", JSON, b"[" * 5000, 400, "too_deep"),
    "no body": ("POST", "/api/sample/echo", JSON, b"", 400, "invalid_input"),
    "null": ("POST", "/api/sample/echo", JSON, b"null", 400, "invalid_input"),
    "array": ("POST", "/api/sample/echo", JSON, b"[]", 400, "invalid_input"),
    "large body": ("POST", "/api/sample/echo", JSON, b" " * (MAX_BODY_BYTES + 1), 413, "body_too_large"),
    "host": ("GET", "/healthz", {"host": "evil.example"}, b"", 400, "unknown_host"),
    "host with junk": ("GET", "/healthz", {"host": "localhost/a"}, b"", 400, "unknown_host"),
    "bug": ("GET", "/api/sample/bug", {}, b"", 500, "internal_error"),
    "engine away": ("GET", "/api/sample/engine", {}, b"", 503, "engine_unavailable"),
}  # fmt: skip


@pytest.mark.parametrize("case", PLAIN)
async def test_every_layer_answers_with_a_problem_document(api: Api, case: str) -> None:
    method, path, headers, content, status, code = PLAIN[case]
    response = await api.http.request(method, path, headers=headers, content=content)
    check(response, status, code)
    assert ("retry-after" in response.headers) == (status in (429, 503))


async def test_405_names_all_methods_of_the_path(api: Api) -> None:
    response = await api.http.request("PATCH", "/api/keys")
    assert response.headers["allow"] == "DELETE, GET, HEAD, POST"


@pytest.mark.parametrize(
    "path",
    [
        "/healthz",
        "/",
        "/api/keys",
        "/errors/not_found",
        "/app/runs",
        "/docs/workflows.md",
    ],
)
async def test_head_is_answered_like_get_without_the_body(api: Api, path: str) -> None:
    person = await api.person()
    got, headed = await person.key.get(path), await person.key.head(path)
    assert (headed.status_code, headed.content) == (got.status_code, b"")
    assert headed.headers["content-type"] == got.headers["content-type"]
    assert headed.headers["content-length"] == got.headers["content-length"]


async def test_a_stream_is_not_opened_by_head(api: Api) -> None:
    person = await api.person()
    response = await person.key.head("/api/stream")
    assert (response.status_code, response.headers["allow"]) == (405, "GET")


async def test_a_stream_that_fails_midway_is_cut_not_ended(api: Api) -> None:
    with pytest.raises(httpx.RemoteProtocolError):
        await api.http.get("/api/sample/cut")


@pytest.mark.parametrize("sent", ["abcdefgh", "A-Z_" * 16])
async def test_a_well_formed_request_id_is_kept(api: Api, sent: str) -> None:
    response = await api.http.get("/healthz", headers={"x-request-id": sent})
    assert response.headers["x-request-id"] == sent


@pytest.mark.parametrize("sent", ["short", "x" * 65, "with space", "semi;colon", "ümlaut-x"])
async def test_any_other_request_id_is_replaced(api: Api, sent: str) -> None:
    response = await api.http.get("/healthz", headers={"x-request-id": sent.encode("latin-1")})  # type: ignore[dict-item]
    assert re.fullmatch("[0-9a-f]{24}", response.headers["x-request-id"])


async def test_all_fields_that_are_wrong_are_named_at_once_without_their_values(api: Api) -> None:
    body = {
        "nmae": "hush-1",
        "inner": [{"count": "hush-2"}, {"cuont": 1, "kind": ["hush-3"]}, "hush-4"],
        "secret": 1.5,
        "a/b~c": 1,
    }
    response = await api.http.post("/api/sample/echo", json=body)
    problem = check(response, 400, "invalid_input")
    assert {(error["pointer"], error["code"]) for error in problem["errors"]} == {
        ("/name", "required"),
        ("/nmae", "unknown_field"),
        ("/a~1b~0c", "unknown_field"),
        ("/secret", "wrong_type"),
        ("/inner/0/count", "wrong_type"),
        ("/inner/1/count", "required"),
        ("/inner/1/cuont", "unknown_field"),
        ("/inner/1/kind", "wrong_type"),
        ("/inner/2", "wrong_type"),
    }
    assert "hush" not in response.text
    messages = {error["pointer"]: error["message"] for error in problem["errors"]}
    assert "Did you mean name?" in messages["/nmae"]
    assert "Did you mean count?" in messages["/inner/1/cuont"]


async def test_of_very_many_unknown_names_the_first_hundred_are_listed(api: Api) -> None:
    names = {f"n{number}": number for number in range(50_000)}
    answer = await api.http.post("/api/sample/echo", json={**names, "name": "x", "secret": "y"})
    errors = answer.json()["errors"]
    assert (answer.status_code, len(answer.content) < 30_000) == (400, True)
    assert [error["pointer"] for error in errors[:2]] == ["/secret", "/n0"] and len(errors) == 101


async def test_read_only_fields_are_accepted_and_ignored(api: Api) -> None:
    response = await api.http.post("/api/sample/echo", json={"id": "x", "name": "n"})
    assert response.json() == {"name": "n", "inner": [], "secret": 0}


@pytest.mark.parametrize("headers", [{}, JSON, {"content-type": "text/plain"}])
async def test_where_no_body_is_needed_none_is_fine_with_any_content_type(
    api: Api, headers: dict[str, str]
) -> None:
    assert (await api.http.post("/api/sample/empty", headers=headers)).json() == "done"
    assert (await api.http.post("/api/sample/optional", headers=headers)).json() is False


async def test_a_body_without_a_declared_length_is_refused_at_the_limit(api: Api) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(64):
            yield b" " * 65536

    response = await api.http.post("/api/sample/echo", headers=JSON, content=chunks())
    check(response, 413, "body_too_large")
    assert (await api.http.get("/healthz")).status_code == 200


async def test_a_large_declared_body_is_refused_before_it_is_sent(api: Api) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(api.url.rsplit(":", 1)[1]))
    writer.write(
        b"POST /api/sample/echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: 99999999999\r\nExpect: 100-continue\r\n\r\n"
    )
    async with asyncio.timeout(5):
        assert (await reader.readline()).startswith(b"HTTP/1.1 413 ")
    writer.close()


@pytest.mark.parametrize(
    "id", ["x", "1", "0" * 36, "{01a1fcc5-d868-7fa3-8981-74da2bfa90d2}", "01a1fcc5d8687fa3898174da2bfa90d2"]
)
async def test_a_malformed_id_is_an_unknown_one(api: Api, id: str) -> None:
    person = await api.person()
    problem = check(await person.key.get(f"/api/sample/things/{id}"), 404, "not_found")
    assert "00000000-0000-0000-0000-000000000000" in problem["detail"]


async def test_bad_query_parameters_are_named(api: Api) -> None:
    person = await api.person()
    response = await person.key.get("/api/credits/ledger?limit=0&cursor=abc")
    assert check(response, 400, "invalid_input")["errors"] == [
        {"pointer": "", "code": "out_of_range", "message": "Must be 1 or more.", "parameter": "limit"}
    ]


async def test_answers_carry_security_headers_and_open_nothing_to_other_origins(api: Api) -> None:
    response = await api.http.options(
        "/api/credits", headers={"origin": "https://evil.example", "access-control-request-method": "GET"}
    )
    assert response.status_code == 405
    assert not [name for name in response.headers if name.startswith("access-control")]
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["cache-control"] == "no-store"
    assert "default-src 'none'" in response.headers["content-security-policy"]
    assert "server" not in response.headers


@pytest.mark.parametrize(
    "host", ["localhost:1", "127.0.0.1", "[::1]:8000", "api.example.com", "other.example:80"]
)
async def test_the_public_host_those_allowed_and_this_machine_pass(settings: Settings, host: str) -> None:
    changes = {"public_url": "https://api.example.com", "allowed_hosts": ("other.example",)}
    async with running(settings, **changes) as api:
        response = await api.http.get("/healthz", headers={"host": host})
        assert response.status_code == 200
        assert "strict-transport-security" in response.headers


async def test_without_the_database_it_answers_503_and_recovers(
    settings: Settings, postgres: Postgres, database: Database
) -> None:
    async with running(settings) as api:
        person = await api.person()
        name = psycopg.conninfo.conninfo_to_dict(database.url)["dbname"]
        admin = await psycopg.AsyncConnection.connect(postgres.url, autocommit=True)
        async with admin:
            await admin.execute(f"alter database {name} with allow_connections false")  # pyright: ignore[reportArgumentType]
            try:
                await admin.execute(
                    "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", (name,)
                )
                response = await person.key.get("/api/credits")
                check(response, 503, "database_unavailable")
                assert int(response.headers["retry-after"]) >= 1
                ready = await api.http.get("/readyz")
                assert (ready.status_code, ready.json()["status"]) == (503, "unavailable")
                assert (await api.http.get("/healthz")).status_code == 200
            finally:
                await admin.execute(f"alter database {name} with allow_connections true")  # pyright: ignore[reportArgumentType]
        async with asyncio.timeout(20):
            while (await person.key.get("/api/credits")).status_code != 200:
                await asyncio.sleep(0.05)


async def test_openapi_names_no_status_for_errors_but_as_problem_documents(api: Api) -> None:
    document = (await api.http.get("/openapi.json")).json()
    assert "HTTPValidationError" not in json.dumps(document)
    for path, operations in document["paths"].items():
        for operation in operations.values():
            for status, answer in operation["responses"].items():
                if status >= "400" and path not in ("/readyz", "/mcp"):  # JSON-RPC has errors of its own
                    pages = {"text/html"} if path.startswith("/api/workflows/resume/") else set()
                    assert set(answer["content"]) - pages == {"application/problem+json"}, (path, status)


def test_several_errors_are_one_sentence_with_their_places() -> None:
    found = [
        FieldError("/approved", "invalid_type", "Must be a boolean."),
        FieldError("", "too_long", "Must have fewer fields.", parameter="limit"),
        FieldError("", "no_object", "Must be an object."),
        FieldError("/left", "out", "Is left out."),
    ]
    assert describe_errors(found) == (
        "/approved: Must be a boolean; limit: Must have fewer fields; /: Must be an object."
    )
    assert describe_errors(found[:1]) == "/approved: Must be a boolean."
