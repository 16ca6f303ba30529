"""An account's requests leave room to those of its neighbours, however many come at once."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import AsyncGenerator
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

import database as pools
from api.schemas import target_bodies
from bench.load import request_bytes
from database import Database
from tests.api_server import Api, Person
from tests.automations.engine import transform
from tests.automations.workflows import create, problem
from tests.mcp.clients import Agent, connected
from tests.stacks import eventually

_MANY = 100
_LIST = b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}'
_WAITING = (
    "select count(*) as number from pg_stat_activity where wait_event_type = 'Lock' and"
    " datname = current_database()"
)


@pytest.fixture
async def many() -> AsyncGenerator[httpx.AsyncClient]:
    async with httpx.AsyncClient(
        trust_env=False, timeout=60, limits=httpx.Limits(max_connections=_MANY)
    ) as client:
        yield client


def _ask_many(many: httpx.AsyncClient, url: str, person: Person) -> list[asyncio.Task[httpx.Response]]:
    headers = {"Authorization": f"Bearer {person.secret}"}
    return [asyncio.create_task(many.get(url, headers=headers)) for _ in range(_MANY)]


async def _are_waiting(database: Database, number: int) -> bool:
    async with database.connection() as connection:
        row = await (await connection.execute(_WAITING)).fetchone()
    assert row is not None
    return row["number"] >= number


async def test_requests_that_hold_connections_leave_some_to_neighbours(
    api: Api, database: Database, many: httpx.AsyncClient
) -> None:
    greedy, neighbour = await api.person(), await api.person()
    async with database.transaction() as holder:
        await holder.execute("lock table monitors in access exclusive mode")
        asked = _ask_many(many, f"{api.url}/api/monitors", greedy)
        await eventually(lambda: _are_waiting(database, 4), what="the requests hold their share")
        answers = await asyncio.gather(*(neighbour.session.get("/api/lists") for _ in range(20)))
        assert {answer.status_code for answer in answers} == {200}
        assert not any(one.done() for one in asked)
    assert {answer.status_code for answer in await asyncio.gather(*asked)} == {200}


async def test_one_whose_turn_does_not_come_is_told_to_come_again(
    api: Api, database: Database, many: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "_TURN_SECONDS", 0.5)
    greedy = await api.person()
    async with database.transaction() as holder:
        await holder.execute("lock table monitors in access exclusive mode")
        asked = _ask_many(many, f"{api.url}/api/monitors", greedy)
        await eventually(lambda: sum(one.done() for one in asked) >= _MANY - 4, what="the others gave up")
        refused = [one.result() for one in asked if one.done()]
        assert {problem(answer) for answer in refused} == {(503, "too_busy")}
        assert {answer.headers["Retry-After"] for answer in refused} == {"5"}
    await asyncio.gather(*asked)


async def test_streams_leave_connections_to_neighbours(
    api: Api, database: Database, many: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    greedy, neighbour = await api.person(), await api.person()
    targets = [f"d{number}.example.com" for number in range(5000)]
    made = await greedy.session.post("/api/lists", json={"name": "l", "type": "domain", "targets": targets})
    begun, go_on = Counter[str](), asyncio.Event()
    real = target_bodies._texts  # pyright: ignore[reportPrivateUsage]

    async def wait_before_the_second_chunk(*given: Any) -> AsyncGenerator[list[str]]:
        begun["streams"] += 1
        await go_on.wait()
        async for one in real(*given):
            yield one

    monkeypatch.setattr(target_bodies, "_texts", wait_before_the_second_chunk)
    asked = _ask_many(many, f"{api.url}/api/lists/{made.json()['id']}/targets", greedy)
    await eventually(lambda: begun["streams"] == _MANY, what="all have begun")
    async with database.transaction() as holder:
        await holder.execute("lock table list_targets in access exclusive mode")
        go_on.set()
        await eventually(lambda: _are_waiting(database, 4), what="the streams hold their share")
        answers = await asyncio.gather(*(neighbour.session.get("/api/monitors") for _ in range(20)))
        assert {answer.status_code for answer in answers} == {200}
    await asyncio.gather(*asked)


async def test_events_that_waited_leave_connections_to_neighbours(
    api: Api, database: Database, many: httpx.AsyncClient
) -> None:
    """When their waits run out, each reads its run."""
    greedy, neighbour = await api.person(), await api.person()
    made = await create(greedy, trigger={"type": "webhook"}, steps=[transform("out", "trigger")])
    url = f"{api.url}{urlsplit(made['webhook_url']).path}?wait=3"
    asked = [asyncio.create_task(many.post(url, json=number)) for number in range(40)]
    await eventually(lambda: api.services.ingest_waits.number_taken == 40, what="all wait")
    async with database.transaction() as holder:
        await holder.execute("lock table runs in access exclusive mode")
        await eventually(lambda: _are_waiting(database, 4), what="they hold their share")
        answers = await asyncio.gather(*(neighbour.session.get("/api/lists") for _ in range(20)))
        assert {answer.status_code for answer in answers} == {200}
    assert {answer.status_code for answer in await asyncio.gather(*asked)} == {202}


async def _ask(api: Api, request: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(api.url.rsplit(":", 1)[1]))
    writer.write(request)
    answer = await reader.read()
    writer.close()
    assert answer.startswith(b"HTTP/1.1 200"), answer[:500]


async def test_messages_to_the_mcp_server_are_read_in_turns(api: Api) -> None:
    greedy, neighbour = await api.person(), await api.person()
    headers = {
        "Authorization": f"Bearer {greedy.secret}",
        "Accept": "application/json, text/event-stream",
        "Connection": "close",
    }
    asked = [
        asyncio.create_task(_ask(api, request_bytes("POST", "/mcp", headers, _LIST))) for _ in range(_MANY)
    ]
    await eventually(lambda: any(one.done() for one in asked), what="the first is answered")
    assert (await neighbour.session.get("/api/lists")).status_code == 200
    assert sum(one.done() for one in asked) < _MANY / 2
    await asyncio.gather(*asked)


async def test_a_tool_that_waits_lets_the_next_message_begin(api: Api, database: Database) -> None:
    person = await api.person()
    agent = Agent(api.url, person.secret)
    async with database.transaction() as holder:
        await holder.execute("lock table monitors in access exclusive mode")
        waiting = asyncio.create_task(agent.call("list_monitors"))
        await eventually(lambda: _are_waiting(database, 1), what="the tool waits")
        async with connected(api.url, person.secret) as client:
            assert (await client.list_tools()).tools
        assert not waiting.done()
    await waiting


@pytest.mark.long
async def test_an_agent_that_does_not_read_keeps_no_turn(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    person, calls, before = await api.person(), Counter[str](), Counter[str]()
    real = api.services.mcp.handle_request

    async def count(*given: Any) -> None:
        calls["all"] += 1
        await real(*given)

    def are_stuck() -> bool:
        former = before["all"]
        before["all"] = calls["all"]
        return calls["all"] > 1000 and former == calls["all"]

    monkeypatch.setattr(api.services.mcp, "handle_request", count)
    headers = {"Authorization": f"Bearer {person.secret}", "Accept": "application/json, text/event-stream"}
    told = request_bytes(
        "POST", "/mcp", headers, b'{"jsonrpc": "2.0", "method": "notifications/initialized"}'
    )
    loop = asyncio.get_running_loop()
    with socket.socket() as deaf:
        deaf.setblocking(False)
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        await loop.sock_connect(deaf, ("127.0.0.1", int(api.url.rsplit(":", 1)[1])))
        sending = asyncio.create_task(loop.sock_sendall(deaf, told * 8000))
        await eventually(are_stuck, 60, what="the server waits for the agent")
        async with asyncio.timeout(20), connected(api.url, person.secret) as client:
            assert (await client.list_tools()).tools
        sending.cancel()
