"""`Maintenance`: the regular chores, each started by its own Schedule."""

from __future__ import annotations

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from workflows import policies


@workflow.defn
class Maintenance:
    """Executes one chore: the activity of that name. A failure is retried, then left to the next time."""

    @workflow.run
    async def run(self, task: str) -> None:
        """Execute the chore `task`."""
        await workflow.execute_activity(
            task,
            start_to_close_timeout=policies.CHORE,
            schedule_to_close_timeout=policies.CHORE * 3,
            heartbeat_timeout=policies.HEARTBEAT,
            retry_policy=policies.CHORE_RETRY,
            summary=task,
        )
