"""`MonitorRun` and `ScheduledMonitor`: what a monitor does, and when. What it finds is told by rows."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from workflows import policies
    from workflows.messages import (
        ACCEPT_DUE_RUN,
        FINISH_MONITOR_RUN,
        MONITOR_RUN,
        SCHEDULED_MONITOR,
        WATCH_TARGETS,
        MonitorRunInput,
    )

_CHUNKS_AT_ONCE = 4


@workflow.defn(name=MONITOR_RUN)
class MonitorRun:
    """Works through the chunks of a run, a few side by side, then ends it."""

    @workflow.run
    async def run(self, given: MonitorRunInput) -> None:
        """Do so, or stop when the run turns out to be over."""
        under_way: list[asyncio.Task[bool]] = []
        for number in range(given.first, given.chunks):
            if len(under_way) == _CHUNKS_AT_ONCE:
                done, under_way = await workflow.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
                if not all(chunk.result() for chunk in done):
                    break
            if workflow.info().is_continue_as_new_suggested():
                await asyncio.gather(*under_way)
                workflow.continue_as_new(replace(given, first=number))
            # Each run begins elsewhere: what sources allow for a day does not always go to the same targets.
            chunk = (number + given.run_id.int) % given.chunks
            under_way.append(asyncio.create_task(self._watch(given.run_id, chunk)))
        await asyncio.gather(*under_way)
        await workflow.execute_activity(
            FINISH_MONITOR_RUN,
            given.run_id,
            start_to_close_timeout=policies.SHORT,
            retry_policy=policies.FOR_EVER,
        )

    async def _watch(self, run_id: UUID, number: int) -> bool:
        return await workflow.execute_activity(
            WATCH_TARGETS,
            args=[run_id, number],
            result_type=bool,
            start_to_close_timeout=policies.AN_HOUR,
            heartbeat_timeout=policies.HEARTBEAT,
            retry_policy=policies.FOR_EVER,
        )


@workflow.defn(name=SCHEDULED_MONITOR)
class ScheduledMonitor:
    """Has the run of a monitor accepted when it is due, as its Schedule says."""

    @workflow.run
    async def run(self, monitor_id: UUID, moment: datetime) -> None:
        """Do so, however long the database is away."""
        await workflow.execute_activity(
            ACCEPT_DUE_RUN,
            args=[monitor_id, moment],
            start_to_close_timeout=policies.SHORT,
            retry_policy=policies.FOR_EVER,
        )
