"""Rows that our code cannot read: they are set aside, unharmed, and nobody else is held up."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import datetime
from typing import Any
from uuid import UUID

import pytest

from database import Database
from engine.calls import Call
from engine.driver import Driver
from execution import hand_over
from models.runs import setbacks
from models.runs.runs import QUEUED_CHANNEL
from settings import Settings
from tests.api_server import Api, Person, running
from tests.automations.engine import NewTarget, Work, accept, ended, transform, until
from tests.automations.setbacks import begun_with, define, metric, row_of, try_again_now
from tests.automations.workflows import create

pytestmark = pytest.mark.long

EXECUTION = "shift"
RUNS = "/api/workflows/runs"
# Claims of 256 runs that can be under way together, where 300 wait.
CLAIMS = 3
ASIDE = "vedette_versions_set_aside"


@pytest.fixture
async def api(open_settings: Settings, nothing_waits: None) -> AsyncGenerator[Api]:
    async with running(open_settings) as served:
        yield served


async def start(person: Person, workflow: dict[str, Any]) -> UUID:
    response = await person.key.post(f"/api/workflows/{workflow['id']}/run", json={"input": 1})
    return UUID(response.json()["run_id"])


PROGRESS: dict[str, Any] = {
    "no form ever written": {"began": None},
    "of a later build": {"version": 99},
    "no object": 5,
    "a text": "version",
}


@pytest.mark.executions("shift", "workflow")
@pytest.mark.parametrize("case", PROGRESS)
async def test_a_run_whose_progress_cannot_be_read_waits_aside_and_can_be_cancelled(
    api: Api, person: Person, at_work: Work, database: Database, new_target: NewTarget, case: str
) -> None:
    workflow = await create(person, steps=[transform("out", "trigger")])
    bad, *mates = [await start(person, workflow) for _ in range(3)]
    await begun_with(database, bad, PROGRESS[case])
    other = await new_target()
    [others] = await accept(database, other)
    async with at_work() as notifier:
        for mate in mates:
            assert (await ended(database, notifier, person.account.id, mate)).status == "completed"
        assert (await ended(database, notifier, other.account_id, others)).status == "completed"

        async def is_set_aside() -> bool:
            return (await row_of(database, bad))["setbacks"] is not None

        await until(is_set_aside)
        row = await row_of(database, bad)
        assert (row["status"], row["carrier"], row["progress"]) == ("queued", None, PROGRESS[case])
        assert await metric(api, ASIDE) == "1.0"
        shown = (await person.key.get(f"{RUNS}/{bad}")).json()
        assert (shown["status"], shown["steps"][0]["status"]) == ("queued", "pending")
        cancelled = await person.key.post(f"{RUNS}/{bad}/cancel")
        assert (cancelled.status_code, cancelled.json()["status"]) == (200, "cancelled")
        assert await metric(api, ASIDE) == "0.0"


@pytest.mark.executions("shift", "workflow")
@pytest.mark.parametrize("steps", [[{"id": "out", "type": "of a later build"}], 5, [7]])
async def test_a_workflow_whose_definition_cannot_be_read_waits_aside_until_it_can(
    api: Api, person: Person, at_work: Work, database: Database, new_target: NewTarget, steps: Any
) -> None:
    workflow = await create(person, steps=[transform("out", "trigger")])
    good = await define(database, workflow["id"], {"name": "x", "steps": steps})
    bad = [await start(person, workflow) for _ in range(2)]
    same_account = await start(person, await create(person))
    other = await new_target()
    [others] = await accept(database, other)
    async with at_work() as notifier:
        assert (await ended(database, notifier, person.account.id, same_account)).status == "completed"
        assert (await ended(database, notifier, other.account_id, others)).status == "completed"

        async def is_set_aside() -> bool:
            return await metric(api, ASIDE) == "1.0"

        await until(is_set_aside)
        for run_id in bad:
            row = await row_of(database, run_id)
            assert (row["status"], row["carrier"], row["setbacks"]) == ("queued", None, None)
            assert (await person.key.get(f"{RUNS}/{run_id}")).json()["status"] == "queued"
        await define(database, workflow["id"], good)
        await try_again_now(database)
        for run_id in bad:
            assert (await ended(database, notifier, person.account.id, run_id)).status == "completed"
        assert await metric(api, ASIDE) == "0.0"
    async with database.connection() as connection:
        cursor = await connection.execute("select count(*) as n from versions_aside")
        assert await cursor.fetchone() == {"n": 0}


@pytest.mark.executions("shift", "workflow")
async def test_a_run_with_which_our_code_fails_is_set_aside_and_goes_on_when_it_no_longer_does(
    at_work: Work, database: Database, new_target: NewTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = await new_target([transform("out", "trigger")])
    bad, good = await accept(database, target, 2)
    advance = Driver.advance

    def fail(self: Driver, now: datetime) -> list[Call]:
        if self.run_id == bad:
            raise AssertionError("a fault of ours")
        return advance(self, now)

    async with at_work() as notifier:
        with monkeypatch.context() as patched:
            patched.setattr(Driver, "advance", fail)
            assert (await ended(database, notifier, target.account_id, good)).status == "completed"

            async def is_set_aside() -> bool:
                return (await row_of(database, bad))["setbacks"] is not None

            await until(is_set_aside)
        async with database.connection() as connection:
            await connection.execute("update run_work set available_at = now() where run_id = %s", (bad,))
        assert (await ended(database, notifier, target.account_id, bad)).status == "completed"


@pytest.mark.executions("shift", "workflow")
async def test_a_version_with_whose_runs_our_code_fails_is_set_aside_and_its_other_runs_are_not_tried(
    api: Api, at_work: Work, database: Database, new_target: NewTarget, monkeypatch: pytest.MonkeyPatch,
    carried_by: str,
) -> None:  # fmt: skip
    """Each of very many would fail, be logged and be told of by itself, again and again."""
    target = await new_target([transform("out", "trigger")])
    other = await new_target([transform("out", "'done'")], account_id=target.account_id)
    run_ids = await accept(database, target, 300 if carried_by == "shift" else 40)
    tried: list[UUID] = []
    advance = Driver.advance

    def fail(self: Driver, now: datetime) -> list[Call]:
        if self.run_id in run_ids:
            tried.append(self.run_id)
            raise AssertionError("a fault of ours")
        return advance(self, now)

    async def all_wait() -> bool:
        async with database.connection() as connection:
            cursor = await connection.execute(
                "select count(*)::int as n from run_work where automation_id = %s and status = 'queued'"
                " and available_at > now() + interval '30 seconds'",
                (target.automation_id,),
            )
            return await cursor.fetchone() == {"n": len(run_ids)}

    async with at_work() as notifier:
        with monkeypatch.context() as patched:
            patched.setattr(Driver, "advance", fail)
            await until(all_wait)
            first = len(set(tried))
            # Three, what workflows had by then, and one of each claim that was under way.
            assert first <= 3 + hand_over._PLACES + CLAIMS and await metric(api, ASIDE) == "1.0"
            [done] = await accept(database, other)
            assert (await ended(database, notifier, target.account_id, done)).output == "done"
            await try_again_now(database)
            notifier.notify(QUEUED_CHANNEL)
            await until(all_wait)
            # One that had not failed yet, of each claim that found that it is time to.
            again = len(set(tried))
            assert first < again <= first + CLAIMS
            run_ids += await accept(database, target, 5)
            notifier.notify(QUEUED_CHANNEL)
            await until(all_wait)
            assert len(set(tried)) == again
        await try_again_now(database)
        for run_id in run_ids:
            assert (await ended(database, notifier, target.account_id, run_id)).status == "completed"
    assert await metric(api, ASIDE) == "0.0"


async def test_a_run_whose_data_alone_is_bad_does_not_set_its_version_aside(
    at_work: Work, database: Database, new_target: NewTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even when there are as many as set one aside, and nothing of it goes on between."""
    target = await new_target([transform("out", "trigger")])
    bad = await accept(database, target, 3)
    advance = Driver.advance

    def fail(self: Driver, now: datetime) -> list[Call]:
        if self.run_id in bad:
            raise AssertionError("a fault of ours")
        return advance(self, now)

    monkeypatch.setattr(Driver, "advance", fail)
    async with at_work() as notifier:

        async def is_aside() -> bool:
            async with database.connection() as connection:
                return await setbacks.is_version_aside(connection, target.automation_id, target.version)

        await until(is_aside)
        good = await accept(database, target, 5)
        await try_again_now(database)
        for run_id in good:
            assert (await ended(database, notifier, target.account_id, run_id)).status == "completed"
        assert not await is_aside()


async def test_the_runs_of_a_version_fail_when_two_builds_could_not_read_it_for_a_day(
    at_work: Work, person: Person, database: Database
) -> None:
    workflow = await create(person, steps=[transform("out", "trigger")])
    await define(database, workflow["id"], {"name": "x", "steps": 5})
    run_ids = [await start(person, workflow) for _ in range(2)]
    async with database.connection() as connection:
        await connection.execute(
            "insert into versions_aside (automation_id, version, setbacks, aside_until) values (%s, 1,"
            " json_build_object('since', now() - interval '25 hours', 'times', 30, 'builds', array['a']),"
            " now())",
            (workflow["id"],),
        )
    async with at_work() as notifier:
        for run_id in run_ids:
            view = await ended(database, notifier, person.account.id, run_id)
            assert view.error is not None and view.error["code"] == "engine_error"
