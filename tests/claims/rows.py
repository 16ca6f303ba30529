"""What tests of claims write to rows, and see of those who wait for them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from database import Database
from language.records import StepRecord
from models import gates
from models.automations.run_targets import RunTarget, run_target

NOW = datetime(2026, 1, 1, tzinfo=UTC)


async def limited(database: Database, target: RunTarget, runs: int | None) -> RunTarget:
    """Limit how many runs of a workflow may be under way, as saving it does."""
    async with database.transaction() as connection:
        await connection.execute(
            "update automations set concurrency_limit = %s where id = %s", (runs, target.automation_id)
        )
        await gates.set_limit(connection, target.automation_id, runs)
        return await run_target(connection, target.account_id, target.automation_id)


async def waiting(database: Database, statements: int) -> bool:
    """Return whether so many statements wait for a lock."""
    async with database.connection() as connection:
        cursor = await connection.execute(
            "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
        )
        return cursor.rowcount == statements


def record(run_id: UUID, step_id: str, output: Any = None, **fields: Any) -> StepRecord:
    return StepRecord(
        run_id=run_id, step_id=step_id, position=0, status="completed", output=output, started_at=NOW,
        completed_at=NOW, **fields,
    )  # fmt: skip
