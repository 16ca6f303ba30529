"""The maintenance chores: they refresh data, and delete data that is no longer needed."""

from __future__ import annotations

from datetime import timedelta

from pydantic import BaseModel
from temporalio import activity
from temporalio.exceptions import ApplicationError

import logs
from database import Database
from execution.heartbeat import heartbeats
from models import audit
from models.chat import conversations
from models.credits import paid_blocks
from models.jobs import cleanup
from models.lookups import cached_answers
from models.runs import bulk_actions, history, step_answers, uploads
from models.webhooks import delivery_recovery
from providers import dataset_refresh
from settings import Settings
from workflows.messages import TEND_HISTORY

_log = logs.get(__name__)


class RefreshedDataset(BaseModel):
    """The result for one dataset: `installed` or `present`, its version, and its origin."""

    name: str
    status: str
    version: str | None
    detail: str


class MaintenanceActivities:
    """The activities of the maintenance workflows."""

    def __init__(self, settings: Settings, database: Database) -> None:
        self._settings = settings
        self._database = database

    @activity.defn
    async def refresh_datasets(self) -> list[RefreshedDataset]:
        """Fetch the newest lookup data; skip datasets that are up to date.

        Raises:
            ApplicationError: `datasets_failed`, if one could not be fetched. The others are in place, and
                the old version of this one stays in use.
        """
        async with heartbeats():
            fetched = await dataset_refresh.fetch(self._settings, report=_report)
        failed = [f"{one.name}: {one.detail}" for one in fetched if one.status == "failed"]
        if failed:
            raise ApplicationError("; ".join(failed), type="datasets_failed")
        return [
            RefreshedDataset(name=one.name, status=one.status, version=one.version, detail=one.detail)
            for one in fetched
        ]

    @activity.defn
    async def purge_lookups(self) -> int:
        """Delete data of lookups and chats that is no longer needed; return the number of rows.

        These are cached answers that are too old even as stale ones, paid blocks whose pages are no longer
        free, and conversations that nobody has continued for 30 days. They are deleted in batches, so that no
        statement reaches its timeout, and finished batches stay deleted.
        """
        purged = 0
        async with heartbeats(), self._database.chore_connection() as connection:
            for purge in (cached_answers.purge, paid_blocks.purge, conversations.purge):
                while some := await purge(connection):
                    purged += some
        return purged

    @activity.defn
    async def purge_jobs(self) -> int:
        """Delete bulk jobs that are too old; return their number.

        Dispatchers delete their rows later, as for jobs that their owners delete.
        """
        async with heartbeats(), self._database.chore_connection() as connection:
            return await cleanup.hide_old(connection, self._settings.retention_days)

    @activity.defn(name=TEND_HISTORY)
    async def maintain_partitions(self) -> int:
        """Create the partitions of the coming weeks, and drop those that are older than runs are kept.

        Also delete answers to ended runs, keys that workflows have forgotten, and audit entries of runs that
        are too old. Uploads store how their runs ended, and are deleted with them; bulk actions too.

        Returns:
            The number of dropped weeks.
        """
        async with heartbeats(), self._database.chore_connection() as connection:
            await history.make_partitions(connection)
            await delivery_recovery.delete_empty_batches(connection)
            kept = timedelta(days=self._settings.retention_days)
            await step_answers.purge(connection)
            await audit.delete_of_runs(connection, kept)
            await uploads.expire(connection, kept)
            await bulk_actions.expire(connection, kept)
            # Dropping waits for readers. If that takes too long, the next call continues.
            return await history.drop_old(connection, kept)


def _report(line: str) -> None:
    _log.info("fetching_datasets", detail=line)
