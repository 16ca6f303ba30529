"""What becomes of runs that have not ended when batches and lanes make way for shifts, and the way back."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any, LiteralString, NamedTuple
from uuid import UUID

import pytest
from psycopg.types.json import Json

from database import Database
from migrations.upgrade import downgrade, upgrade
from models import gates
from models.automations.run_targets import RunTarget
from models.identifiers import new_id
from models.priorities import ALONE, BULK, INTERACTIVE, WAITED
from models.runs import run_starts
from models.runs.runs import QUEUED_CHANNEL
from tests.automations.claims import claim as claim_some
from tests.automations.claims import claimed, let_pass, new_shift, runs_of
from tests.automations.engine import Endpoint, NewTarget, Work, accept, ended, transform, waiting, webhook

EXECUTION = "shift"
BEFORE = "0035"
ANSWERED = {"status": 200, "headers": {}, "body": None}
SETBACKS = {"since": "2026-01-01T00:00:00+00:00", "times": 3, "builds": ["old"]}
UNTIL = datetime(2036, 1, 1, tzinfo=UTC)


class Former(NamedTuple):
    """Runs of the revision before, by the state that they are in there, and their workflows."""

    targets: dict[str, RunTarget]
    ids: dict[str, UUID]


async def execute(database: Database, query: LiteralString, *values: Any) -> list[dict[str, Any]]:
    async with database.connection() as connection:
        cursor = await connection.execute(query, values)
        return await cursor.fetchall() if cursor.description else []


_BATCH: LiteralString = """
insert into batches (id, account_id, lane_id, executor, beat_at, runs, trigger, parked)
select %s, account_id, lane_id, gen_random_uuid(), now(), 1, 'manual', %s from run_work where run_id = %s
"""


async def put_in_batch(database: Database, run_id: UUID, *, parked: bool) -> None:
    """Have a run in a batch: at work, or in one whose workflow has its timer."""
    batch_id = new_id()
    await execute(database, _BATCH, batch_id, parked, run_id)
    status = "waiting" if parked else "running"
    await execute(
        database,
        "update run_work set status = %s, begun = true, started_at = now(), batch_id = %s, wake_at = %s"
        " where run_id = %s",
        status,
        batch_id,
        UNTIL if parked else None,
        run_id,
    )


async def made(database: Database, new_target: NewTarget, receiver: Endpoint, at_work: Work) -> Former:
    """Runs in every state, in a database of the revision before."""
    steps = [webhook(f"{receiver.url}/one", "one"), webhook(f"{receiver.url}/two", "two")]
    plain = await new_target(steps)
    naps = await new_target([{"id": "nap", "type": "delay", "config": {"days": 30}}, *steps])
    limited = await new_target([transform("end", "'done'")], concurrency={"limit": 1})
    aside, unlimited = [await new_target([transform("end", "'done'")]) for _ in range(2)]
    targets = {"waiting": naps, "held": limited, "under way": limited, "aside": aside, "freed": unlimited}
    ids: dict[str, UUID] = {}
    async with at_work() as notifier:
        [ids["waiting"]] = await accept(database, naps)
        notifier.notify(QUEUED_CHANNEL)
        await waiting(database, naps.account_id, ids["waiting"])
    for name in ("under way", "held", "aside", "freed", "queued", "running", "lost"):
        targets.setdefault(name, plain)
        [ids[name]] = await accept(database, targets[name])
    await asyncio.to_thread(downgrade, database.url, BEFORE)
    for name in ("under way", "running"):
        await put_in_batch(database, ids[name], parked=False)
    await put_in_batch(database, ids["waiting"], parked=True)
    await execute(
        database,
        "insert into run_steps (run_id, step_id, position, status, output, attempts, started_at,"
        " completed_at) values (%s, 'one', 0, 'completed', %s, 1, now(), now())",
        ids["running"],
        Json(ANSWERED),
    )
    await execute(database, "update run_work set lost = 2, begun = true where run_id = %s", ids["lost"])
    held = [ids["held"], ids["freed"]]
    await execute(database, "update run_work set held = true where run_id = any(%s)", held)
    await execute(
        database,
        "update lanes set aside_until = %s, setbacks = %s, served_at = now(), runs_total = 7"
        " where automation_id = %s and priority = 2",
        UNTIL,
        Json(SETBACKS),
        aside.automation_id,
    )
    return Former(targets, ids)


@pytest.mark.usefixtures("short_periods")
async def test_runs_in_every_state_go_on_under_shifts(
    database: Database, new_target: NewTarget, receiver: Endpoint, at_work: Work
) -> None:
    former = await made(database, new_target, receiver, at_work)
    await asyncio.to_thread(upgrade, database.url)
    names = {run_id: name for name, run_id in former.ids.items()}
    work = {names[row["run_id"]]: row for row in await execute(database, "select * from run_work")}
    assert {name: (row["status"], row["begun"], row["held"]) for name, row in work.items()} == {
        "queued": ("queued", False, False), "running": ("queued", True, False),
        "under way": ("queued", True, False), "waiting": ("waiting", True, False),
        "held": ("queued", False, True), "freed": ("queued", False, False),
        "aside": ("queued", False, False), "lost": ("queued", True, False),
    }  # fmt: skip
    for name, row in work.items():
        assert (row["carrier"], row["claim_id"], row["version"], row["own"]) == (None, None, 1, False)
        assert row["priority"] == INTERACTIVE + (ALONE if name == "lost" else 0)
        limited = name in ("under way", "held")
        assert row["gate"] == (former.targets[name].automation_id if limited else gates.NONE)
        assert row["wake_at"] == (UNTIL if name == "waiting" else None)
    assert await execute(database, "select lim, begun from gates") == [{"lim": 1, "begun": 1}]
    [aside] = await execute(database, "select * from versions_aside")
    automation_id = former.targets["aside"].automation_id
    assert aside == {
        "automation_id": automation_id, "version": 1, "setbacks": SETBACKS, "aside_until": UNTIL,
    }  # fmt: skip
    await execute(
        database, "update run_work set wake_at = now() + interval '30 days' where wake_at = %s", UNTIL
    )
    await let_pass(database, former.ids["waiting"], timedelta(days=31))
    async with at_work() as notifier:
        for name, run_id in former.ids.items():
            view = await ended(database, notifier, former.targets[name].account_id, run_id)
            assert view.status == "completed", name
    # What was recorded before was not done again.
    assert sorted(receiver.paths) == ["/one"] * 3 + ["/two"] * 4
    async with database.connection() as connection:
        await run_starts.add(connection, {automation_id: 1})
    found = await execute(database, "select runs from run_starts where automation_id = %s", automation_id)
    assert found[0]["runs"] >= 8


async def test_on_the_way_back_nothing_is_lost_and_on_the_way_there_again_neither(
    database: Database, new_target: NewTarget, receiver: Endpoint, at_work: Work
) -> None:
    await execute(database, "delete from run_work")
    target = await new_target([transform("end", "'done'")])
    ids = dict(
        zip(("running", "waiting", "waited for", "bulk"), await accept(database, target, 4), strict=True)
    )
    shift_id = await new_shift(database)
    assert len(await claimed(database, shift_id)) == 4
    change = "update run_work set status = %s, carrier = %s, wake_at = %s, priority = %s where run_id = %s"
    await execute(database, change, "running", shift_id, None, INTERACTIVE, ids["running"])
    await execute(database, change, "waiting", None, UNTIL, INTERACTIVE, ids["waiting"])
    await execute(database, change, "queued", None, None, WAITED, ids["waited for"])
    await execute(database, change, "queued", None, None, BULK + ALONE, ids["bulk"])
    await asyncio.to_thread(downgrade, database.url, BEFORE)
    found = await execute(
        database,
        "select w.run_id, w.status, w.wake_at, l.version, l.priority, l.automation_id from run_work w"
        " join lanes l on l.id = w.lane_id",
    )
    assert {row["run_id"]: row["priority"] for row in found} == {
        ids["running"]: 2, ids["waiting"]: 2, ids["waited for"]: 2, ids["bulk"]: 4,
    }  # fmt: skip
    for row in found:
        assert (row["status"], row["wake_at"], row["version"]) == ("queued", None, 1)
        assert row["automation_id"] == target.automation_id
    await asyncio.to_thread(upgrade, database.url)
    again = await claim_some(database)
    assert not isinstance(again, bool)
    assert {run.run_id for run in runs_of(again)} == set(ids.values())
