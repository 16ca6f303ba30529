"""The loop of bulk actions: takes a share of an action at a time, and changes its runs."""

from __future__ import annotations

import asyncio
from uuid import UUID

import logs
from database import AWAY, Connection
from dispatch.loop import DispatchLoop, DispatchServices
from models import audit
from models.accounts import agents
from models.audit import Target
from models.errors import DomainError
from models.priorities import BULK
from models.runs import bulk_actions, cancellation, retries, runs
from models.runs.bulk_actions import RunError, Share
from models.runs.retries import RetryRequest
from models.runs.run_bounds import UnfinishedRuns
from notifications import Notifier

_log = logs.get(__name__)
# Between two shares, other work of this process and of the database has its turn.
_PAUSE = 0.02


class BulkActionLoop(DispatchLoop):
    """Carries out bulk actions; each worker process has one, and any number can run in parallel.

    A share is one transaction: the retries and cancellations, and the count of the runs that were taken. If
    the process dies before the commit, another one takes the same share.
    """

    def __init__(self, services: DispatchServices, notifier: Notifier, unfinished: UnfinishedRuns) -> None:
        """Create the loop.

        Args:
            services: what it shares with other dispatchers.
            notifier: notifies of accepted and of cancelled runs.
            unfinished: the bound of unfinished runs in each account.
        """
        handlers = {bulk_actions.STARTED_CHANNEL: self._on_notification}
        super().__init__(services.database, handlers, "bulk actions")
        self._services = services
        self._notifier = notifier
        self._unfinished = unfinished

    async def _claim_all(self) -> float:
        while not self._stopping and self._services.claim_gate.is_open and not self._services.lag.is_too_long:
            if not await self._take_share():
                break
            await asyncio.sleep(_PAUSE)
        return float("inf")

    async def _sweep(self) -> None:
        """Do nothing: an action without its worker is simply due."""

    async def _take_share(self) -> bool:
        """Take a share; return whether one was due."""
        async with self._database.transaction() as connection:
            share = await bulk_actions.take(connection)
            if share is None:
                return False
            work = self._retry if share.action == "retry" else self._cancel
            ended = await work(connection, share)
            await bulk_actions.record(connection, share)
        if ended:
            cancellation.notify_ends(self._notifier, ended)
        elif share.done:
            self._notifier.notify(runs.QUEUED_CHANNEL, str(share.account_id))
        return True

    async def _retry(self, connection: Connection, share: Share) -> list[UUID]:
        """Retry runs until the account has no room for another one."""
        workflows = await bulk_actions.find_workflows(connection, share.run_ids)
        for run_id in share.run_ids:
            if await self._unfinished.find_full(connection, {share.account_id: 1}):
                break
            share.taken += 1
            key = retries.first_retry_key(run_id)
            _, newest = workflows.get(run_id, (None, None))
            version = newest if share.version == "newest" else None
            request = RetryRequest(run_id, version=version, dedupe_key=key, priority=BULK)
            try:
                async with connection.transaction():
                    await agents.check_retry(connection, share.actor, run_id, version)
                    retry = await retries.retry(
                        connection, share.actor, request, may_look_up=share.may_look_up
                    )
                if retry.repeated:
                    share.refused.append(_describe_earlier_retry(run_id))
                else:
                    share.done += 1
            except DomainError as error:
                share.refused.append(RunError(run_id=run_id, code=error.code, message=error.message))
            except AWAY:
                raise
            except Exception as error:
                # One run that makes us fail must not keep the others from being retried.
                _log.error("run_not_retried", run_id=str(run_id), exc_info=error)
                message = "The retry made us fail."
                share.faults.append(RunError(run_id=run_id, code="internal_error", message=message))
        return []

    async def _cancel(self, connection: Connection, share: Share) -> list[UUID]:
        """Cancel the runs that have not ended; return all that ended by it."""
        ended, children = await cancellation.cancel_these(connection, share.account_id, share.run_ids)
        workflows = await bulk_actions.find_workflows(connection, ended)
        for run_id in ended:
            target, changes = Target("workflow", workflows[run_id][0]), {"run_id": str(run_id)}
            await audit.record(connection, share.actor, "run.cancelled", target, changes)
        message = "The run had ended before."
        share.refused = [
            RunError(run_id=run_id, code="run_ended", message=message)
            for run_id in share.run_ids
            if run_id not in workflows
        ]
        share.taken, share.done = len(share.run_ids), len(ended)
        return ended + children


def _describe_earlier_retry(run_id: UUID) -> RunError:
    message = "The run was retried since the dry run; retry its newest retry, or this run by itself."
    return RunError(run_id=run_id, code="already_retried", message=message)
