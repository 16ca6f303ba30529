"""What becomes of a request whose client goes before it is answered."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, LiteralString

import httpx
import orjson
import pytest

from database import Database
from tests.api_server import Api, Person
from tests.stacks import eventually

_WAITING: LiteralString = (
    "select count(*)::int as n from pg_stat_activity where datname = current_database()"
    " and application_name = 'vedette-api' and state = 'active' and wait_event_type = 'Lock'"
)


async def send(api: Api, person: Person, method: str, path: str, body: Any = None) -> asyncio.StreamWriter:
    """Send a request, and read nothing."""
    url = httpx.URL(api.url)
    _, writer = await asyncio.open_connection(url.host, url.port)
    content = b"" if body is None else orjson.dumps(body)
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {person.secret}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    )
    writer.write(head.encode() + content)
    await writer.drain()
    return writer


async def go(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()


async def is_waiting(database: Database) -> bool:
    async with database.connection() as connection:
        row = await (await connection.execute(_WAITING)).fetchone()
    return bool(row and row["n"])


async def has_ended(database: Database) -> bool:
    return not await is_waiting(database)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/api/workflows", None),
        ("PATCH", "/api/workflows/{id}", {"name": "changed"}),
        ("POST", "/api/workflows/{id}/test", {"input": {}}),
    ],
)
async def test_a_statement_ends_when_nobody_waits_for_its_answer(
    api: Api, person: Person, database: Database, method: str, path: str, body: Any
) -> None:
    made = (await person.key.post("/api/workflows", json={"name": "kept"})).json()
    async with database.transaction() as connection:
        await connection.execute("lock table automations in access exclusive mode")
        writer = await send(api, person, method, path.format(id=made["id"]), body)
        await eventually(lambda: is_waiting(database), what="the request waits for the lock")
        await go(writer)
        await eventually(lambda: has_ended(database), what="the statement has ended")
    assert (await person.key.get(f"/api/workflows/{made['id']}")).json()["name"] == "kept"


async def test_what_changes_something_in_steps_is_done_to_its_end(
    api: Api, person: Person, database: Database
) -> None:
    async with database.transaction() as connection:
        await connection.execute("lock table lists in access exclusive mode")
        body = {"name": "kept", "type": "ip", "targets": ["8.8.8.8"]}
        writer = await send(api, person, "POST", "/api/lists", body)
        await eventually(lambda: is_waiting(database), what="the request waits for the lock")
        await go(writer)

    async def stored() -> bool:
        return bool((await person.key.get("/api/lists")).json())

    await eventually(stored, what="the list is stored")


async def test_a_client_that_goes_is_no_fault_of_the_service(
    api: Api, person: Person, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    async with database.transaction() as connection:
        await connection.execute("lock table automations in access exclusive mode")
        writer = await send(api, person, "GET", "/api/workflows")
        await eventually(lambda: is_waiting(database), what="the request waits for the lock")
        await go(writer)
        await eventually(lambda: has_ended(database), what="the statement has ended")
    counted = 'vedette_http_requests_total{method="GET",route="/api/workflows",status="499"}'
    assert counted in (await api.http.get("/metrics")).text
    assert not [record for record in caplog.records if record.levelname == "ERROR"]
