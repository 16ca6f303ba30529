"""Long waits of runs that shifts carry are given to Temporal: a few a second, and not too many at a time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest
from temporalio.client import Client

from database import Database
from execution import long_waits, workflow_watch
from execution.long_waits import WaitGiver
from models.automations.run_targets import RunTarget
from models.identifiers import new_id
from models.runs import own_runs
from models.runs.workers import count_alive, find_alive, sign_in
from notifications import Notifier
from sealing import Keyring
from settings import Settings
from tests.api_server import Api, Person
from tests.automations.claims import claimed
from tests.automations.engine import (
    Endpoint,
    NewTarget,
    Work,
    accept,
    ended,
    events_of,
    run_workflow,
    transform,
    until,
    working,
)
from tests.automations.own_runs import approval, performers, summary_of
from tests.automations.workflows import create, post

EXECUTION = "shift"

pytestmark = pytest.mark.usefixtures("nothing_waits")

Give = Callable[..., WaitGiver]


@pytest.fixture
def giver(database: Database, client: Client) -> Give:
    """Gives waits as often as one asks."""

    def make(most: int = 1000) -> WaitGiver:
        made = WaitGiver(database, client, "auto", most)
        made._next_at = 0.0
        return made

    return make


async def give(giver: WaitGiver, times: int = 1) -> int:
    given = 0
    for _ in range(times):
        giver._next_at = 0.0
        given += await giver.give()
    return given


async def waits(database: Database, target: RunTarget, due: list[datetime]) -> list[UUID]:
    """Runs that a shift has parked, due at these times."""
    run_ids = await accept(database, target, len(due))
    async with database.connection() as connection:
        await connection.execute(
            "update run_work w set status = 'waiting', begun = true, wake_at = n.due,"
            " started_at = now() from unnest(%s::uuid[], %s::timestamptz[]) as n (run_id, due)"
            " where w.run_id = n.run_id",
            (run_ids, due),
        )
    return run_ids


async def in_workflows(database: Database) -> set[UUID]:
    async with database.connection() as connection:
        return {seen.run_id for seen in await own_runs.find_all(connection, UUID(int=0), 1000)}


@pytest.mark.usefixtures("quick_watch")
async def test_a_long_wait_is_given_and_seen_and_its_run_goes_on(
    api: Api, person: Person, at_work: Work, client: Client, database: Database, giver: Give
) -> None:
    """Of `execution: auto`; here by an answer that comes, while the workflow has its timer."""
    made = await create(person, steps=[approval(3600), transform("end", "approval.body")], execution="auto")
    async with at_work() as notifier:
        # Somebody waits for its answer, so it goes by shift.
        posted = await post(api, made["webhook_url"] + "?wait=1", json={})
        run_id = UUID(posted.json()["run_id"])

        async def view() -> dict[str, object] | None:
            found = (await person.key.get(f"/api/workflows/runs/{run_id}")).json()
            return found if found["status"] == "waiting" else None

        urls = (await until(view))["resume_urls"]
        handle = await run_workflow(client, run_id)
        [timer] = await until(lambda: events_of(handle, "timer_started"))
        assert summary_of(timer).startswith("approval: until 20")
        assert (await post(api, urls["approval"], json="yes")).status_code == 202
        view = await ended(database, notifier, person.account.id, run_id)
        assert (view.status, view.output) == ("completed", "yes")
        # Whoever compares rows and workflows tells it, but for `quick_watch` only after 20 seconds.
        assert await handle.result() in ("by_shift", "completed")
    assert await performers(database, run_id) == {"approval": "shift", "end": "shift"}


async def test_a_few_are_given_a_second_those_first_that_are_due_first(
    database: Database, new_target: NewTarget, giver: Give
) -> None:
    now = datetime.now(UTC)
    due = [now + timedelta(minutes=minutes) for minutes in (50, 10, 40, 20, 30, 0.5)]
    run_ids = await waits(database, await new_target([approval()]), due)
    some = giver()
    assert await give(some) == long_waits._A_SECOND
    assert await in_workflows(database) == {run_ids[1], run_ids[3], run_ids[4]}
    assert await some.give() == 0, "the second has not passed"
    assert await give(some, 3) == 2
    # One that is due within a minute stays where it is.
    assert await in_workflows(database) == set(run_ids[:5])


async def test_not_more_are_given_than_may_be_in_temporal(
    database: Database, new_target: NewTarget, giver: Give
) -> None:
    now = datetime.now(UTC)
    await waits(
        database, await new_target([approval()]), [now + timedelta(minutes=10 + one) for one in range(9)]
    )
    assert await give(giver(5), 6) == 5
    assert len(await in_workflows(database)) == 5


async def test_of_those_that_are_due_together_some_stay_and_others_are_given(
    database: Database, new_target: NewTarget, giver: Give, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(long_waits, "_IN_A_SLOT", 4)
    moment = datetime.fromtimestamp(datetime.now(UTC).timestamp() // 10 * 10 + 600, UTC)
    together = [moment + timedelta(milliseconds=one) for one in range(300)]
    target = await new_target([approval()])
    await waits(database, target, together)
    [later] = await waits(database, target, [moment + timedelta(seconds=60)])
    assert await give(giver(), 6) == 5
    assert later in await in_workflows(database)


async def test_what_goes_by_shift_only_is_not_given(
    database: Database, new_target: NewTarget, giver: Give
) -> None:
    target = await new_target([approval()], execution="shift")
    await waits(database, target, [datetime.now(UTC) + timedelta(hours=1)])
    assert await give(giver(), 3) == 0


async def test_a_wait_whose_workflow_cannot_be_started_stays_where_it_was(
    database: Database, new_target: NewTarget
) -> None:
    [run_id] = await waits(database, await new_target([approval()]), [datetime.now(UTC) + timedelta(hours=1)])
    away = await Client.connect("127.0.0.1:1", lazy=True)
    assert await give(WaitGiver(database, away, "auto", 10)) == 0
    assert await in_workflows(database) == set()
    async with database.connection() as connection:
        assert await own_runs.give_wait(connection, run_id) is not None, "it still waits"


async def test_a_workflow_that_was_terminated_before_a_claim_says_nothing_of_it(
    at_work: Work, client: Client, database: Database, new_target: NewTarget, receiver: Endpoint
) -> None:
    """As of a run that somebody gives to a workflow just now: the one before was terminated."""
    target = await new_target([approval(3600)])
    [run_id] = await waits(database, target, [datetime.now(UTC) + timedelta(hours=1)])
    former = await client.start_workflow(
        "AutomationRun", {"run_id": run_id, "claim_id": uuid4()}, id=f"run/{run_id}", task_queue="nobody's"
    )
    await former.terminate()
    async with database.connection() as connection:
        assert await own_runs.give_wait(connection, run_id)
        [seen] = await own_runs.find_all(connection, UUID(int=0), 10)
    watch = workflow_watch.WorkflowWatch(database, client, Notifier(database))
    await watch.compare()
    assert await in_workflows(database) == {run_id}
    last = await client.start_workflow(
        "AutomationRun",
        {"run_id": run_id, "claim_id": seen.claim_id},
        id=f"run/{run_id}",
        task_queue="nobody's",
    )
    await last.terminate()
    await watch.compare()
    assert await in_workflows(database) == set()


@pytest.mark.usefixtures("nothing_waits")
async def test_a_run_that_is_just_being_handed_over_is_not_taken_for_one_whose_workflow_is_gone(
    client: Client, database: Database, new_target: NewTarget
) -> None:
    """It may have waited long for a place, so that it looks old."""
    [run_id] = await accept(database, await new_target())
    async with database.connection() as connection:
        await connection.execute(
            "update run_work set available_at = now() - interval '2 minutes' where run_id = %s", (run_id,)
        )
    [run] = await claimed(database)
    async with database.connection() as connection:
        await own_runs.hand_over(connection, {run_id: run.claim_id})
    await workflow_watch.WorkflowWatch(database, client, Notifier(database)).compare()
    async with database.connection() as connection:
        assert await own_runs.find_at_work(connection, [run_id]) == {run_id}


async def test_waits_are_given_though_the_first_worker_does_not_reach_temporal(
    open_settings: Settings, client: Client, database: Database, keyring: Keyring, new_target: NewTarget
) -> None:
    target = await new_target([approval(3600)], execution="auto")
    async with database.connection() as connection:
        await connection.execute("delete from workers")
    away = await Client.connect("127.0.0.1:1", lazy=True)
    async with working(open_settings, away, database, keyring):
        await until(lambda: are_alive(database, 1))
        async with working(open_settings, client, database, keyring):
            await until(lambda: are_alive(database, 2))
            [run_id] = await waits(database, target, [datetime.now(UTC) + timedelta(hours=1)])
            assert await until(lambda: in_workflows(database)) == {run_id}


async def are_alive(database: Database, workers: int) -> bool:
    async with database.connection() as connection:
        return await count_alive(connection) == workers


async def test_the_first_worker_that_reaches_temporal_leads(database: Database) -> None:
    first, second, third = [new_id() for _ in range(3)]
    async with database.connection() as connection:
        await connection.execute("delete from workers")
        for worker_id in (third, second, first):
            await sign_in(connection, worker_id, reaches_temporal=worker_id != first)
        found = [await find_alive(connection, worker_id) for worker_id in (first, second, third)]
        assert [one.is_first for one in found] == [True, False, False]
        assert [one.leads for one in found] == [False, True, False]
        for worker_id in (second, third):
            await sign_in(connection, worker_id)
        assert await find_alive(connection, second) == (3, False, False)
