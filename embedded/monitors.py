"""Monitors of an account as an operator handles them at the command line, straight on the database."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, replace
from typing import Self
from uuid import UUID

from database import Connection, Database
from embedded.administration import checked_name, find_account, opened, operator
from models.audit import Actor
from models.errors import FieldError, Invalid, NotFound
from models.identifiers import parse_id
from models.lists import TargetType
from models.monitors import monitors, removing, results, runs
from models.monitors.monitors import MonitorView, Plan
from models.monitors.results import Result
from models.monitors.runs import MonitorRunView
from services.monitors import check_plan
from services.process_pool import ProcessPool
from services.targets import check_targets
from settings import Settings

_LOOK_SECONDS = 0.5
_RUNS, _RESULTS = 100, 200
_TOLD_TARGETS = 10


@dataclass(frozen=True)
class AccountMonitors:
    """The monitors of one account, on an open database.

    Nobody is notified of what is done here: workers look by themselves each second.
    """

    database: Database
    actor: Actor
    kept_days: int

    @classmethod
    @contextlib.asynccontextmanager
    async def opened(cls, settings: Settings, database_url: str, email: str) -> AsyncGenerator[Self]:
        """Open those of the account with this e-mail, for the time of the block.

        Raises:
            ModelError: there is no such account.
        """
        async with opened(database_url) as database:
            async with database.connection() as connection:
                account = await find_account(connection, email)
            yield cls(database, operator(account.id), settings.retention_days)

    async def create(self, type: TargetType, plan: Plan, texts: Sequence[str]) -> MonitorView:
        """Create a monitor of these targets, or of the plan's list.

        Raises:
            Invalid: with all that does not fit, by field.
            Conflict: the account has as many monitors as it may, or these are too many targets.
        """
        plan = replace(plan, name=checked_name(plan.name))
        pool = ProcessPool()
        try:
            checked = await check_targets(pool, self.actor.account_id, type, texts)
        finally:
            await pool.close()
        errors = check_plan(type, plan)
        errors += [
            FieldError(f"/targets/{one.position}", one.code, f"{texts[one.position]}: {one.message}")
            for one in checked.rejected[:_TOLD_TARGETS]
        ]
        if more := len(checked.rejected[_TOLD_TARGETS:]):
            errors.append(FieldError("/targets", "invalid_targets", f"There are {more:,} more like these."))
        if errors:
            raise Invalid(errors)
        async with self.database.transaction() as connection:
            created = await monitors.create(connection, self.actor, type, plan, checked.targets)
        return await self.get(str(created))

    async def list_all(self) -> list[MonitorView]:
        """All of them, newest first."""
        async with self.database.connection() as connection:
            return await monitors.list_all(connection, self.actor.account_id, self.kept_days)

    async def get(self, monitor_id: str) -> MonitorView:
        """One of them.

        Raises:
            NotFound: the account has no such monitor; so do all below.
        """
        async with self.database.connection() as connection:
            return await monitors.get(connection, self.actor.account_id, _id(monitor_id), self.kept_days)

    async def start(self, monitor_id: str) -> MonitorRunView:
        """Accept a run of a monitor.

        Raises:
            Conflict: a run is under way, or there are no targets.
            InsufficientCredits: the balance does not cover it.
        """
        account_id, parsed = self.actor.account_id, _id(monitor_id)
        async with self.database.transaction() as connection:
            started = await runs.start(connection, account_id, parsed)
            return await runs.get(connection, account_id, parsed, started.run_id)

    async def ended(self, run: MonitorRunView) -> MonitorRunView:
        """Wait for the end of a run."""
        async with self.database.connection() as connection:
            while run.completed_at is None:
                await asyncio.sleep(_LOOK_SECONDS)
                run = await runs.get(connection, self.actor.account_id, run.monitor_id, run.id)
        return run

    async def pause(self, monitor_id: str) -> MonitorView:
        """Let a monitor no longer run by itself."""
        async with self.database.transaction() as connection:
            await monitors.pause(connection, self.actor, _id(monitor_id))
        return await self.get(monitor_id)

    async def resume(self, monitor_id: str) -> MonitorView:
        """Let a monitor run by itself again.

        Raises:
            Conflict: its list is gone.
        """
        async with self.database.transaction() as connection:
            await monitors.resume(connection, self.actor, _id(monitor_id))
        return await self.get(monitor_id)

    async def delete(self, monitor_id: str) -> None:
        """Delete a monitor, with its runs and what they have found."""
        async with self.database.transaction() as connection:
            await removing.delete(connection, self.actor, _id(monitor_id))

    async def find_run(self, monitor_id: str, run_id: str | None) -> MonitorRunView:
        """Find a run of a monitor, without an id the last that has results.

        Raises:
            Invalid: there is no such run, or none has results.
        """
        monitor = await self.get(monitor_id)
        async with self.database.connection() as connection:
            if run_id is None:
                return await self._last_run(connection, monitor.id)
            parsed = parse_id(run_id)
            with contextlib.suppress(NotFound):
                if parsed is not None:
                    return await runs.get(connection, self.actor.account_id, monitor.id, parsed)
        raise Invalid([FieldError("/run", "not_found", "The monitor has no such run.")])

    async def results(self, run: MonitorRunView, *, changes_only: bool) -> AsyncGenerator[Result]:
        """Give what a run has found, in the order of its targets."""
        after = -1
        async with self.database.connection() as connection:
            while found := await results.read_after(
                connection, run.id, after=after, limit=_RESULTS, changes_only=changes_only
            ):
                for one in found:
                    yield one
                after = found[-1].position

    async def _last_run(self, connection: Connection, monitor_id: UUID) -> MonitorRunView:
        offset, total = 0, 1
        while offset < total:
            found, total = await runs.list_some(
                connection, self.actor.account_id, monitor_id=monitor_id, limit=_RUNS, offset=offset
            )
            for run in found:
                if run.processed_records:
                    return run
            offset += _RUNS
        raise Invalid([FieldError("/run", "no_results", "No run of the monitor has results yet.")])


def _id(text: str) -> UUID:
    parsed = parse_id(text)
    if parsed is None:
        raise NotFound("monitor")
    return parsed
