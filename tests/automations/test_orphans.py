"""Runs that their shift has and nobody takes forward: a claim whose reply was lost, a beat that came late."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from temporalio.client import Client

from activities import own_runs
from database import Database
from execution import shift
from execution.hand_over import OwnPlaces
from models.runs import run_work, setbacks
from models.runs.own_runs import OwnRow
from models.runs.runs import QUEUED_CHANNEL
from tests.automations.engine import (
    Endpoint,
    NewTarget,
    Work,
    accept,
    ended,
    failed_tasks,
    requested,
    run_workflow,
    seen,
    transform,
    webhook,
)

EXECUTION = "shift"


@pytest.mark.usefixtures("nothing_waits")
async def test_a_run_goes_on_whose_next_call_came_before_a_late_beat(
    at_work: Work,
    database: Database,
    new_target: NewTarget,
    receiver: Endpoint,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As when Postgres, or the process, stood still for nine seconds: nobody has ended the shift."""
    target = await new_target([webhook(f"{receiver.url}/held"), webhook(f"{receiver.url}/next", "next")])
    [run_id] = await accept(database, target)
    async with at_work() as notifier:
        notifier.notify(QUEUED_CHANNEL)
        await requested(receiver, 1)
        real = shift.now
        with monkeypatch.context() as late:
            late.setattr(shift, "now", lambda: real() + 9)
            receiver.open.set()
            await seen(
                database, target.account_id, run_id, lambda view: view.steps[0].status == "completed", 10
            )
        view = await ended(database, notifier, target.account_id, run_id, 15)
    assert view.status == "completed" and receiver.paths == ["/held", "/next"]


@pytest.mark.long
@pytest.mark.usefixtures("nothing_waits")
async def test_a_claim_whose_reply_is_lost_is_made_again(
    at_work: Work, database: Database, new_target: NewTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when a connection breaks, or Postgres crashes just after the claim was on disk."""
    claim, lost = run_work.claim, list[Any]()

    async def deaf(*given: Any, **more: Any) -> Any:
        claimed = await claim(*given, **more)
        if isinstance(claimed, run_work.Claim) and not lost:
            lost.append(claimed)
            raise psycopg.OperationalError("the connection was lost")
        return claimed

    monkeypatch.setattr(run_work, "claim", deaf)
    target = await new_target([transform("end", "'done'")])
    async with at_work() as notifier:
        [run_id] = await accept(database, target)
        view = await ended(database, notifier, target.account_id, run_id, 20)
    assert lost and view.output == "done"


@pytest.mark.executions("workflow")
@pytest.mark.usefixtures("nothing_waits")
async def test_a_workflow_that_says_shift_needs_no_place(
    at_work: Work, database: Database, new_target: NewTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the installation says `workflow`, and Temporal is away."""
    monkeypatch.setattr(OwnPlaces, "room", property(lambda _: 0))
    target = await new_target([transform("end", "'done'")], execution="shift")
    async with at_work() as notifier:
        [run_id] = await accept(database, target)
        assert (await ended(database, notifier, target.account_id, run_id, 10)).output == "done"


@pytest.mark.executions("workflow")
@pytest.mark.usefixtures("nothing_waits")
async def test_a_child_that_is_given_up_wakes_its_parent(
    at_work: Work, database: Database, new_target: NewTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = await new_target([transform("end", "'done'")])
    step = {"id": "child", "type": "workflow", "config": {"workflow_id": str(child.automation_id)}}
    parent = await new_target([step], account_id=child.account_id)
    prepare = own_runs.OwnExecution

    def fails(row: OwnRow, *given: Any) -> Any:
        if row.of.automation_id == child.automation_id:
            raise KeyError("a fault of ours")
        return prepare(row, *given)

    monkeypatch.setattr(own_runs, "OwnExecution", fails)
    monkeypatch.setattr(setbacks, "_is_hopeless", lambda _: True)
    [run_id] = await accept(database, parent)
    async with at_work() as notifier:
        view = await ended(database, notifier, parent.account_id, run_id, 10)
    assert view.error is not None and view.error["code"] == "child_failed"


@pytest.mark.executions("workflow")
@pytest.mark.usefixtures("nothing_waits")
async def test_a_run_that_comes_back_to_its_workflow_at_once_fails_no_task_of_it(
    at_work: Work, client: Client, database: Database, new_target: NewTarget, receiver: Endpoint
) -> None:
    """The activity that was broken off is open until its worker hears so, under the name of the next."""
    target = await new_target([webhook(f"{receiver.url}/held", timeout=60)])
    [run_id] = await accept(database, target)
    async with at_work() as notifier:
        notifier.notify(QUEUED_CHANNEL)
        await requested(receiver, 1)
        async with database.connection() as connection:
            await connection.execute(
                "update run_work set status = 'queued', carrier = null, claim_id = null,"
                " available_at = now() + interval '0.4 seconds' where run_id = %s",
                (run_id,),
            )
        handle = await run_workflow(client, run_id)
        await handle.signal("look")
        await requested(receiver, 2)
        receiver.open.set()
        assert (await ended(database, notifier, target.account_id, run_id)).status == "completed"
        assert not await failed_tasks(handle)
