"""The watch over runs and their own workflows: the leading worker compares them every ten seconds.

A run whose workflow was terminated or cancelled in Temporal is cancelled; a run whose workflow is gone is
queued. A workflow whose run has ended, or has a shift as carrier, is signalled to leave; one that
should have a call under way, and has none, to read its rows again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import (
    Client,
    WorkflowExecutionDescription,
    WorkflowExecutionStatus,
    WorkflowHandle,
    WorkflowHistoryEventFilterType,
)

import logs
import metrics
from database import Database
from execution import clock
from execution.own_execution import run_id_of
from models.errors import NotFound
from models.runs import cancellation, own_runs
from models.runs.own_runs import CarriedRun
from models.runs.runs import QUEUED_CHANNEL
from notifications import Notifier
from temporal.client import TASK_QUEUE, TEMPORAL_AWAY, unless_missing
from temporal.starts import run_workflow_id
from workflows.messages import AUTOMATION_RUN, LEFT, LOOK

_log = logs.get(__name__)
_SECONDS = 10.0
# How often a worker checks that it reaches Temporal, and how long an answer counts.
_REACH_SECONDS, _REACHED_SECONDS = 2.0, 6.0
_PAGE = 200
# A workflow that was just started may not be listed yet, and neither may one that is about to close.
_YOUNGEST = timedelta(seconds=20)
_UNKNOWN = timedelta(seconds=60)
_LOOK_AGAIN_SECONDS = 2.0
# The number of workflows that are signalled to leave at a time.
_LEAVING = 200
_ENDED_BY_PEOPLE = (WorkflowExecutionStatus.TERMINATED, WorkflowExecutionStatus.CANCELED)
_SERVER = "history-service"  # its identity in what it does by itself
_OPEN = f"WorkflowType = '{AUTOMATION_RUN}' and ExecutionStatus = 'Running'"


class WorkflowWatch:
    """Watches the workflows of runs; one in each worker process."""

    def __init__(self, database: Database, client: Client, notifier: Notifier) -> None:
        self._database = database
        self._client = client
        self._notifier = notifier
        self._told: dict[UUID, float] = {}
        self._looked: dict[UUID, datetime] = {}
        self._open: set[UUID] = set()
        self._reached_at, self._reach_at = float("-inf"), 0.0
        self.next_at = 0.0

    @property
    def reaches_temporal(self) -> bool:
        """Return whether Temporal has answered this process lately."""
        return time.monotonic() - self._reached_at < _REACHED_SECONDS

    async def reach_temporal(self) -> None:
        """Check from time to time that Temporal answers: a worker that does not reach it must not lead."""
        if (now := time.monotonic()) < self._reach_at:
            return
        self._reach_at = now + _REACH_SECONDS
        try:
            # The first request connects, which has a longer timeout of its own.
            async with asyncio.timeout(_REACH_SECONDS):
                await self._client.workflow_service.describe_namespace(
                    DescribeNamespaceRequest(namespace=self._client.namespace)
                )
        except TEMPORAL_AWAY as error:
            _log.info("temporal_not_reached", error=repr(error))
            metrics.AWAY.add(_REACH_SECONDS, "temporal")
            return
        self._reached_at = time.monotonic()

    async def tell_woken(self) -> None:
        """Signal workflows at work that answers have come; repeat it, in case a signal was lost."""
        now = time.monotonic()
        self._told = {one: at for one, at in self._told.items() if now - at < _LOOK_AGAIN_SECONDS}
        async with self._database.connection() as connection:
            woken = await own_runs.find_woken(connection, self._told)
        for run_id in woken:
            await self._signal(run_id, LOOK)
            self._told[run_id] = now

    def knows(self, run_id: UUID) -> bool:
        """Return whether a run had an open workflow at the last comparison."""
        return run_id in self._open

    async def compare(self) -> None:
        """Compare all runs that have workflows with all workflows of runs."""
        self.next_at = time.monotonic() + _SECONDS
        before = clock.now() - _YOUNGEST
        opened, old = set[UUID](), set[UUID]()
        async for workflow in self._client.list_workflows(_OPEN):
            if (run_id := run_id_of(workflow.id)) is not None:
                opened.add(run_id)
                if workflow.start_time < before:
                    old.add(run_id)
        self._open = opened
        there: set[UUID] = set()
        after = UUID(int=0)
        while True:
            async with self._database.connection() as connection:
                found = await own_runs.find_all(connection, after, _PAGE)
            there.update(seen.run_id for seen in found)
            for seen in found:
                # A run that was just handed over may have no workflow for a moment; a sweep handles it.
                if seen.run_id in opened:
                    if seen.at_work:
                        await self._wake_idle(seen)
                elif not seen.handed:
                    await self._examine(seen)
            if len(found) < _PAGE:
                break
            after = found[-1].run_id
        self._looked = {one: at for one, at in self._looked.items() if one in there}
        for run_id in list(old - there)[:_LEAVING]:
            await self._signal(run_id, LEFT)

    async def heed_end(self, run_id: UUID, account_id: UUID) -> bool:
        """Cancel a run that would go on although somebody has ended its workflow in Temporal.

        A workflow of others under its id is terminated: it would keep the run's own from starting.

        Args:
            run_id: a run that waited for its workflow, or whose workflow did not take it up.
            account_id: its owner.

        Returns:
            Whether somebody has ended it.

        Raises:
            temporalio.service.RPCError: the server is away.
        """
        found = await self._describe(run_workflow_id(run_id))
        if found is None:
            return False
        handle = self._client.get_workflow_handle(found.id, run_id=found.run_id)
        is_open = found.status is WorkflowExecutionStatus.RUNNING
        if (found.workflow_type, found.task_queue) != (AUTOMATION_RUN, TASK_QUEUE):
            if is_open:
                kind = {"workflow_type": found.workflow_type, "task_queue": found.task_queue}
                _log.warning("strangers_workflow_terminated", run_id=str(run_id), **kind)
                await handle.terminate(reason="The id belongs to a run of vedette.")
            return False
        if is_open:
            is_over = found.raw_description.workflow_extended_info.cancel_requested
        else:
            is_over = found.status in _ENDED_BY_PEOPLE and not await _ended_by_server(handle)
        if is_over:
            await self._cancel(run_id, account_id)
        return is_over

    async def queue_untaken(self, untaken: Mapping[UUID, UUID]) -> None:
        """Queue runs whose workflows did not take them up, unless somebody has ended these.

        Args:
            untaken: the runs, each with its account.
        """
        try:
            async with asyncio.timeout(_LOOK_AGAIN_SECONDS):
                for run_id, account_id in untaken.items():
                    await self.heed_end(run_id, account_id)
        except TEMPORAL_AWAY as error:
            _log.info("workflows_not_examined", error=repr(error))
        # A run that was cancelled is no longer there.
        async with self._database.connection() as connection:
            if queued := await own_runs.queue_untaken(connection, untaken):
                _log.warning("untaken_runs_queued", runs=queued)

    async def _examine(self, seen: CarriedRun) -> None:
        """Examine why a run's workflow is not among the open ones, and cancel or queue the run."""
        workflow_id = run_workflow_id(seen.run_id)
        latest = await self._describe(workflow_id)
        # Another type of workflow under its id, started by a stranger, carries nothing.
        status = latest.status if latest is not None and latest.workflow_type == AUTOMATION_RUN else None
        age = clock.now() - seen.since
        if latest is not None and status in _ENDED_BY_PEOPLE:
            # A workflow that was ended before this claim is irrelevant: the next one is about to begin.
            handle = self._client.get_workflow_handle(workflow_id, run_id=latest.run_id)
            if await _had_claim(handle, seen.claim_id):
                await (
                    self._queue(seen)
                    if await _ended_by_server(handle)
                    else self._cancel(seen.run_id, seen.account_id)
                )
        elif status in (WorkflowExecutionStatus.FAILED, WorkflowExecutionStatus.TIMED_OUT):
            await self._queue(seen)
        elif status in (None, WorkflowExecutionStatus.COMPLETED) and age > _UNKNOWN:
            await self._queue(seen)

    async def _describe(self, workflow_id: str) -> WorkflowExecutionDescription | None:
        with unless_missing():
            return await self._client.get_workflow_handle(workflow_id).describe()
        return None

    async def _wake_idle(self, seen: CarriedRun) -> None:
        """Let a workflow read its rows if its call is not under way: somebody completed it in Temporal."""
        now = clock.now()
        if now - self._looked.setdefault(seen.run_id, now) < _UNKNOWN:
            return
        self._looked[seen.run_id] = now
        found = await self._describe(run_workflow_id(seen.run_id))
        if found is not None and not found.raw_description.pending_activities:
            _log.info("workflow_without_a_call", run_id=str(seen.run_id))
            await self._signal(seen.run_id, LOOK)

    async def _cancel(self, run_id: UUID, account_id: UUID) -> None:
        async with self._database.connection() as connection:
            try:
                ended = await cancellation.cancel(connection, account_id, run_id)
            except NotFound:
                return
        if ended:
            _log.warning("run_cancelled_in_temporal", run_id=str(run_id))
            cancellation.notify_ends(self._notifier, ended)

    async def _queue(self, seen: CarriedRun) -> None:
        async with self._database.connection() as connection:
            if await own_runs.queue_lost(connection, seen.run_id, seen.claim_id):
                _log.warning("run_queued", run_id=str(seen.run_id), reason="its workflow is gone")
                self._notifier.notify(QUEUED_CHANNEL)

    async def _signal(self, run_id: UUID, name: str) -> None:
        with unless_missing():
            await asyncio.wait_for(
                self._client.get_workflow_handle(run_workflow_id(run_id)).signal(name), _SECONDS
            )


async def _had_claim(handle: WorkflowHandle[Any, Any], claim_id: UUID) -> bool:
    """Return whether a workflow was started under a claim, or was signalled with it later."""
    wanted = str(claim_id).encode()
    async for event in handle.fetch_history_events():
        if wanted in event.SerializeToString():
            return True
    return False


async def _ended_by_server(handle: WorkflowHandle[Any, Any]) -> bool:
    """Return whether Temporal itself has terminated a workflow, as for a history that is too long."""
    history = await handle.fetch_history(event_filter_type=WorkflowHistoryEventFilterType.CLOSE_EVENT)
    ends = [event.workflow_execution_terminated_event_attributes for event in history.events]
    return any(end.identity == _SERVER for end in ends)
