"""`ScheduledTrigger`: a workflow with a schedule is due. Results are read from Postgres."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from workflows import policies
    from workflows.messages import ACCEPT_SCHEDULED_RUN, SCHEDULED_TRIGGER


@workflow.defn(name=SCHEDULED_TRIGGER)
class ScheduledTrigger:
    """Accepts the run of a workflow when its Schedule is due."""

    @workflow.run
    async def run(self, automation_id: UUID, moment: datetime) -> None:
        """Accept the run, even after a long outage of the database."""
        await workflow.execute_activity(ACCEPT_SCHEDULED_RUN, args=[automation_id, moment], **policies.QUICK)
