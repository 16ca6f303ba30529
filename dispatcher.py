"""The dispatcher: turns waiting runs into batches, from within the worker.

The API only accepts rows; here they are claimed, all that waits in one lane at a time, and started as one
workflow. A lone run goes at once; under load the batches grow by themselves while earlier starts are in
flight. It also probes batches that make no progress, so that nothing accepted is ever forgotten.
"""

from __future__ import annotations

import asyncio
import random
from uuid import UUID

import psycopg
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.common import SearchAttributeKey
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

import logs
from activities.credits import start_due
from database import Connection, Database, Listener
from models import batches, workers
from models.automations import INTERACTIVE
from models.runs import FINISHED_CHANNEL, QUEUED_CHANNEL
from temporal import starts
from workflows.automations import AutomationBatch
from workflows.messages import Batch

_log = logs.get(__name__)
# While a start is on its way, what comes waits and goes together with the next. Batches were larger with one
# than with two (29-33 rows against 20-22); the throughput of both varied too much between runs to tell.
_STARTS_IN_FLIGHT = 1
_ROWS_PER_WORKER = 1024
_SWEEP_SECONDS = 1.0
# The server sets it on a workflow whose tasks have failed five times in a row.
_PROBLEMS = SearchAttributeKey.for_keyword_list("TemporalReportedProblems")
# The other category is tasks that took too long: so they do where many are replayed at once after a restart.
_TASK_FAILED = "category=WorkflowTaskFailed"
# How a workflow ends that the server, a fault or an operator has ended: it may well end so again.
_BROKEN = (
    WorkflowExecutionStatus.FAILED,
    WorkflowExecutionStatus.TERMINATED,
    WorkflowExecutionStatus.CANCELED,
    WorkflowExecutionStatus.TIMED_OUT,
)


class Dispatcher:
    """Claims and starts; one in each worker process, any number of them side by side."""

    def __init__(self, database: Database, client: Client, worker_id: UUID, *, eager: bool = True) -> None:
        """Prepare.

        Args:
            database: where runs wait.
            client: the worker's own, so that a started batch can run here at once (eager start).
            worker_id: this process's id among the workers.
            eager: off with worker versioning, which an eager start would bypass.
        """
        self._database = database
        self._client = client
        self._worker_id = worker_id
        self._eager = eager
        self._wake = asyncio.Event()
        self._stopping = False
        self._starts: set[asyncio.Task[None]] = set()
        self._probes: set[asyncio.Task[None]] = set()
        self._task: asyncio.Task[None] | None = None
        # Whether something waits that there is no room for.
        self._held_back = False
        handlers = {QUEUED_CHANNEL: self._heard, FINISHED_CHANNEL: self._heard_of_room}
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
        await asyncio.gather(*self._starts, *self._probes, return_exceptions=True)
        async with self._database.connection() as connection:
            await workers.sign_out(connection, self._worker_id)

    def _heard(self, _payload: str) -> None:
        self._wake.set()

    def _heard_of_room(self, _payload: str) -> None:
        if self._held_back:
            self._wake.set()

    async def _run(self) -> None:
        sweep_at = 0.0
        loop = asyncio.get_running_loop()
        while not self._stopping:
            try:
                if loop.time() >= sweep_at:
                    sweep_at = loop.time() + _SWEEP_SECONDS * random.uniform(0.8, 1.2)
                    await self._sweep()
                await self._claim_all()
            except (psycopg.Error, RPCError) as error:
                _log.warning("dispatcher_waits", error=str(error))
            except Exception as error:
                # A worker that claims nothing any more would look alive: it goes on, and says so.
                _log.error("dispatcher_failed", exc_info=error)
            try:
                async with asyncio.timeout(max(0.0, sweep_at - loop.time())):
                    await self._wake.wait()
            except TimeoutError:
                continue

    async def _claim_all(self) -> None:
        """Claim until nothing waits, or enough starts are in flight: each that ends wakes the loop again."""
        self._wake.clear()
        while len(self._starts) < _STARTS_IN_FLIGHT and not self._stopping:
            batch = await self._claim()
            if batch is None:
                return
            self._spawn(batch, self._starts)

    async def _claim(self) -> Batch | None:
        async with self._database.connection() as connection:
            waits, at_work = await batches.load(connection)
            self._held_back = waits
            if not waits:
                return None
            window = _ROWS_PER_WORKER * max(1, await workers.alive(connection))
            if (room := window - at_work) <= 0:
                return None
            # The last tenth is kept for those who wait for an answer.
            lowest = INTERACTIVE if room < window // 10 else 5
            async with connection.transaction():
                # Nobody has more at work than is free: however many wait for long, there is room for others.
                return await batches.claim(
                    connection,
                    rows=min(max(1, room // 2), batches.MAX_ROWS),
                    account_window=min(room, batches.ACCOUNT_WINDOW),
                    lowest_priority=lowest,
                )

    def _spawn(self, batch: Batch, among: set[asyncio.Task[None]]) -> None:
        def done(task: asyncio.Task[None]) -> None:
            among.discard(task)
            self._wake.set()
            if not task.cancelled() and (error := task.exception()):
                _log.error("start_failed", batch_id=str(batch.batch_id), exc_info=error)

        task = asyncio.create_task(self.begin(batch), name=f"start {batch.batch_id}")
        among.add(task)
        task.add_done_callback(done)

    async def begin(self, batch: Batch) -> None:
        """Start a batch. When that fails, the probe finds its runs after a while."""
        try:
            await starts.start(self._client, batch, eager=self._eager)
        except WorkflowAlreadyStartedError:
            await self.examine(batch)
        except RPCError as error:
            _log.warning("start_failed", batch_id=str(batch.batch_id), runs=len(batch.rows), error=str(error))
            if error.status is RPCStatusCode.INVALID_ARGUMENT:
                # The server will never take it as it is.
                async with self._database.connection() as connection:
                    await self._take_apart(connection, batch)

    async def _sweep(self) -> None:
        """Sign in, start what is due, and probe batches without progress by starting them once more.

        Accepted: the batch had never started, or the store had lost it. Already there and running: leave it.
        Already there and closed: its runs go back to their lane, for a new batch; each for its own, and not
        for ever, if the workflow was broken off.
        """
        async with self._database.transaction() as connection:
            await workers.sign_in(connection, self._worker_id)
            silent = await batches.stale(connection)
            cancelled = await batches.to_cancel(connection)
        for batch in silent:
            _log.info("batch_probed", batch_id=str(batch.batch_id))
            self._spawn(batch, self._probes)
        for batch_id, run_ids in cancelled.items():
            handle = self._client.get_workflow_handle_for(AutomationBatch.run, f"automation/{batch_id}")
            try:
                await handle.signal(AutomationBatch.cancel_runs, run_ids)
            except RPCError as error:
                # It may not have started, or be over: the probe finds that out, this is asked again.
                _log.info("cancel_not_signalled", batch_id=str(batch_id), error=str(error))
        await start_due(self._client, self._database)

    async def examine(self, batch: Batch) -> None:
        """A batch that was started before: if it is over, or stuck, give its unfinished runs back."""
        handle = self._client.get_workflow_handle(starts.workflow_id(batch))
        try:
            description = await handle.describe()
            if description.status in _BROKEN:
                _log.error("batch_broken", batch_id=str(batch.batch_id), status=str(description.status))
                async with self._database.connection() as connection:
                    await self._take_apart(connection, batch)
            elif description.status is not WorkflowExecutionStatus.RUNNING:
                async with self._database.connection() as connection:
                    runs = await batches.requeue(connection, batch.batch_id)
                _log.warning("batch_requeued", batch_id=str(batch.batch_id), runs=runs)
            elif _TASK_FAILED in (problems := description.typed_search_attributes.get(_PROBLEMS) or ()):
                await handle.terminate("its workflow tasks keep failing")
                _log.error("batch_stuck", batch_id=str(batch.batch_id), problems=problems)
                async with self._database.connection() as connection:
                    await self._take_apart(connection, batch)
        except (RPCError, psycopg.Error) as error:
            _log.warning("probe_failed", batch_id=str(batch.batch_id), error=str(error))

    async def _take_apart(self, connection: Connection, batch: Batch) -> None:
        runs, ended = await batches.take_apart(connection, batch.batch_id)
        _log.error("batch_taken_apart", batch_id=str(batch.batch_id), runs=runs, ended=len(ended))
        if ended:
            payload = ",".join(str(run_id) for run_id in ended)
            await connection.execute("select pg_notify(%s, %s)", (FINISHED_CHANNEL, payload))
