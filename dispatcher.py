"""The dispatcher: turns waiting runs into batches, from within the worker.

The API only accepts rows; here they are claimed, all that waits in one lane at a time. The executor of this
process begins with them at once; beside it a workflow is started, which sees to it that they are taken up
again when the process dies, and which holds their timers. A lone run goes at once; under load the batches
grow by themselves.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from dataclasses import asdict
from datetime import timedelta
from uuid import UUID

from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.exceptions import WorkflowAlreadyStartedError

import logs
from activities.credits import start_due
from activities.executor import Executor
from activities.halting import Halt
from activities.loop_lag import LoopLag
from database import AWAY, Database
from dispatch_loop import ASK_SECONDS, DispatchLoop
from models import leases, recovery, run_work, workers
from models.identifiers import new_id
from models.leases import Lease
from models.low_water import LowWater
from models.recovery import BatchToStart
from models.run_work import Claim
from models.runs import FINISHED_CHANNEL, QUEUED_CHANNEL
from temporal import starts
from temporal.client import TEMPORAL_AWAY
from temporal.retiring import retire_unknown_batches

_log = logs.get(__name__)
_ROWS_PER_WORKER = 1024
# How long the next claim of a lane waits, after a full one and after any: so batches grow under load.
_FULL_ROWS, _FULL_PAUSE, _PAUSE = 64, 0.06, 0.005
# One claim in so many ignores priorities.
_TURN_OF_ALL = 8
_RETIRE_SECONDS = 300.0


class Dispatcher(DispatchLoop):
    """Claims and starts runs; one in each worker process, any number of them side by side."""

    def __init__(
        self,
        database: Database,
        client: Client,
        executor: Executor,
        halt: Halt,
        lag: LoopLag,
        worker_id: UUID,
        *,
        eager: bool = True,
    ) -> None:
        """Prepare.

        Args:
            database: where runs wait.
            client: the worker's own, so that the workflow of a batch can run here at once (eager start).
            executor: takes up what is claimed.
            halt: says whether this process may claim.
            lag: of the event loop; while it is too long, nothing is claimed.
            worker_id: this process's id among the workers.
            eager: off with worker versioning, which an eager start would bypass.
        """
        super().__init__(
            database,
            {QUEUED_CHANNEL: self._heard, FINISHED_CHANNEL: self._heard_of_ends},
            "dispatcher",
        )
        self._client = client
        self._executor = executor
        self._halt = halt
        self._lag = lag
        self._worker_id = worker_id
        self._eager = eager
        self._paused: dict[int, float] = {}
        self._low_water = LowWater()
        self._claims = 0
        self._retire_at = 0.0
        self._workers = 1
        self._held_after = 0

    async def stop(self) -> None:
        """Claim nothing more; wait for the starts in flight."""
        await super().stop()
        try:
            async with self._database.connection() as connection:
                await workers.sign_out(connection, self._worker_id)
        except AWAY as error:
            # It is forgotten when it has been silent for a while.
            _log.warning("worker_not_signed_out", error=str(error))

    def _heard_of_ends(self, payload: str) -> None:
        self._executor.drop(payload.split(","))
        self.freed()

    # ---- claiming

    async def _claim_all(self) -> float:
        loop = asyncio.get_running_loop()
        while not self._stopping:
            if (full_until := self._starts_full_until()) is not None:
                return full_until
            self._paused = {lane: until for lane, until in self._paused.items() if until > loop.time()}
            # Under its lock, so that no batch is left while runs join it.
            async with self._executor.claiming:
                sent_at = time.monotonic()
                claim = await self._claim()
                if isinstance(claim, Claim):
                    self._executor.begin(claim, sent_at)
            if isinstance(claim, bool):
                self._held_back = claim
                return min(self._paused.values(), default=float("inf")) if claim else float("inf")
            pause = _FULL_PAUSE if len(claim.runs) >= _FULL_ROWS else _PAUSE
            self._paused[claim.lane_id] = loop.time() + pause
            if not claim.joined:
                self._spawn_start(str(claim.lease.batch_id), self.begin(_to_start(claim)))
        return float("inf")

    async def _claim(self) -> Claim | bool:
        if self._lag.is_too_long:
            return False
        rows = await self._halt.rows_to_claim(run_work.MAX_ROWS)
        if not rows:
            return False
        self._claims += 1
        async with self._database.connection() as connection:
            claim = await run_work.claim(
                connection,
                Lease(new_id(), new_id()),
                self._worker_id,
                window=_ROWS_PER_WORKER * max(1, self._workers),
                rows=rows,
                any_priority=self._claims % _TURN_OF_ALL == 0,
                marks=self._low_water.marks(),
                passed_over=self._paused,
                open_batches=self._executor.open_batches(),
            )
        if isinstance(claim, Claim):
            self._low_water.note(claim, rows)
        return claim

    async def begin(self, batch: BatchToStart) -> None:
        """Start the workflow of a batch. Should that fail, a sweep repeats it."""
        try:
            async with asyncio.timeout(ASK_SECONDS):
                await starts.start(self._client, **asdict(batch), eager=self._eager)
        except WorkflowAlreadyStartedError:
            await self.examine(batch)
        except TEMPORAL_AWAY as error:
            _log.warning("start_failed", batch_id=str(batch.batch_id), runs=batch.runs, error=str(error))
        else:
            async with self._database.connection() as connection:
                await recovery.mark_started(connection, batch.batch_id)

    # ---- sweeping

    async def _sweep(self) -> None:
        async with self._database.connection() as connection:
            lag = self._lag.take_longest()
            await workers.sign_in(connection, self._worker_id, halted=self._halt.halted, loop_lag=lag)
            self._workers = await workers.alive(connection)
            # While the database was away nobody could beat. Whoever lives does so first, and keeps its runs.
            was_away = asyncio.get_running_loop().time() - self._away_at < leases.SILENT_SECONDS
            unseen = [] if was_away else await recovery.find_unseen(connection)
            if overdue := await run_work.queue_overdue(connection):
                _log.warning("overdue_runs_queued", runs=overdue)
            if strays := await run_work.queue_strays(connection):
                _log.error("stray_runs_queued", runs=strays)
            _, self._held_after = await run_work.promote_held(connection, self._held_after)
        for batch in unseen:
            _log.info("batch_probed", batch_id=str(batch.batch_id))
            self._begin_chore(str(batch.batch_id), self.begin(batch))
        self._begin_chore("start_due", start_due(self._client, self._database))
        if (now := asyncio.get_running_loop().time()) >= self._retire_at:
            self._retire_at = now + _RETIRE_SECONDS
            self._begin_chore("retire", self._retire(), _RETIRE_SECONDS)

    async def _retire(self) -> None:
        async def find_unknown(batch_ids: Collection[UUID]) -> set[UUID]:
            async with self._database.connection() as connection:
                return await recovery.find_unknown(connection, batch_ids)

        async with self._database.connection() as connection:
            await recovery.delete_empty(connection)
        await retire_unknown_batches(self._client, find_unknown)

    async def examine(self, batch: BatchToStart) -> None:
        """See whether the workflow of a batch that was started before goes on; else give its runs back."""
        handle = self._client.get_workflow_handle(starts.workflow_id(batch.batch_id))
        description = await handle.describe(rpc_timeout=timedelta(seconds=ASK_SECONDS))
        if description.status is WorkflowExecutionStatus.RUNNING:
            async with self._database.connection() as connection:
                await recovery.mark_started(connection, batch.batch_id)
            await self._executor.take_up(batch.batch_id)
            return
        async with self._database.connection() as connection:
            runs = await recovery.give_back(connection, batch.batch_id)
        if runs:
            _log.warning("batch_given_back", batch_id=str(batch.batch_id), runs=runs)
            self._wake.set()


def _to_start(claim: Claim) -> BatchToStart:
    return BatchToStart(
        claim.lease.batch_id, claim.account_id, claim.automation_id, claim.version, claim.priority,
        len(claim.runs), claim.trigger,
    )  # fmt: skip
