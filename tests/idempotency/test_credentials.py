"""A replay needs the credential of a first call, on every route that takes an `Idempotency-Key`.

The routes come from the application's own table, bodies from the examples in its OpenAPI document.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any
from uuid import uuid4

import httpx
import pytest
from fastapi import APIRouter, FastAPI
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute, iter_route_contexts

from api.app import create_app
from api.deps import AGENT_PREFIX, Authorisation, Caller, require_scope
from api.http.idempotency import Idempotent
from api.http.strict_route import StrictRoute
from database import Database
from models.accounts import keys
from models.accounts.keys import ALL_SCOPES, Scope
from models.audit import Actor
from models.identifiers import new_id
from settings import ProviderSettings, Settings, load
from tests.api_server import Api, Person, openapi_document, serving
from tests.automations.sources import providers
from tests.tenancy.makers import Maker, a_delivery, a_file_workflow, a_monitor, a_webhook, an_ended_run

__all__ = ["providers"]

router = APIRouter(route_class=StrictRoute)


@router.post("/api/for-sessions", dependencies=[Idempotent])
async def for_sessions(caller: Annotated[Caller, require_scope("credits", session_only=True)]) -> str:
    return str(new_id())


@router.post("/api/for-anyone", dependencies=[Idempotent])
async def for_anyone(caller: Annotated[Caller, require_scope(None)]) -> str:
    return str(new_id())


def application(settings: Settings) -> FastAPI:
    app = create_app(settings)
    app.include_router(router)
    return app


@dataclass(frozen=True)
class Route:
    """A route that takes a key, what it asks of a credential, and a body that it accepts, for httpx."""

    method: str
    path: str
    scopes: frozenset[Scope]
    sessions_only: bool
    body: dict[str, Any]

    @property
    def keys_only(self) -> bool:
        return self.path.startswith(AGENT_PREFIX)

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


# Instead of examples that no fixture of a source answers.
BODIES = {"UsernameQuery": {"username": "ada"}}


def idempotent_routes() -> Iterator[Route]:
    app = application(load({"DATABASE_URL": "postgresql://never-opened"}))
    document = openapi_document()
    for context in iter_route_contexts(app.routes):
        route = context.original_route
        if isinstance(route, APIRoute) and Idempotent in route.dependencies:
            assert context.path is not None and context.methods is not None
            (method,) = context.methods
            asked = list(authorisations(route.dependant))
            yield Route(
                method, context.path,
                frozenset(one.scope for one in asked if one.scope),  # pyright: ignore[reportArgumentType]
                any(one.session_only for one in asked),
                example(document, document["paths"].get(context.path, {}).get(method.lower(), {})),
            )  # fmt: skip


def authorisations(dependant: Dependant) -> Iterator[Authorisation]:
    if isinstance(dependant.call, Authorisation):
        yield dependant.call
    for inner in dependant.dependencies:
        yield from authorisations(inner)


def example(document: dict[str, Any], operation: dict[str, Any]) -> dict[str, Any]:
    body = operation.get("requestBody")
    if body is None:
        return {}
    if "application/json" not in body["content"]:
        [form] = body["content"]["multipart/form-data"]["schema"]["examples"]
        return {"files": {"file": ("table.csv", form["file"])}}
    given = body["content"]["application/json"]["schema"]
    if "examples" in given:
        return {"json": given["examples"][0]}
    reference = re.search(r"#/components/schemas/(\w+)", str(body))
    assert reference, f"a body without a schema: {body}"
    schema = reference[1]
    examples = document["components"]["schemas"][schema].get("examples", [{}])
    return {"json": BODIES.get(schema) or examples[0]}


ROUTES = list(idempotent_routes())
MAKERS: dict[str, Maker] = {
    "workflow_id": a_file_workflow, "run_id": an_ended_run, "webhook_id": a_webhook,
    "delivery_id": a_delivery, "id": a_monitor,
}  # fmt: skip


@dataclass(frozen=True)
class Weaker:
    """A credential that does not open some routes: which ones, how to get it, and their answer."""

    concerns: Callable[[Route], bool]
    headers: Callable[[Api, Person, Route], Awaitable[dict[str, str]]]
    status: int
    code: str


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


async def key_of(api: Api, person: Person, scopes: set[Scope], *, days: int = 1) -> tuple[str, str]:
    """A key's id and secret."""
    actor, end = Actor(person.account.id, "system"), datetime.now(UTC) + timedelta(days=days)
    async with api.services.database.transaction() as connection:
        key, secret = await keys.create_key(connection, actor, "other", scopes, end)
    return str(key.id), secret


async def nothing(api: Api, person: Person, route: Route) -> dict[str, str]:
    return {}


async def every_other_scope(api: Api, person: Person, route: Route) -> dict[str, str]:
    return bearer((await key_of(api, person, {*ALL_SCOPES} - route.scopes))[1])


async def one_other_scope(api: Api, person: Person, route: Route) -> dict[str, str]:
    return bearer((await key_of(api, person, {min(ALL_SCOPES - route.scopes)}))[1])


async def session(api: Api, person: Person, route: Route) -> dict[str, str]:
    return bearer(person.token)


async def full_key(api: Api, person: Person, route: Route) -> dict[str, str]:
    return bearer(person.secret)


async def expired_key(api: Api, person: Person, route: Route) -> dict[str, str]:
    return bearer((await key_of(api, person, {*ALL_SCOPES}, days=-1))[1])


async def revoked_key(api: Api, person: Person, route: Route) -> dict[str, str]:
    id, secret = await key_of(api, person, {*ALL_SCOPES})
    assert (await api.http.get("/api/auth/me", headers=bearer(secret))).is_success
    assert (await person.session.delete(f"/api/keys/{id}")).is_success
    return bearer(secret)


async def ended_session(api: Api, person: Person, route: Route) -> dict[str, str]:
    assert (await person.session.post("/api/auth/logout")).is_success
    return bearer(person.token)


WEAKER = {
    "none": Weaker(lambda route: True, nothing, 401, "not_authenticated"),
    "a key with every scope but the needed": Weaker(
        lambda route: bool(route.scopes) and not route.sessions_only,
        every_other_scope, 403, "insufficient_scope",
    ),
    "a key with one other scope": Weaker(
        lambda route: bool(route.scopes) and not route.sessions_only,
        one_other_scope, 403, "insufficient_scope",
    ),
    "a session where a key is needed": Weaker(
        lambda route: route.keys_only, session, 403, "api_key_required"
    ),
    "a key where a session is needed": Weaker(
        lambda route: route.sessions_only, full_key, 403, "session_required"
    ),
    "an expired key": Weaker(lambda route: True, expired_key, 401, "invalid_credentials"),
    "a revoked key": Weaker(lambda route: True, revoked_key, 401, "invalid_credentials"),
    "an ended session": Weaker(lambda route: True, ended_session, 401, "invalid_credentials"),
}  # fmt: skip
PAIRS = [
    pytest.param(route, weaker, id=f"{route} with {name}")
    for route in ROUTES
    for name, weaker in WEAKER.items()
    if weaker.concerns(route)
]


@pytest.fixture(scope="module")
async def api(settings: Settings, providers: dict[str, ProviderSettings]) -> AsyncGenerator[Api]:
    changes: dict[str, Any] = {"providers": providers, "limit_lookups": None}
    async with serving(application(settings.model_copy(update=changes))) as api:
        yield api


@dataclass(frozen=True)
class Asked:
    """A request that was answered, to be repeated."""

    route: Route
    path: str
    headers: dict[str, str]
    answer: httpx.Response

    async def repeat(self, api: Api, credential: dict[str, str]) -> httpx.Response:
        return await send(api, self.route, self.path, {**credential, **self.headers})


async def send(api: Api, route: Route, path: str, headers: dict[str, str]) -> httpx.Response:
    return await api.http.request(route.method, path, headers=headers, **route.body)


async def ask(api: Api, person: Person, route: Route) -> Asked:
    """Make the first request, which must do its work: a route that fails here lacks an example or a maker."""
    path = route.path
    for name in re.findall(r"{(\w+)}", path):
        path = path.replace(f"{{{name}}}", await MAKERS[name](person))
    headers = {"idempotency-key": str(uuid4())}
    credential = bearer(person.token if route.sessions_only else person.secret)
    answer = await send(api, route, path, {**credential, **headers})
    assert answer.is_success, answer.text
    return Asked(route, path, headers, answer)


async def claims(database: Database, person: Person) -> int:
    async with database.connection() as connection:
        cursor = await connection.execute(
            "select id from idempotency_keys where account_id = %s", (person.account.id,)
        )
        return len(await cursor.fetchall())


@pytest.mark.parametrize("route", ROUTES, ids=str)
async def test_whoever_may_make_the_first_request_gets_its_answer_again(api: Api, route: Route) -> None:
    person = await api.person(credits=1000)
    asked = await ask(api, person, route)
    able: list[dict[str, str]] = []
    if not route.sessions_only:
        able.append(bearer((await key_of(api, person, {*(route.scopes or {"lists"})}))[1]))
    if not route.keys_only:
        able.append(bearer(person.token))
    for credential in able:
        repeat = await asked.repeat(api, credential)
        assert (repeat.status_code, repeat.content) == (asked.answer.status_code, asked.answer.content)
        assert repeat.headers["idempotent-replayed"] == "true"


@pytest.mark.parametrize(("route", "weaker"), PAIRS)
async def test_whoever_may_not_make_the_first_request_gets_no_replay_and_claims_nothing(
    api: Api, database: Database, route: Route, weaker: Weaker
) -> None:
    person = await api.person(credits=1000)
    asked = await ask(api, person, route)
    credential = await weaker.headers(api, person, route)
    for headers in (asked.headers, {"idempotency-key": "unused"}):
        refused = await send(api, route, asked.path, {**credential, **headers})
        assert (refused.status_code, refused.json()["code"]) == (weaker.status, weaker.code)
        assert "idempotent-replayed" not in refused.headers
    assert await claims(database, person) == 1


@pytest.mark.parametrize("route", ROUTES, ids=str)
async def test_another_account_makes_a_request_of_its_own(api: Api, route: Route) -> None:
    asked = await ask(api, await api.person(credits=1000), route)
    stranger = await api.person(credits=1000)
    answer = await asked.repeat(api, bearer(stranger.token if route.sessions_only else stranger.secret))
    assert "idempotent-replayed" not in answer.headers
    assert answer.is_success or answer.status_code == 404
