"""The start of child runs: the runs of other workflows that steps begin, many in one transaction.

A `for_each` step may begin thousands. One transaction for each would take a connection for several round
trips, and other accounts wait for connections too.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from typing import Any, NamedTuple
from uuid import UUID

import psycopg

from database import Connection, Database
from engine.calls import AttemptResult, failed_attempt
from micro_batcher import MicroBatcher
from models.automations import run_targets
from models.automations.run_targets import RunTarget
from models.errors import Conflict, Invalid, NotFound
from models.runs import acceptance, child_runs, run_bounds
from models.runs.acceptance import RunAcceptance, RunRequest
from models.runs.child_runs import Key
from models.runs.run_bounds import TooManyRuns, UnfinishedRuns
from models.runs.runs import QUEUED_CHANNEL
from notifications import Notifier
from services.event_checks import ChecksWaiting, EventChecks
from services.process_pool import PoolBusy, WorkLost
from settings import Settings

_CHECK_AGAIN_SECONDS = 1.0
# Whoever has locked a parent writes it, which takes milliseconds.
_BUSY_SECONDS = 0.02
PENDING = AttemptResult(None, pending=True)


# None: the parent has ended.
_Answer = RunAcceptance | None


class _Start(NamedTuple):
    """A child to begin."""

    parent_run_id: UUID
    event: RunRequest


class ChildStarts:
    """Begins child runs, each once for its key."""

    def __init__(
        self, database: Database, notifier: Notifier, checks: EventChecks, settings: Settings
    ) -> None:
        """Create it.

        Args:
            database: the database with the runs.
            notifier: notifies dispatchers of accepted runs.
            checks: check the inputs of other workflows against their schemas.
            settings: contain the bounds on runs.
        """
        self._database = database
        self._notifier = notifier
        self._checks = checks
        self._unfinished = UnfinishedRuns(settings.max_unfinished_runs)
        self._most_descendants = settings.max_descendants
        self._targets: MicroBatcher[tuple[UUID, UUID], RunTarget] = MicroBatcher(self._find_targets)
        self._starts: MicroBatcher[_Start, _Answer] = MicroBatcher(
            self._accept_all, size=lambda start: start.event.size, in_flight=2
        )

    async def begin(
        self, account_id: UUID, parent_run_id: UUID, key: Key, asked: dict[str, Any]
    ) -> AttemptResult:
        """Begin the child with this key, unless it exists.

        Args:
            account_id: the owner of both runs.
            parent_run_id: the run whose step begins it.
            key: its workflow and the name of the step, or of its item.
            asked: the `input` of the step's record; its `input` is the child's.

        Returns:
            A pending result; or why there is no child.
        """
        try:
            target = await self._targets.submit((account_id, key.automation_id))
            await self._check(target, asked["input"])
            event = RunRequest(
                target, "workflow", asked["input"], dedupe_key=key.name, parent_run_id=parent_run_id
            )
            accepted = await self._accept(_Start(parent_run_id, event))
        except NotFound:
            return failed_attempt("workflow_not_found", "There is no such workflow any more.", asked)
        except (Conflict, TooManyRuns) as error:
            return failed_attempt(error.code, error.message, asked)
        except Invalid as invalid:
            first = invalid.errors[0]
            message = f"The workflow does not take this input: {first.pointer or '/'}: {first.message}"
            return failed_attempt("invalid_input", message, asked)
        if accepted is not None and accepted.status == "cancelled":
            message = "As many runs of the workflow as may be at a time were under way."
            return failed_attempt("child_failed", message, asked | {"run_id": str(accepted.run_id)})
        return PENDING

    async def _check(self, target: RunTarget, given: Any) -> None:
        while True:
            try:
                return await self._checks.check_input(target, given, "")
            except (ChecksWaiting, PoolBusy, WorkLost):
                await asyncio.sleep(_CHECK_AGAIN_SECONDS)

    async def _accept(self, start: _Start) -> _Answer:
        while True:
            try:
                return await self._starts.submit(start)
            except psycopg.errors.LockNotAvailable:
                await asyncio.sleep(_BUSY_SECONDS)

    async def _find_targets(self, asked: list[tuple[UUID, UUID]]) -> list[RunTarget | Exception]:
        found: dict[tuple[UUID, UUID], RunTarget | Exception] = {}
        async with self._database.connection() as connection:
            for one in dict.fromkeys(asked):
                try:
                    found[one] = await run_targets.event_target(connection, *one)
                except (NotFound, Conflict) as error:
                    found[one] = error
        return [found[one] for one in asked]

    async def _accept_all(self, starts: list[_Start]) -> list[_Answer | Exception]:
        answers: dict[UUID, _Answer | Exception] = {}
        async with self._database.transaction() as connection:
            fitting = await self._choose_fitting(connection, starts, answers)
            accepted = await acceptance.accept(connection, fitting) if fitting else []
        answers |= {event.run_id: one for event, one in zip(fitting, accepted, strict=True)}
        if fitting:
            self._notifier.notify(QUEUED_CHANNEL)
        return [answers[start.event.run_id] for start in starts]

    async def _choose_fitting(
        self, connection: Connection, starts: list[_Start], others: dict[UUID, _Answer | Exception]
    ) -> list[RunRequest]:
        """Return the runs that may begin, with their place below others; answer for the rest in `others`."""
        places, busy = await child_runs.lock_places_below(
            connection, {start.parent_run_id for start in starts}
        )
        below = Counter(places[parent].root_run_id for parent, _ in starts if parent in places)
        room = {
            root: await run_bounds.count_room_below(connection, root, below[root], self._most_descendants)
            for root in sorted(below)
        }
        fitting: list[RunRequest] = []
        for parent_run_id, event in starts:
            if (place := places.get(parent_run_id)) is None:
                is_busy = parent_run_id in busy
                others[event.run_id] = psycopg.errors.LockNotAvailable() if is_busy else None
            elif child_runs.is_too_deep(place.depth):
                message = "Workflows may run each other five deep; this one would be the sixth."
                others[event.run_id] = Conflict("workflow_too_deep", message)
            elif not room[place.root_run_id]:
                others[event.run_id] = self._too_many_below(place.root_run_id)
            else:
                try:
                    await self._unfinished.check(connection, event.target.account_id)
                except TooManyRuns as error:
                    others[event.run_id] = error
                    continue
                room[place.root_run_id] -= 1
                fitting.append(replace(event, root_run_id=place.root_run_id, depth=place.depth))
        return fitting

    def _too_many_below(self, root_run_id: UUID) -> Conflict:
        message = (
            f"{self._most_descendants:,} runs below the run {root_run_id} have not ended,"
            " and there may be no more: have it begin fewer at a time."
        )
        return Conflict("too_many_descendants", message)
