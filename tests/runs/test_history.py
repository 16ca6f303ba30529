"""What is too old is dropped, week by week; what may still be wanted stays."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, LiteralString, NamedTuple
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg.sql import SQL, Identifier
from temporalio.testing import ActivityEnvironment

from activities.maintenance import MaintenanceActivities
from database import Connection, Database
from language.definition import Definition
from models import audit
from models.accounts import accounts
from models.accounts.accounts import NewAccount
from models.audit import Actor
from models.automations import automations, run_targets
from models.automations.run_targets import RunTarget
from models.runs import acceptance, history, run_counts
from models.runs.acceptance import RunRequest
from sealing import Keyring
from settings import Settings
from tests.checked_definitions import checked
from tests.weeks import id_of, make_week, partitions

DAY = timedelta(days=1)
KEPT = 90 * DAY
NOW = datetime.now(UTC)
LONG_AGO = NOW - 200 * DAY
TABLES = ("runs", "run_steps", "run_step_items")
PARTITIONED = (*TABLES, "events", "deliveries", "delivery_attempts")


@pytest.fixture
async def target(database: Database, keyring: Keyring) -> RunTarget:
    """A workflow of a new account."""
    async with database.transaction() as connection:
        email = f"{uuid4().hex}@example.com"
        account = await accounts.create_account(connection, NewAccount(email, "-"))
        actor = Actor(account.id, "system", name="test")
        definition = Definition.model_validate({"name": "test"})
        created = await automations.create(connection, keyring, actor, checked(definition, "active"))
        return await run_targets.run_target(connection, account.id, created)


class Stored(NamedTuple):
    """A run that is stored, and what belongs to it."""

    run_id: UUID
    key: str


async def store(
    connection: Connection, target: RunTarget, accepted: datetime, ended: datetime | None, number: int = 0
) -> Stored:
    """Store a run with a step, an item and a dedupe key; work too, if it has not ended."""
    run_id, key = id_of(accepted, number), f"key-{number}"
    status = "completed" if ended else None
    await connection.execute(
        "insert into runs (id, account_id, automation_id, version, status, trigger, input, input_bytes,"
        " queued_at, completed_at) values (%s, %s, %s, 1, %s, 'manual', '1', 1, %s, %s)",
        (run_id, target.account_id, target.automation_id, status, accepted, ended),
    )
    await connection.execute(
        "insert into run_steps (run_id, step_id, position, status, attempts)"
        " values (%s, 'a', 0, 'completed', 1)",
        (run_id,),
    )
    await connection.execute(
        "insert into run_step_items (run_id, step_id, item, status, attempts)"
        " values (%s, 'a', 0, 'completed', 1)",
        (run_id,),
    )
    await connection.execute(
        "insert into run_dedupe_keys (automation_id, dedupe_key, run_id) values (%s, %s, %s)",
        (target.automation_id, key, run_id),
    )
    await connection.execute(
        "insert into run_search_values (account_id, value, run_id) values (%s, %s, %s)",
        (target.account_id, key, run_id),
    )
    if ended is None:
        await connection.execute(
            "insert into run_work (run_id, account_id, automation_id, version, priority, gate, status, begun,"
            " available_at, bytes, wake_at)"
            " values (%s, %s, %s, 1, %s, %s, 'waiting', true, now(), 1, now() + interval '1 day')",
            (run_id, target.account_id, target.automation_id, target.priority, target.gate),
        )
    else:
        await connection.execute(
            "insert into run_counts (account_id, automation_id, status, runs)"
            " values (%s, %s, 'completed', 1)",
            (target.account_id, target.automation_id),
        )
    return Stored(run_id, key)


COUNTED: dict[str, LiteralString] = {
    "runs": "select count(*) as n from runs where id = any(%s)",
    "steps": "select count(*) as n from run_steps where run_id = any(%s)",
    "items": "select count(*) as n from run_step_items where run_id = any(%s)",
    "keys": "select count(*) as n from run_dedupe_keys where run_id = any(%s)",
    "values": "select count(*) as n from run_search_values where run_id = any(%s)",
}


async def stored(connection: Connection, runs: Sequence[Stored]) -> set[int]:
    """How many of these runs are there, with how many steps, items and keys: one number if all is whole."""
    counts: set[int] = set()
    for query in COUNTED.values():
        cursor = await connection.execute(query, ([run.run_id for run in runs],))
        row: Any = await cursor.fetchone()
        counts.add(row["n"])
    return counts


async def test_a_week_whose_runs_all_ended_long_ago_is_dropped(database: Database, target: RunTarget) -> None:
    async with database.connection() as connection:
        suffix = await make_week(connection, TABLES, LONG_AGO)
        runs = [await store(connection, target, LONG_AGO, LONG_AGO + DAY, number) for number in range(3)]
        assert await stored(connection, runs) == {3}
        assert await history.drop_old(connection, KEPT) == 1
        assert (await stored(connection, runs), await partitions(connection, TABLES, suffix)) == ({0}, 0)


async def test_the_total_of_a_list_knows_of_what_was_dropped(database: Database, target: RunTarget) -> None:
    async def total() -> int:
        return await run_counts.count(connection, target.account_id, automation_id=None, status="completed")

    async with database.connection() as connection:
        await make_week(connection, TABLES, LONG_AGO)
        await store(connection, target, LONG_AGO, LONG_AGO + DAY)
        assert await total() == 1
        await history.drop_old(connection, KEPT)
        assert await total() == 0


@pytest.mark.parametrize("ended", [None, NOW - DAY], ids=["has not ended", "ended yesterday"])
async def test_of_a_week_with_a_run_that_is_wanted_only_the_others_go(
    database: Database, target: RunTarget, ended: datetime | None
) -> None:
    async with database.connection() as connection:
        suffix = await make_week(connection, TABLES, LONG_AGO)
        wanted = await store(connection, target, LONG_AGO, ended, 1)
        others = [await store(connection, target, LONG_AGO, LONG_AGO + DAY, number) for number in (2, 3)]
        assert await history.drop_old(connection, KEPT) == 0
        assert (await stored(connection, [wanted]), await stored(connection, others)) == ({1}, {0})
        await connection.execute("delete from run_work")
        await connection.execute(
            "update runs set status = 'completed', completed_at = %s where id = %s",
            (LONG_AGO, wanted.run_id),
        )
        assert await history.drop_old(connection, KEPT) == 1
        assert await partitions(connection, TABLES, suffix) == 0


async def test_a_run_that_is_wanted_keeps_its_key_when_a_later_week_goes(
    database: Database, target: RunTarget
) -> None:
    later = LONG_AGO + 7 * DAY
    async with database.connection() as connection:
        await make_week(connection, TABLES, LONG_AGO)
        await make_week(connection, TABLES, later)
        wanted = await store(connection, target, LONG_AGO, NOW - DAY, 1)
        gone = await store(connection, target, later, later, 2)
        assert await history.drop_old(connection, KEPT) == 1
        assert (await stored(connection, [wanted]), await stored(connection, [gone])) == ({1}, {0})
        await history.drop_old(connection, DAY / 2)


async def test_what_is_not_old_enough_stays(database: Database, target: RunTarget) -> None:
    accepted = NOW - KEPT + 8 * DAY
    async with database.connection() as connection:
        suffix = await make_week(connection, TABLES, accepted)
        run = await store(connection, target, accepted, accepted)
        assert await history.drop_old(connection, KEPT) == 0
        assert (await stored(connection, [run]), await partitions(connection, TABLES, suffix)) == ({1}, 3)
        await connection.execute("delete from runs where id = %s", (run.run_id,))
        await history.drop_old(connection, DAY)


BROKEN_OFF: dict[str, tuple[LiteralString, ...]] = {
    "when the items had gone": ("run_step_items",),
    "when all had gone": TABLES,
}


@pytest.mark.parametrize("detached", BROKEN_OFF)
async def test_a_call_that_was_broken_off_is_ended_by_the_next(
    database: Database, target: RunTarget, detached: str
) -> None:
    async with database.connection() as connection:
        suffix = await make_week(connection, TABLES, LONG_AGO)
        run = await store(connection, target, LONG_AGO, LONG_AGO)
        for table in BROKEN_OFF[detached]:
            await connection.execute(
                SQL("alter table {} detach partition {}").format(
                    Identifier(table), Identifier(table + suffix)
                )
            )
        await connection.execute("delete from run_dedupe_keys where run_id = %s", (run.run_id,))
        await connection.execute("delete from run_search_values where run_id = %s", (run.run_id,))
        assert await history.drop_old(connection, KEPT) == 1
        assert (await stored(connection, [run]), await partitions(connection, TABLES, suffix)) == ({0}, 0)


async def test_who_reads_an_old_week_holds_up_only_its_end(database: Database, target: RunTarget) -> None:
    async with database.connection() as connection:
        suffix = await make_week(connection, TABLES, LONG_AGO)
        run = await store(connection, target, LONG_AGO, LONG_AGO)
        async with await database.connect_dedicated() as dump, dump.transaction():
            await dump.execute("select count(*) from runs")
            async with await database.connect_dedicated(
                parameters={"statement_timeout": "200ms"}
            ) as impatient:
                with pytest.raises(psycopg.errors.QueryCanceled):
                    await history.drop_old(impatient, KEPT)
            await acceptance.accept(connection, [RunRequest(target, "manual", 1)])
        assert await partitions(connection, TABLES, suffix) == 3
        assert await history.drop_old(connection, KEPT) == 1
        assert (await stored(connection, [run]), await partitions(connection, TABLES, suffix)) == ({0}, 0)


async def test_a_month_of_weeks_stands_ready(database: Database, settings: Settings) -> None:
    async with database.connection() as connection:
        cursor = await connection.execute(
            "select name from history_partitions where parent = 'runs' order by upper_id desc limit 1"
        )
        row: Any = await cursor.fetchone()
        for table in TABLES:
            newest = Identifier(row["name"].replace("runs", table, 1))
            await connection.execute(SQL("drop table {}").format(newest))
    await ActivityEnvironment().run(MaintenanceActivities(settings, database).maintain_partitions)
    async with database.connection() as connection:
        cursor = await connection.execute(
            "select parent, max(name) as newest,"
            " bool_or(upper_id > first_id(now() + interval '30 days')) as far from history_partitions"
            " group by parent order by parent"
        )
        found = [(one["parent"], one["newest"], one["far"]) for one in await cursor.fetchall()]
    suffix = row["name"].removeprefix("runs")
    assert found == [(table, table + suffix, True) for table in sorted(PARTITIONED)]


async def test_what_the_audit_log_tells_of_old_runs_goes_with_them(
    database: Database, settings: Settings, target: RunTarget
) -> None:
    async with database.connection() as connection:
        for number, (action, at) in enumerate(
            [("run.started", LONG_AGO), ("workflow.updated", LONG_AGO), ("run.started", NOW - 80 * DAY)]
        ):
            await connection.execute(
                "insert into audit_log (id, account_id, actor_kind, actor_name, action, target_kind,"
                " created_at) values (%s, %s, 'system', 'system', %s, 'workflow', %s)",
                (id_of(at, number), target.account_id, action, at),
            )
    await ActivityEnvironment().run(MaintenanceActivities(settings, database).maintain_partitions)
    async with database.connection() as connection:
        entries = await audit.list_entries(connection, target.account_id, target_kind="workflow")
    assert [entry.action for entry in entries] == ["workflow.created", "run.started", "workflow.updated"]


async def test_a_run_whose_id_is_of_another_day_is_refused(database: Database, target: RunTarget) -> None:
    event = RunRequest(target, "manual", 1, run_id=id_of(NOW + 2 * DAY))
    async with database.connection() as connection:
        with pytest.raises(psycopg.errors.CheckViolation, match="id_time"):
            await acceptance.accept(connection, [event])
