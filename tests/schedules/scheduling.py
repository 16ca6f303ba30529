"""Workflows with schedules: made and changed as the API does, and what became of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, LiteralString
from uuid import UUID

from temporalio.client import Client, ScheduleDescription
from temporalio.service import RPCError, RPCStatusCode

from database import Database
from language.definition import Definition, Status
from models.audit import Actor
from models.automations import automations
from models.automations.automations import Edit
from models.automations.definitions import CheckedDefinition, DataReads
from models.runs import schedule_triggers
from models.runs.acceptance import RunAcceptance
from models.runs.run_views import RunView
from sealing import Keyring
from tests.automations.engine import until
from tests.checked_definitions import checked
from tests.views import get_run

HOURLY = {"every": {"hours": 1}}


@dataclass
class Scheduler:
    """An account with workflows."""

    database: Database
    keyring: Keyring
    account_id: UUID
    versions: dict[UUID, int] = field(default_factory=dict[UUID, int])

    @property
    def actor(self) -> Actor:
        return Actor(self.account_id, "system", name="test")

    async def workflow(
        self, schedule: Any = HOURLY, *, status: Status = "active", more: Any = None, **trigger: Any
    ) -> UUID:
        """Make a workflow with a schedule."""
        definition = _definition(schedule, trigger, more or {})
        async with self.database.transaction() as connection:
            created = await automations.create(
                connection, self.keyring, self.actor, checked(definition, status)
            )
        self.versions[created] = 1
        return created

    async def change(
        self, automation_id: UUID, schedule: Any = HOURLY, *, status: Status = "active", **trigger: Any
    ) -> None:
        """Store a new version."""
        version = self.versions[automation_id]
        nothing = DataReads([], request=False, resume_urls=False)
        changed = CheckedDefinition(_definition(schedule, trigger, {}), status, nothing)
        async with self.database.transaction() as connection:
            assert await automations.replace(
                connection, self.actor, automation_id, version, changed, Edit("test", {})
            )
        self.versions[automation_id] = version + 1

    async def delete(self, automation_id: UUID) -> None:
        async with self.database.transaction() as connection:
            await automations.delete(connection, self.actor, automation_id)

    async def accept_due(self, automation_id: UUID, come: datetime | None = None) -> RunAcceptance | None:
        async with self.database.transaction() as connection:
            return await schedule_triggers.accept_due(connection, automation_id, come)

    async def rows(self, query: LiteralString, *values: Any) -> list[dict[str, Any]]:
        async with self.database.connection() as connection:
            cursor = await connection.execute(query, values)
            return await cursor.fetchall() if cursor.description else []

    async def row(self, automation_id: UUID) -> dict[str, Any]:
        """Return when a workflow is due."""
        [found] = await self.rows(
            "select * from automation_schedules where automation_id = %s", automation_id
        )
        return found

    async def due(self, automation_id: UUID) -> datetime:
        at = (await self.row(automation_id))["next_run_at"]
        assert at is not None
        return at

    async def move(self, automation_id: UUID, by: Any) -> None:
        """Have all of its schedule lie elsewhere in time, as if it had begun then."""
        await self.rows(
            "update automation_schedules set anchor = anchor + %s, next_run_at = next_run_at + %s"
            " where automation_id = %s",
            by,
            by,
            automation_id,
        )

    async def let_be_due(self, automation_id: UUID, at: datetime) -> None:
        """Have it be due at a moment that is none of its calendar."""
        await self.rows(
            "update automation_schedules set next_run_at = date_trunc('second', %s::timestamptz)"
            " where automation_id = %s",
            at,
            automation_id,
        )

    async def runs(self, automation_id: UUID) -> list[RunView]:
        """Its runs, oldest first."""
        found = await self.rows("select id from runs where automation_id = %s order by id", automation_id)
        async with self.database.connection() as connection:
            return [await get_run(connection, self.account_id, row["id"]) for row in found]


def _definition(schedule: Any, trigger: dict[str, Any], more: dict[str, Any]) -> Definition:
    given = {"type": "schedule", "schedule": schedule, **trigger} if schedule else {"type": "manual"}
    return Definition.model_validate({"name": "test", "trigger": given, **more})


async def schedule(client: Client, automation_id: UUID) -> ScheduleDescription | None:
    try:
        return await client.get_schedule_handle(f"workflow/{automation_id}").describe()
    except RPCError as error:
        assert error.status is RPCStatusCode.NOT_FOUND
        return None


async def scheduled(client: Client, scheduler: Scheduler, automation_id: UUID) -> ScheduleDescription:
    """The Schedule, once it says what the row says."""

    async def look() -> ScheduleDescription | None:
        due, found = (
            (await scheduler.row(automation_id))["next_run_at"],
            await schedule(client, automation_id),
        )
        if found is None:
            return None
        if due is None:
            return found if found.schedule.state.paused else None
        return found if found.info.next_action_times == [due] else None

    return await until(look)


async def completed(scheduler: Scheduler, automation_id: UUID, count: int = 1) -> list[RunView]:
    """Its runs, once so many have completed."""

    async def look() -> list[RunView] | None:
        runs = await scheduler.runs(automation_id)
        return runs if [run.status for run in runs].count("completed") >= count else None

    return await until(look)
