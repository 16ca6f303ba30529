"""A worker whose event loop lags claims no more until it is in time again, and tells of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from structlog.testing import capture_logs

import worker
from database import Database
from execution.loop_lag import LoopLag
from models.identifiers import new_id
from models.runs import run_work, workers
from tests.api_server import Api
from tests.automations.engine import NewTarget, Work, accept, ended, transform, until

TOO_LONG = 2.5


async def block_the_loop() -> None:
    asyncio.get_running_loop().call_soon(time.sleep, TOO_LONG)
    await asyncio.sleep(0)


@pytest.fixture
async def lag() -> AsyncGenerator[LoopLag]:
    lag = LoopLag()
    yield lag
    lag.stop()


async def is_small(lag: LoopLag) -> bool:
    return not lag.is_too_long


async def test_a_loop_that_was_blocked_lags_until_it_is_measured_again(lag: LoopLag) -> None:
    lag.start()
    await asyncio.sleep(0)
    assert not lag.is_too_long
    await block_the_loop()
    assert lag.is_too_long
    await until(lambda: is_small(lag))
    assert lag.take_longest() > 2.0
    assert lag.take_longest() < 2.0


async def test_a_loop_that_lags_is_told_of_once(lag: LoopLag) -> None:
    with capture_logs() as lines:
        lag.start()
        await asyncio.sleep(0)
        for _ in range(2):
            await block_the_loop()
        await until(lambda: is_small(lag))
    assert [line["event"] for line in lines] == ["event_loop_lags"]


async def test_a_worker_whose_loop_was_blocked_claims_nothing_until_the_lag_is_small(
    at_work: Work, database: Database, new_target: NewTarget, lag: LoopLag, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_claims: list[bool] = []
    claim = run_work.claim

    async def noted(*arguments: Any, **options: Any) -> Any:
        at_claims.append(lag.is_too_long)
        return await claim(*arguments, **options)

    monkeypatch.setattr(run_work, "claim", noted)
    monkeypatch.setattr(worker, "LoopLag", lambda: lag)
    target = await new_target([transform("end", "'done'")])
    async with at_work() as notifier:

        async def claims() -> bool:
            return bool(at_claims)

        await until(claims)
        await block_the_loop()
        assert lag.is_too_long
        at_claims.clear()
        [run_id] = await accept(database, target)
        assert (await ended(database, notifier, target.account_id, run_id)).output == "done"
    assert at_claims and not any(at_claims)


async def test_the_longest_lag_of_the_workers_is_a_metric(api: Api, database: Database) -> None:
    slow, fast = new_id(), new_id()
    async with database.connection() as connection:
        await workers.sign_in(connection, slow, loop_lag=86400.5)
        await workers.sign_in(connection, fast, loop_lag=0.1)
    text = (await api.http.get("/metrics")).text
    async with database.connection() as connection:
        await workers.sign_out(connection, slow)
        await workers.sign_out(connection, fast)
    assert "vedette_event_loop_lag_seconds 86400.5" in text.splitlines()
