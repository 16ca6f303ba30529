"""The dispatcher: turns waiting runs into batches, from within the worker.

The API only accepts rows; here they are claimed, all that waits in one lane at a time. The executor of this
process begins with them at once; beside it a workflow is started, which sees to it that they are taken up
again when the process dies, and which holds their timers. A lone run goes at once; under load the batches
grow by themselves.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Collection, Coroutine
from dataclasses import asdict
from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg
from psycopg_pool import PoolTimeout
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError

import logs
from activities.credits import start_due
from activities.executor import Executor
from activities.halting import Halt
from activities.loop_lag import LoopLag
from database import Database, Listener
from models import recovery, run_work, workers
from models.identifiers import new_id
from models.leases import Lease
from models.low_water import LowWater
from models.recovery import BatchToStart
from models.run_work import Claim
from models.runs import FINISHED_CHANNEL, QUEUED_CHANNEL
from temporal import starts
from temporal.retiring import retire_unknown_batches

_log = logs.get(__name__)
# While starts are on their way, what comes waits and goes together with the next; but not for a server that
# does not answer.
_STARTS_IN_FLIGHT, _START_SECONDS = 4, 0.25
_ROWS_PER_WORKER = 1024
_SWEEP_SECONDS = 1.0
# How long the next claim of a lane waits, after a full one and after any: so batches grow under load.
_FULL_ROWS, _FULL_PAUSE, _PAUSE = 64, 0.06, 0.005
# One claim in so many ignores priorities.
_TURN_OF_ALL = 8
_ASK_LIMIT = timedelta(seconds=5)
_RETIRE_SECONDS = 300.0


class Dispatcher:
    """Claims and starts; one in each worker process, any number of them side by side."""

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
        self._database = database
        self._client = client
        self._executor = executor
        self._halt = halt
        self._lag = lag
        self._worker_id = worker_id
        self._eager = eager
        self._wake = asyncio.Event()
        self._stopping = False
        self._starts: dict[asyncio.Task[None], float] = {}
        self._chores: dict[str, asyncio.Task[None]] = {}
        self._task: asyncio.Task[None] | None = None
        # Whether something waits that may not be served now.
        self._held_back = False
        self._paused: dict[int, float] = {}
        self._low_water = LowWater()
        self._claims = 0
        self._retire_at = 0.0
        self._workers = 1
        handlers = {QUEUED_CHANNEL: self._heard, FINISHED_CHANNEL: self._heard_of_ends}
        self._listener = Listener(database, handlers)

    def start(self) -> None:
        """Begin to listen and to claim."""
        self._listener.start()
        self._task = asyncio.create_task(self._run(), name="dispatcher")

    async def stop(self) -> None:
        """Claim nothing more; wait for the starts in flight."""
        self._stopping = True
        self._wake.set()
        if self._task is not None:
            await self._task
        await self._listener.stop()
        await asyncio.gather(*self._starts, *self._chores.values(), return_exceptions=True)
        try:
            async with self._database.connection() as connection:
                await workers.sign_out(connection, self._worker_id)
        except (psycopg.Error, PoolTimeout) as error:
            # It is forgotten when it has been silent for a while.
            _log.warning("worker_not_signed_out", error=str(error))

    def freed(self) -> None:
        """There is room for more runs."""
        if self._held_back:
            self._wake.set()

    def _heard(self, _payload: str) -> None:
        self._wake.set()

    def _heard_of_ends(self, payload: str) -> None:
        self._executor.drop(payload.split(","))
        self.freed()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        sweep_at = 0.0
        while not self._stopping:
            again_at = sweep_at
            try:
                if loop.time() >= sweep_at:
                    again_at = sweep_at = loop.time() + _SWEEP_SECONDS * random.uniform(0.8, 1.2)
                    await self._sweep()
                again_at = min(sweep_at, await self._claim_all())
            except (psycopg.Error, PoolTimeout) as error:
                _log.warning("dispatcher_waits", error=str(error))
            except Exception as error:
                # A worker that claims nothing any more would look alive: it goes on, and says so.
                _log.error("dispatcher_failed", exc_info=error)
            try:
                async with asyncio.timeout(max(0.0, again_at - loop.time())):
                    await self._wake.wait()
            except TimeoutError:
                continue

    # ---- claiming

    async def _claim_all(self) -> float:
        """Claim until nothing waits that may be served, or enough starts are in flight.

        Returns:
            When to look again by oneself, by the loop's clock.
        """
        self._wake.clear()
        loop = asyncio.get_running_loop()
        while not self._stopping:
            young = [at for at in self._starts.values() if at > loop.time() - _START_SECONDS]
            if len(young) >= _STARTS_IN_FLIGHT:
                return min(young) + _START_SECONDS
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
                self._spawn_start(_to_start(claim))
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

    def _spawn_start(self, batch: BatchToStart) -> None:
        def done(task: asyncio.Task[None]) -> None:
            del self._starts[task]
            self._wake.set()
            if not task.cancelled() and (error := task.exception()):
                _log.error("start_failed", batch_id=str(batch.batch_id), exc_info=error)

        task = asyncio.create_task(self.begin(batch), name=f"start {batch.batch_id}")
        self._starts[task] = asyncio.get_running_loop().time()
        task.add_done_callback(done)

    async def begin(self, batch: BatchToStart) -> None:
        """Start the workflow of a batch. Should that fail, a sweep repeats it."""
        try:
            async with asyncio.timeout(_ASK_LIMIT.total_seconds()):
                await starts.start(self._client, **asdict(batch), eager=self._eager)
        except WorkflowAlreadyStartedError:
            await self.examine(batch)
        except (RPCError, TimeoutError) as error:
            _log.warning("start_failed", batch_id=str(batch.batch_id), runs=batch.runs, error=str(error))
        else:
            async with self._database.connection() as connection:
                await recovery.mark_started(connection, batch.batch_id)

    # ---- sweeping

    async def _sweep(self) -> None:
        """Sign in, and see to what nobody else does. What asks Temporal goes beside."""
        async with self._database.connection() as connection:
            lag = self._lag.take_longest()
            await workers.sign_in(connection, self._worker_id, halted=self._halt.halted, loop_lag=lag)
            self._workers = await workers.alive(connection)
            unseen = await recovery.find_unseen(connection)
            if overdue := await run_work.queue_overdue(connection):
                _log.warning("overdue_runs_queued", runs=overdue)
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

        await retire_unknown_batches(self._client, find_unknown)

    def _begin_chore(
        self, name: str, work: Coroutine[Any, Any, object], seconds: float = _ASK_LIMIT.total_seconds()
    ) -> None:
        """Do this beside the loop, unless it is under way since before."""
        if name in self._chores:
            work.close()
            return

        async def chore() -> None:
            try:
                async with asyncio.timeout(seconds):
                    await work
            except (RPCError, TimeoutError, psycopg.Error, PoolTimeout) as error:
                _log.warning("chore_failed", chore=name, error=str(error))
            except Exception as error:
                _log.error("chore_failed", chore=name, exc_info=error)

        task = self._chores[name] = asyncio.create_task(chore(), name=name)
        task.add_done_callback(lambda _: self._chores.pop(name, None))

    async def examine(self, batch: BatchToStart) -> None:
        """See whether the workflow of a batch that was started before goes on; else give its runs back."""
        handle = self._client.get_workflow_handle(starts.workflow_id(batch.batch_id))
        description = await handle.describe(rpc_timeout=_ASK_LIMIT)
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
