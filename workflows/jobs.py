"""`BulkJob`: looks up the targets of a job, a few chunks in parallel. Results are read from Postgres."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from uuid import UUID

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from workflows import policies
    from workflows.messages import BULK_JOB, FINISH_JOB, LOOK_UP_ROWS, BulkJobInput, ChunkResult

_CHUNKS_AT_ONCE = 4


@workflow.defn(name=BULK_JOB)
class BulkJob:
    """Processes the chunks of a job, then ends it; waits when its sources make it wait."""

    def __init__(self) -> None:
        self._over = False
        # The chunks that were unfinished when the history had become long.
        self._left: list[int] = []

    @workflow.run
    async def run(self, given: BulkJobInput) -> None:
        """Process the job to its end, or until it turns out to be over."""
        numbers = iter(range(given.first, given.chunks))
        await asyncio.gather(*(self._work(given.job_id, numbers) for _ in range(_CHUNKS_AT_ONCE)))
        if self._over:
            return
        self._left.extend(numbers)
        if self._left:
            # A finished chunk is read once more, and found to be finished.
            workflow.continue_as_new(replace(given, first=min(self._left)))
        await workflow.execute_activity(FINISH_JOB, given.job_id, **policies.QUICK)

    async def _work(self, job_id: UUID, numbers: Iterator[int]) -> None:
        while not workflow.info().is_continue_as_new_suggested():
            number = next(numbers, None)
            if number is None or not await self._finish(job_id, number):
                return

    async def _finish(self, job_id: UUID, number: int) -> bool:
        """Finish a chunk; return whether to continue with the next."""
        while True:
            looked = await workflow.execute_activity(
                LOOK_UP_ROWS, args=[job_id, number], result_type=ChunkResult, **policies.LONG
            )
            self._over = self._over or looked.over
            if self._over or not looked.seconds:
                return not self._over
            if workflow.info().is_continue_as_new_suggested():
                self._left.append(number)
                return False
            await workflow.sleep(looked.seconds)
