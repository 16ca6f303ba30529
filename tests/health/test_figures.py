"""Figures of the installation: totals over all processes, with few series each."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import get_args
from uuid import uuid4

import pytest

import metrics
from database import Database
from metrics import BUCKETS, MOST_SERIES, OTHER, Amounts, Figure, Histogram
from models.credits import credits
from models.credits.credits import Booking
from models.installation import backups, figures
from models.lookups.lookups import Status
from providers.registry import KINDS
from services.figure_writer import FigureWriter
from tests.api_server import Api
from tests.health.scraping import grown, scraped
from tests.runs.workflows import create


async def test_credits_and_cancelled_runs_are_counted(api: Api, database: Database) -> None:
    account_id, before = (await api.person()).account.id, await scraped(api)
    async with database.connection() as connection:
        await credits.grant(connection, Booking(account_id, 10, f"gift/{account_id}", "a gift"))
        work = Booking(account_id, 4, f"work/{account_id}", "work")
        for _ in range(2):  # the second is the same charge, and changes nothing
            await credits.charge(connection, work)
        await credits.refund(connection, replace(work, amount=3))
        held = Booking(account_id, 5, f"held/{account_id}", "more work")
        await credits.hold(connection, held)
        await credits.settle(connection, replace(held, amount=2))
    after = await scraped(api)
    kinds = {kind: grown(before, after, f'vedette_credits_total{{kind="{kind}"}}')
             for kind in ("added", "charged", "refunded")}  # fmt: skip
    assert kinds == {"added": 10, "charged": 6, "refunded": 3}


async def test_the_age_of_the_last_backup_is_known_once_there_was_one(api: Api, database: Database) -> None:
    assert "vedette_backup_age_seconds" not in await scraped(api)
    async with database.connection() as connection:
        for hours in (5, 30):  # an older one that ends later changes nothing
            cursor = await connection.execute("select now() - make_interval(hours => %s) as at", (hours,))
            row = await cursor.fetchone()
            assert row is not None
            await backups.note(connection, row["at"])
    assert (await scraped(api))["vedette_backup_age_seconds"] == pytest.approx(5 * 3600, abs=60)


async def test_totals_are_kept_for_the_time_when_the_database_is_back(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    figure = Histogram("vedette_kept_seconds", "For this test", "kind")
    monkeypatch.setattr(metrics, "FIGURES", (figure,))
    monkeypatch.setattr(metrics, "_by_name", {figure.name: figure})
    figure.observe(0.2, "some")
    away = Database(database.url.replace("/test_", "/none_", 1), name="away")
    writer = FigureWriter(away)
    await away._pool.open(wait=False)  # pyright: ignore[reportPrivateUsage]
    await writer.write()
    await away.close()
    figure.observe(3600, "some")
    writer = FigureWriter(database)
    writer.start()
    await writer.stop()
    async with database.connection() as connection:
        [kept] = [one for one in await figures.find_totals(connection) if one.name == figure.name]
    counts = {bound: kept.amounts[BUCKETS.index(bound)] for bound in (0.25, 7200.0)}
    assert (kept.labels, counts, kept.amounts[-1]) == (("some",), {0.25: 1, 7200.0: 1}, 3600.2)


async def test_beyond_fifty_failing_workflows_the_others_are_one(api: Api, database: Database) -> None:
    person = await api.person()
    await create(person)
    account_id = person.account.id
    async with database.connection() as connection:
        await connection.execute(
            "insert into automations (id, account_id, name, status, version, created_at, updated_at,"
            " ingest_token_hash, ingest_token_sealed)"
            " select gen_random_uuid(), account_id, 'copy', status, version, now(), now(),"
            " sha256(gen_random_uuid()::text::bytea), ''"
            " from automations, generate_series(1, 60) where account_id = %s limit 60",
            (account_id,),
        )
        await connection.execute("delete from workflow_failures")
        await connection.execute(
            "insert into workflow_failures (account_id, automation_id, slot, failed)"
            " select account_id, id, now() - interval '1 minute', 2 from automations"
            " where account_id = %s limit 55",
            (account_id,),
        )
        await connection.execute(
            "update workflow_failures set slot = now() - interval '62 minutes' where automation_id in"
            " (select automation_id from workflow_failures limit 2)"
        )
        counted = await figures.count_failed_by_workflow(connection)
        await connection.execute("delete from workflow_failures")
    assert (len(counted), counted[OTHER]) == (figures.MOST_WORKFLOWS + 1, 3 * 2)


def test_a_figure_has_so_many_series_at_most() -> None:
    figure = Figure("vedette_many", "For this test", "code")
    for _ in range(2):
        for _ in range(MOST_SERIES + 500):
            figure.add(1, uuid4().hex)
        taken = figure.take()
        others = sum(one.amounts[0] for one in taken if one.labels == (OTHER,))
        assert sum(one.amounts[0] for one in taken) == MOST_SERIES + 500
    assert others == MOST_SERIES + 500
    figure.give_back(("new",), [2])
    assert figure.take() == [Amounts("vedette_many", (OTHER,), [2])]


def test_each_source_has_a_series_for_each_outcome() -> None:
    sources = {source.spec.name for kind in KINDS.values() for source in kind.sources}
    assert len(sources) * len(get_args(Status)) < MOST_SERIES


async def test_a_process_stops_though_the_database_takes_its_last_figures_not(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    figure = Figure("vedette_last", "For this test", "kind")
    monkeypatch.setattr(metrics, "FIGURES", (figure,))
    monkeypatch.setattr(metrics, "_by_name", {figure.name: figure})
    busy = Database(database.url, name="busy", size=1)
    await busy.open()
    writer = FigureWriter(busy)
    writer.start()
    figure.add(1, "some")
    try:
        async with busy.connection(), asyncio.timeout(4):  # the pool would have it wait for five
            await writer.stop()
    finally:
        await busy.close()
    assert figure.take() == [Amounts(figure.name, ("some",), [1.0])]
