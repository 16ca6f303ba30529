"""An account's requests leave room to those of its neighbours, however many come at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import httpx
import pytest

import database as pools
from bench.load import request_bytes
from database import Database
from tests.api_server import Api
from tests.automations.workflows import problem
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


async def _are_waiting(database: Database, number: int) -> bool:
    async with database.connection() as connection:
        row = await (await connection.execute(_WAITING)).fetchone()
    assert row is not None
    return row["number"] >= number


async def test_requests_that_hold_connections_leave_some_to_neighbours(
    api: Api, database: Database, many: httpx.AsyncClient
) -> None:
    greedy, neighbour = await api.person(), await api.person()
    headers = {"Authorization": f"Bearer {greedy.secret}"}
    async with database.transaction() as holder:
        await holder.execute("lock table monitors in access exclusive mode")
        asked = [
            asyncio.create_task(many.get(f"{api.url}/api/monitors", headers=headers)) for _ in range(_MANY)
        ]
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
    headers = {"Authorization": f"Bearer {greedy.secret}"}
    async with database.transaction() as holder:
        await holder.execute("lock table monitors in access exclusive mode")
        asked = [
            asyncio.create_task(many.get(f"{api.url}/api/monitors", headers=headers)) for _ in range(_MANY)
        ]
        await eventually(lambda: sum(one.done() for one in asked) >= _MANY - 4, what="the others gave up")
        refused = [one.result() for one in asked if one.done()]
        assert {problem(answer) for answer in refused} == {(503, "too_busy")}
        assert {answer.headers["Retry-After"] for answer in refused} == {"5"}
    await asyncio.gather(*asked)


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
