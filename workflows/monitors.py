"""`MonitorRun` and `ScheduledMonitor`: the work and the times of monitors. Results are read from Postgres."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from typing import NoReturn
from uuid import UUID

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from workflows import policies
    from workflows.messages import (
        ACCEPT_DUE_RUN,
        FINISH_MONITOR_RUN,
        MONITOR_RUN,
        SCHEDULED_MONITOR,
        WATCH_CHUNK,
        WATCH_TARGETS,
        MonitorChunkResult,
        MonitorRunInput,
    )

_CHUNKS_AT_ONCE = 4


@workflow.defn(name=MONITOR_RUN)
class MonitorRun:
    """Processes the chunks of a run, a few in parallel, waits for its sources, then ends it."""

    def __init__(self) -> None:
        self._over = False
        self._waits = dict[int, list[str]]()
        self._opens = dict[str, float]()

    @workflow.run
    async def run(self, given: MonitorRunInput) -> None:
        """Process the run to its end, or until it turns out to be over."""
        if workflow.patched("goes-at-the-pace-of-its-sources"):
            self._waits, self._opens = {**given.waits}, {**given.opens}
            await self._look_at_all(given)
            await self._wait_for_sources(given)
        else:
            await self._look_at_all_without_waiting(given)
        await workflow.execute_activity(FINISH_MONITOR_RUN, given.run_id, **policies.QUICK)

    async def _look_at_all(self, given: MonitorRunInput) -> None:
        """Process each chunk once: targets whose sources are over their limits are left for later."""
        numbers = iter(range(given.first if given.in_order else 0, given.chunks))
        await asyncio.gather(*(self._work(given.run_id, numbers) for _ in range(_CHUNKS_AT_ONCE)))
        number = None if self._over else next(numbers, None)
        if number is not None:
            self._go_on_in_a_new_run(given, number)

    async def _work(self, run_id: UUID, numbers: Iterator[int]) -> None:
        while not self._over and not workflow.info().is_continue_as_new_suggested():
            number = next(numbers, None)
            if number is None:
                return
            await self._look(run_id, number, patient=False)

    async def _wait_for_sources(self, given: MonitorRunInput) -> None:
        """Process the remaining targets whenever a source is open: first those of the first chunk."""
        while self._waits and not self._over:
            if workflow.info().is_continue_as_new_suggested():
                self._go_on_in_a_new_run(given, given.chunks)
            names = {name for names in self._waits.values() for name in names}
            name = min(names, key=lambda one: (self._opens.get(one, 0.0), one))
            seconds = self._opens.get(name, 0.0) - workflow.now().timestamp()
            if seconds > 0:
                await workflow.sleep(seconds, summary=name)
            number = min(number for number, names in self._waits.items() if name in names)
            await self._look(given.run_id, number, patient=True)

    async def _look(self, run_id: UUID, number: int, *, patient: bool) -> None:
        watched = await workflow.execute_activity(
            WATCH_CHUNK, args=[run_id, number, patient], result_type=MonitorChunkResult, **policies.LONG
        )
        self._over = self._over or watched.over
        self._waits.pop(number, None)
        if watched.waits:
            self._waits[number] = sorted(watched.waits)
        now = workflow.now().timestamp()
        self._opens |= {name: now + seconds for name, seconds in watched.waits.items()}

    def _go_on_in_a_new_run(self, given: MonitorRunInput, first: int) -> NoReturn:
        left = replace(given, first=first, in_order=True, waits=self._waits, opens=self._opens)
        workflow.continue_as_new(left)

    async def _look_at_all_without_waiting(self, given: MonitorRunInput) -> None:
        """Process the chunks as an earlier release did, for runs that began under it."""
        under_way: list[asyncio.Task[bool]] = []
        for number in range(given.first, given.chunks):
            if len(under_way) == _CHUNKS_AT_ONCE:
                done, under_way = await workflow.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
                if not all(chunk.result() for chunk in done):
                    break
            if workflow.info().is_continue_as_new_suggested():
                await asyncio.gather(*under_way)
                workflow.continue_as_new(replace(given, first=number))
            # Each run begins with another chunk, so that daily quotas of sources do not always serve the same
            # targets.
            chunk = (number + given.run_id.int) % given.chunks
            under_way.append(asyncio.create_task(self._watch(given.run_id, chunk)))
        await asyncio.gather(*under_way)

    async def _watch(self, run_id: UUID, number: int) -> bool:
        return await workflow.execute_activity(
            WATCH_TARGETS, args=[run_id, number], result_type=bool, **policies.LONG
        )


@workflow.defn(name=SCHEDULED_MONITOR)
class ScheduledMonitor:
    """Accepts the run of a monitor when its Schedule is due."""

    @workflow.run
    async def run(self, monitor_id: UUID, moment: datetime) -> None:
        """Accept the run, even after a long outage of the database."""
        await workflow.execute_activity(ACCEPT_DUE_RUN, args=[monitor_id, moment], **policies.QUICK)
