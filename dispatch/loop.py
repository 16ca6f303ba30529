"""The loop of a dispatcher: claims when it is woken, sweeps by the clock, starts workflows beside."""

from __future__ import annotations

import asyncio
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Coroutine, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Generic, TypeVar
from uuid import UUID

from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.exceptions import WorkflowAlreadyStartedError

import logs
import metrics
from database import AWAY, Connection, Database
from execution.claim_gate import ClaimGate
from execution.loop_lag import LoopLag
from models.work_queue import Claimed, WorkflowTable
from temporal.client import TEMPORAL_AWAY

_log = logs.get(__name__)
# While this many starts are in flight, new work waits and goes together with the next; but not longer than
# this, in case the server does not answer.
_STARTS_IN_FLIGHT, _START_SECONDS = 4, 0.25
_CLAIM_PAUSE = 0.025
ASK_SECONDS = 5.0
"""The time that Temporal has to answer."""

T = TypeVar("T")


class DispatchLoop(ABC):
    """Claims waiting work and starts workflows for it; each worker process has one of each kind.

    Attributes:
        sweep_seconds: the approximate time between sweeps.
        on_error: called with unexpected errors.
    """

    sweep_seconds = 1.0

    def __init__(self, database: Database, handlers: Mapping[str, Callable[[str], None]], name: str) -> None:
        """Create the loop.

        Args:
            database: the database with the work.
            handlers: of the notifications that concern it.
            name: of the task, for people who inspect a process.
        """
        self._database = database
        self._name = name
        self._wake = asyncio.Event()
        self._stopping = False
        self._starts: dict[asyncio.Task[None], float] = {}
        self._chores: dict[str, asyncio.Task[None]] = {}
        self._task: asyncio.Task[None] | None = None
        # Whether work waits that cannot be served now.
        self._held_back = False
        self.on_error: Callable[[Exception], object] = lambda _: None
        self._handlers = handlers

    def start(self) -> None:
        """Begin to listen and to claim."""
        self._database.listener.add(self._handlers)
        self._database.listener.start()
        self._task = asyncio.create_task(self._run(), name=self._name)

    async def stop(self) -> None:
        """Stop claiming; wait for the starts in flight."""
        self._stopping = True
        self._wake.set()
        if self._task is not None:
            await self._task
        self._database.listener.remove(self._handlers)
        # Another worker, or a later sweep, repeats them.
        for chore in self._chores.values():
            chore.cancel()
        await asyncio.gather(*self._starts, *self._chores.values(), return_exceptions=True)

    def on_capacity_freed(self) -> None:
        """Claim again, because there is room."""
        if self._held_back:
            self._wake.set()

    def _on_notification(self, _payload: str) -> None:
        self._wake.set()

    @abstractmethod
    async def _claim_all(self) -> float:
        """Claim until no work waits that can be served, or enough starts are in flight.

        Returns:
            The time of the next attempt without a wake-up, by the loop's clock.
        """

    @abstractmethod
    async def _sweep(self) -> None:
        """Do the periodic repairs. Requests to Temporal go to the background."""

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        sweep_at = 0.0
        while not self._stopping:
            if (late := loop.time() - sweep_at) >= 0:
                if sweep_at:
                    metrics.DISPATCH_LAG.observe(late, self._name)
                sweep_at = loop.time() + self.sweep_seconds * random.uniform(0.8, 1.2)
                await self._unless_away(self._sweep())
                if self._stopping:  # clearing the wake would forget it
                    break
            self._wake.clear()
            again_at = min(sweep_at, await self._unless_away(self._claim_all()) or sweep_at)
            try:
                async with asyncio.timeout(max(0.0, again_at - loop.time())):
                    await self._wake.wait()
            except TimeoutError:
                continue

    async def _unless_away(self, work: Coroutine[Any, Any, T]) -> T | None:
        """Run a part of the loop; its errors stop neither the other part nor the next round."""
        try:
            return await work
        except AWAY as error:
            _log.warning("dispatcher_waits", error=str(error))
        except Exception as error:
            # A worker that no longer claims would look alive: the loop continues, and logs the error.
            _log.error("dispatcher_failed", exc_info=error)
            self.on_error(error)
        return None

    def _starts_full_until(self) -> float | None:
        """Return until when to wait for starts in flight; None if another start is allowed."""
        now = asyncio.get_running_loop().time()
        young = [at for at in self._starts.values() if at > now - _START_SECONDS]
        return min(young) + _START_SECONDS if len(young) >= _STARTS_IN_FLIGHT else None

    def _spawn_start(self, name: str, start: Coroutine[Any, Any, None]) -> None:
        def log_failure(task: asyncio.Task[None]) -> None:
            del self._starts[task]
            self._wake.set()
            if task.cancelled() or (error := task.exception()) is None:
                return
            if isinstance(error, AWAY):
                _log.warning("start_failed", id=name, error=repr(error))
            else:
                _log.error("start_failed", id=name, exc_info=error)

        task = asyncio.create_task(start, name=f"start {name}")
        self._starts[task] = asyncio.get_running_loop().time()
        task.add_done_callback(log_failure)

    def _begin_chore(
        self, name: str, work: Coroutine[Any, Any, object], seconds: float = ASK_SECONDS
    ) -> None:
        """Run this in the background, unless an earlier one of this name is still running."""
        if name in self._chores:
            work.close()
            return

        async def chore() -> None:
            try:
                async with asyncio.timeout(seconds):
                    await work
            except (*TEMPORAL_AWAY, *AWAY) as error:
                _log.warning("chore_failed", chore=name, error=repr(error))
            except Exception as error:
                _log.error("chore_failed", chore=name, exc_info=error)

        task = self._chores[name] = asyncio.create_task(chore(), name=name)
        task.add_done_callback(lambda _: self._chores.pop(name, None))


@dataclass(frozen=True, slots=True)
class DispatchServices:
    """The resources that the dispatchers of a worker share.

    Attributes:
        database: the database with the work.
        client: the worker's own, so that a workflow can run here at once (eager start).
        claim_gate: decides whether this process may claim.
        lag: of the event loop; while it is too long, nothing is claimed.
        eager: off with worker versioning, which an eager start would bypass.
    """

    database: Database
    client: Client
    claim_gate: ClaimGate
    lag: LoopLag
    eager: bool


class WorkflowLoop(DispatchLoop, Generic[Claimed]):
    """Starts a workflow for each row that it claims, and gives back rows that have lost their workflow."""

    def __init__(
        self,
        services: DispatchServices,
        channels: Collection[str],
        name: str,
        table: WorkflowTable[Claimed],
    ) -> None:
        """Create the loop.

        Args:
            services: what it shares with other dispatchers.
            channels: of the notifications that concern it.
            name: of the task, for people who inspect a process.
            table: the rows that have the workflows.
        """
        super().__init__(services.database, dict.fromkeys(channels, self._on_notification), name)
        self._table = table
        self._client = services.client
        self._claim_gate = services.claim_gate
        self._lag = services.lag
        self._eager = services.eager

    @property
    def _may_claim(self) -> bool:
        return self._claim_gate.is_open and not self._lag.is_too_long

    @abstractmethod
    def _id(self, claimed: Claimed) -> UUID:
        """Return the id of its row."""

    @abstractmethod
    def _workflow_id(self, claimed: Claimed) -> str:
        """Return the id of its workflow."""

    @abstractmethod
    async def _start(self, claimed: Claimed) -> None:
        """Start its workflow."""

    @abstractmethod
    async def _give_back(self, claimed: Claimed, status: str) -> None:
        """Give back its remaining work: its workflow has closed before its end, with this status."""

    def _log_fields(self, claimed: Claimed) -> dict[str, object]:
        return {"workflow_id": self._workflow_id(claimed)}

    async def begin(self, claimed: Claimed) -> None:
        """Start the workflow of a claimed row. If that fails, a sweep repeats it."""
        try:
            async with asyncio.timeout(ASK_SECONDS):
                await self._start(claimed)
        except WorkflowAlreadyStartedError:
            await self._examine(claimed)
        except TEMPORAL_AWAY as error:
            _log.warning("start_failed", **self._log_fields(claimed), error=repr(error))
        else:
            await self._mark_begun(claimed)

    async def _examine(self, claimed: Claimed) -> None:
        """Check whether its workflow still runs; else give the row back."""
        handle = self._client.get_workflow_handle(self._workflow_id(claimed))
        status = (await handle.describe(rpc_timeout=timedelta(seconds=ASK_SECONDS))).status
        if status is WorkflowExecutionStatus.RUNNING:
            await self._mark_begun(claimed)
        else:
            await self._give_back(claimed, "unknown" if status is None else status.name.lower())

    async def _mark_begun(self, claimed: Claimed) -> None:
        async with self._database.connection() as connection:
            await self._table.mark_begun(connection, self._id(claimed))

    async def _sweep(self) -> None:
        async with self._database.connection() as connection:
            unseen = await self._table.find_unseen(connection)
        for one in unseen:
            self._begin_chore(str(self._id(one)), self.begin(one))


class OneByOneLoop(WorkflowLoop[Claimed]):
    """Claims rows one by one; a row fails when its workflow was ended from outside."""

    @abstractmethod
    async def _claim(self, connection: Connection) -> list[Claimed]:
        """Claim the rows that may begin."""

    @abstractmethod
    async def _fail(self, claimed: Claimed, message: str) -> None:
        """End it as failed."""

    async def _claim_all(self) -> float:
        if (full_until := self._starts_full_until()) is not None:
            return full_until
        if self._may_claim:
            async with self._database.connection() as connection:
                claimed = await self._claim(connection)
            for one in claimed:
                self._spawn_start(str(self._id(one)), self.begin(one))
        # Each end wakes the loop: after this pause one claim serves all the room that appeared.
        await asyncio.sleep(_CLAIM_PAUSE)
        return float("inf")

    async def _give_back(self, claimed: Claimed, status: str) -> None:
        workflow_id = self._workflow_id(claimed)
        try:
            await self._fail(claimed, f"Its Temporal workflow {workflow_id} has ended before it: {status}.")
        except AWAY as error:
            _log.warning("not_given_up", workflow_id=workflow_id, error=str(error))
