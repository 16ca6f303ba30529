"""Ingest while the database is away, and once it is back."""

from __future__ import annotations

import asyncio
from collections import Counter

import psycopg

from database import Database
from embedded.postgres import Postgres
from settings import Settings
from tests.api_server import running
from tests.automations.workflows import create, post
from tests.stacks import eventually


async def test_all_who_send_events_are_told_together_that_the_database_is_away(
    settings: Settings, postgres: Postgres, database: Database
) -> None:
    async with running(settings) as api:
        # One after the other, 200 of them would wait longer than a client does.
        api.services.database._pool.timeout = 0.5  # pyright: ignore[reportPrivateUsage]
        url = (await create(await api.person()))["webhook_url"]
        name = psycopg.conninfo.conninfo_to_dict(database.url)["dbname"]
        async with await psycopg.AsyncConnection.connect(postgres.url, autocommit=True) as admin:
            await admin.execute(f"alter database {name} with allow_connections false")  # pyright: ignore[reportArgumentType]
            try:
                await admin.execute(
                    "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", (name,)
                )
                answers = await asyncio.gather(*(post(api, url, json=n) for n in range(200)))
            finally:
                await admin.execute(f"alter database {name} with allow_connections true")  # pyright: ignore[reportArgumentType]
        seen = Counter((answer.status_code, answer.json()["code"]) for answer in answers)
        assert seen == {(503, "database_unavailable"): 200}
        assert {answer.headers["retry-after"] for answer in answers} == {"2"}

        async def accepted() -> bool:
            return (await post(api, url, json={})).status_code == 202

        await eventually(accepted, 20, "events are accepted again")
