"""Idempotency keys: the same request twice does its work once and is answered alike."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from typing import Annotated, Any
from uuid import UUID, uuid4

import httpx
import psycopg
import pytest
from fastapi import APIRouter, Request, Response

from api.app import create_app
from api.deps import Caller, Id, ServicesDep, require_scope
from api.http.idempotency import Idempotent, NotIdempotent, claim_of
from api.http.limits import limit_requests
from api.http.strict_route import StrictRoute
from api.http.validation import Body
from database import Database
from models.credits import credits
from models.credits.credits import Booking
from models.errors import Conflict, InsufficientCredits, NotFound, RateLimited, Unavailable
from models.identifiers import new_id
from settings import Rate, Settings
from tests.api_server import Api, serving
from tests.stacks import eventually

CALLER = Annotated[Caller, require_scope("lookups")]
ERRORS: dict[str, Exception] = {
    "402": InsufficientCredits(1, 0),
    "404": NotFound("thing"),
    "409": Conflict("busy", "It is busy."),
    "429": RateLimited(1, {}),
    "500": LookupError("a bug"),
    "503": Unavailable("away", "It is away."),
}


class Work(Body):
    what: str
    fail: str | None = None


class Gate:
    """Lets the test decide how long work takes, and counts it."""

    def __init__(self) -> None:
        self.done: Counter[str] = Counter()
        self.claims: list[UUID] = []
        self.failures: list[Exception] = []
        self.started, self.open = asyncio.Event(), asyncio.Event()
        self.open.set()


gate = Gate()
router = APIRouter(route_class=StrictRoute)


@router.post("/api/work", status_code=202, dependencies=[Idempotent])
async def work(
    body: Work, request: Request, response: Response, caller: CALLER, x: str | None = None
) -> dict[str, str]:
    claim = claim_of(request)
    if claim is not None:
        gate.claims.append(claim.id)
    gate.done[body.what] += 1
    gate.started.set()
    await gate.open.wait()
    if body.fail:
        raise ERRORS[body.fail]
    response.headers["Location"] = f"/api/work/{body.what}"
    response.headers["ETag"] = '"v1"'
    return {"id": str(new_id()), "what": body.what}


@router.post("/api/pay", dependencies=[Idempotent])
async def pay(request: Request, caller: CALLER, services: ServicesDep) -> int:
    claim = claim_of(request)
    assert claim is not None
    async with services.database.connection() as connection:
        change = await credits.charge(connection, Booking(caller.account_id, 5, f"pay/{claim.id}", "test"))
    gate.started.set()
    await gate.open.wait()
    if gate.failures:
        raise gate.failures.pop()
    return change.balance


@router.post("/api/limited", dependencies=[Idempotent, limit_requests("lookups")])
async def limited_work(caller: CALLER) -> str:
    return str(new_id())


@router.post("/api/work/{thing}/{name}", dependencies=[Idempotent])
async def work_on(thing: Id, name: str, caller: CALLER) -> str:
    return str(new_id())


@router.post("/api/stream", dependencies=[NotIdempotent])
async def stream(caller: CALLER) -> str:
    return "a stream"


@pytest.fixture(scope="module")
async def api(settings: Settings) -> AsyncGenerator[Api]:
    async with serving(application(settings)) as api:
        yield api


def application(settings: Settings) -> Any:
    app = create_app(settings)
    app.include_router(router)
    return app


@pytest.fixture(autouse=True)
def fresh_gate() -> None:
    gate.__init__()


@pytest.fixture
async def client(api: Api) -> httpx.AsyncClient:
    return (await api.person(credits=100)).key


async def post(
    client: httpx.AsyncClient, key: str | None, path: str = "/api/work", **body: Any
) -> httpx.Response:
    headers = {} if key is None else {"idempotency-key": key}
    return await client.post(path, headers=headers, json={"what": "a", **body})


async def test_a_repeat_gets_the_first_answer_and_says_so(client: httpx.AsyncClient) -> None:
    key = str(uuid4())
    first, repeat = await post(client, key), await post(client, key)
    assert gate.done["a"] == 1
    assert (repeat.status_code, repeat.content) == (202, first.content)
    for header in ("location", "etag", "content-type", "content-length"):
        assert repeat.headers[header] == first.headers[header]
    assert "idempotent-replayed" not in first.headers
    assert repeat.headers["idempotent-replayed"] == "true"
    assert repeat.headers["x-request-id"] != first.headers["x-request-id"]


async def test_without_a_key_every_request_is_its_own(client: httpx.AsyncClient) -> None:
    await post(client, None)
    await post(client, None)
    assert gate.done["a"] == 2


async def test_another_body_or_query_under_the_same_key_is_refused(client: httpx.AsyncClient) -> None:
    key = str(uuid4())
    await post(client, key)
    for answer in (await post(client, key, what="b"), await post(client, key, path="/api/work?x=1")):
        assert (answer.status_code, answer.json()["code"]) == (422, "idempotency_key_reused")
    assert sum(gate.done.values()) == 1


async def test_keys_belong_to_an_account_and_a_path(api: Api, client: httpx.AsyncClient) -> None:
    key, other = str(uuid4()), (await api.person(credits=10)).key
    answers = [await post(client, key), await post(other, key), await post(client, key, path="/api/pay")]
    assert [answer.is_success for answer in answers] == [True] * 3
    assert gate.done["a"] == 2
    assert not any("idempotent-replayed" in answer.headers for answer in answers)


async def test_a_key_is_the_same_for_an_id_in_capitals_but_not_for_a_name(client: httpx.AsyncClient) -> None:
    key, thing = str(uuid4()), str(uuid4())
    ids = (thing, thing.upper())
    first, repeat = [await post(client, key, path=f"/api/work/{id}/A") for id in ids]
    assert repeat.content == first.content and "idempotent-replayed" in repeat.headers
    other = await post(client, key, path=f"/api/work/{thing}/a")
    assert "idempotent-replayed" not in other.headers


async def test_while_the_first_is_at_work_a_repeat_is_told_to_wait(client: httpx.AsyncClient) -> None:
    key = str(uuid4())
    gate.open.clear()
    first = asyncio.create_task(post(client, key))
    await asyncio.wait_for(gate.started.wait(), 5)
    early = await post(client, key)
    assert (early.status_code, early.json()["code"]) == (409, "idempotency_in_progress")
    assert early.headers["retry-after"] == "1"
    other = await post(client, key, what="b")
    assert other.status_code == 422
    gate.open.set()
    answer = await first
    assert (await post(client, key)).content == answer.content
    assert gate.done == {"a": 1}


async def test_of_many_at_once_one_works_whichever_process_they_reach(api: Api, settings: Settings) -> None:
    async with serving(application(settings)) as other:
        person = await api.person()
        clients = [person.key, await other.client(Authorization=f"Bearer {person.secret}")]
        key = str(uuid4())
        answers = await asyncio.gather(*(post(clients[number % 2], key) for number in range(50)))
        assert gate.done["a"] == 1
        assert {answer.status_code for answer in answers} <= {202, 409}
        assert len({answer.content for answer in answers if answer.status_code == 202}) == 1


@pytest.mark.parametrize("fail", ERRORS)
async def test_a_failure_is_not_kept(client: httpx.AsyncClient, fail: str) -> None:
    key = str(uuid4())
    for _ in range(2):
        answer = await post(client, key, fail=fail)
        assert answer.status_code == int(fail)
        assert "idempotent-replayed" not in answer.headers
    assert gate.done["a"] == 2


@pytest.mark.parametrize(
    ("failure", "status"),
    [(LookupError("a bug"), 500), (psycopg.OperationalError("the connection is lost"), 503)],
    ids=["a fault", "the database away"],
)
async def test_what_was_done_before_an_unexpected_error_is_not_done_again(
    api: Api, failure: Exception, status: int
) -> None:
    client, key = (await api.person(credits=20)).key, str(uuid4())
    gate.failures.append(failure)
    answers = [await post(client, key, path="/api/pay") for _ in range(2)]
    assert [answer.status_code for answer in answers] == [status, 200]
    assert (await client.get("/api/credits")).json()["used"] == 5


async def test_after_a_refusal_the_key_is_as_new(api: Api) -> None:
    client, key = (await api.person(credits=20)).key, str(uuid4())
    gate.failures.append(Conflict("busy", "It is busy."))
    answers = [await post(client, key, path="/api/pay", what=what) for what in "ab"]
    assert [answer.status_code for answer in answers] == [409, 200]


async def test_a_refused_body_does_not_use_the_key_up(client: httpx.AsyncClient) -> None:
    key = str(uuid4())
    assert (await post(client, key, waht=1)).status_code == 400
    assert (await post(client, key)).status_code == 202


async def test_after_its_day_a_key_is_free_again(client: httpx.AsyncClient, database: Database) -> None:
    key = str(uuid4())
    await post(client, key)
    async with database.connection() as connection:
        await connection.execute("update idempotency_keys set expires_at = now() where key = %s", (key,))
    answer = await post(client, key, what="b")
    assert answer.json()["what"] == "b"
    assert gate.claims[0] != gate.claims[1]


async def test_a_process_that_dies_in_the_middle_blocks_nobody_for_ever_and_charges_once(
    api: Api, settings: Settings, database: Database
) -> None:
    person = await api.person(credits=20)
    key = str(uuid4())
    gate.open.clear()
    async with serving(application(settings)) as dying:
        client = await dying.client(Authorization=f"Bearer {person.secret}")
        first = asyncio.create_task(post(client, key, path="/api/pay"))
        await asyncio.wait_for(gate.started.wait(), 5)
        first.cancel()  # charged, not yet answered; its process never comes to store the answer
        async with database.connection() as connection:
            assert (await post(person.key, key, path="/api/pay")).status_code == 409
            await connection.execute(
                "update idempotency_keys set leased_until = now() where key = %s", (key,)
            )
        retry = asyncio.create_task(post(person.key, key, path="/api/pay"))
        gate.started.clear()
        await asyncio.wait_for(gate.started.wait(), 5)
        gate.open.set()
        assert (await retry).json() == 15
    again = await post(person.key, key, path="/api/pay")
    assert (again.json(), again.headers["idempotent-replayed"]) == (15, "true")
    assert (await person.key.get("/api/credits")).json()["used"] == 5


@pytest.mark.parametrize("fail", [None, "500"], ids=["stored", "released"])
async def test_what_could_not_be_written_without_the_database_is_written_soon_after(
    client: httpx.AsyncClient, database: Database, fail: str | None
) -> None:
    """A repeat within seconds is not told that the first request is still at work."""
    key = str(uuid4())
    gate.open.clear()
    first = asyncio.create_task(post(client, key, fail=fail))
    await asyncio.wait_for(gate.started.wait(), 5)
    async with database.transaction() as holding:
        await holding.execute("select 1 from idempotency_keys where key = %s for update", (key,))
        gate.open.set()
        await eventually(lambda: end_waiting_session(database), what="its write waits, and its session ends")
        assert (await first).status_code == (500 if fail else 202)

    async def is_done() -> bool:
        return (await post(client, key, fail=fail)).status_code != 409

    await eventually(is_done, what="a repeat is answered")
    assert gate.done["a"] == (1 if fail is None else 2)


async def end_waiting_session(database: Database) -> bool:
    """Return whether a session of the API waited for a lock, and was ended as by a crash."""
    async with database.connection() as connection:
        cursor = await connection.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where wait_event_type = 'Lock'"
            " and datname = current_database() and application_name = 'vedette-api'"
        )
        return await cursor.fetchone() is not None


async def test_answers_are_sealed_where_they_are_kept(client: httpx.AsyncClient, database: Database) -> None:
    key = str(uuid4())
    await post(client, key, what="canary-in-the-answer")
    async with database.connection() as connection:
        cursor = await connection.execute("select answer from idempotency_keys where key = %s", (key,))
        row = await cursor.fetchone()
    assert row is not None and row["answer"]
    assert b"canary" not in row["answer"]


async def test_a_repeat_counts_under_the_limit_of_its_route(settings: Settings) -> None:
    app = application(settings.model_copy(update={"limit_lookups": Rate(2, 60)}))
    async with serving(app) as api:
        client, key = (await api.person()).key, str(uuid4())
        answers = [await post(client, key, path="/api/limited") for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert answers[1].headers["idempotent-replayed"] == "true"


@pytest.mark.parametrize("key", ["", "x" * 256, "with space", "a\tb", "ümlaut"])
async def test_a_key_that_is_none_is_refused(client: httpx.AsyncClient, key: str) -> None:
    headers = [(b"idempotency-key", key.encode("latin-1"))]
    answer = await client.post("/api/work", headers=headers, json={"what": "a"})
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_idempotency_key")


async def test_a_stream_takes_no_key(client: httpx.AsyncClient) -> None:
    answer = await post(client, "x", path="/api/stream")
    assert (answer.status_code, answer.json()["code"]) == (400, "idempotency_not_supported")
    assert (await post(client, None, path="/api/stream")).status_code == 200


async def test_a_key_without_a_credential_claims_nothing(api: Api) -> None:
    assert (await post(api.http, "x")).status_code == 401


async def test_openapi_shows_the_header_and_what_it_leads_to(api: Api) -> None:
    operation = (await api.http.get("/openapi.json")).json()["paths"]["/api/work"]["post"]
    assert "Idempotency-Key" in {parameter["name"] for parameter in operation["parameters"]}
    assert {"409", "422"} <= operation["responses"].keys()
