"""An API that stops answers what it does not finish so that it is sent again."""

from __future__ import annotations

import asyncio

import httpx

from database import Database
from settings import Settings
from tests.api_server import running
from tests.stacks import eventually

_BLOCKED = "select count(*) > 0 as is_blocked from pg_stat_activity where wait_event_type = 'Lock'"


async def test_a_request_that_outlasts_the_grace_period_is_told_to_come_again(
    settings: Settings, database: Database
) -> None:
    async def is_blocked() -> bool:
        async with database.connection() as connection:
            row = await (await connection.execute(_BLOCKED)).fetchone()
        assert row is not None
        return row["is_blocked"]

    async with httpx.AsyncClient(trust_env=False, timeout=30) as client, database.transaction() as holder:
        async with running(settings) as api:
            person = await api.person()
            await holder.execute("lock table monitors in access exclusive mode")
            headers = {"Authorization": f"Bearer {person.secret}"}
            asked = asyncio.create_task(client.get(f"{api.url}/api/monitors", headers=headers))
            await eventually(is_blocked, what="the request waits")
            api.services.stopping = True
        answer = await asked
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
    assert answer.json()["code"] == "work_lost" and answer.json()["request_id"]
