"""`TopUp`: one automatic top-up of an account, `topup/<account>/<n>`."""

from __future__ import annotations

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from workflows import policies


@workflow.defn
class TopUp:
    """Has the top-up billed and booked. Its id is its reference, so that no two run at the same time."""

    @workflow.run
    async def run(self, reference: str) -> str:
        """Execute the top-up; return `added`, `declined` or `not_due`."""
        return await workflow.execute_activity(
            "top_up",
            reference,
            result_type=str,
            start_to_close_timeout=policies.SHORT,
            schedule_to_close_timeout=policies.A_DAY,
            retry_policy=policies.LOST_WORKER,
            summary=reference,
        )
