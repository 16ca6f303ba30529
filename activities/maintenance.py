"""What has to be done now and then, so that data is fresh and what serves nobody any more is gone."""

from __future__ import annotations

from datetime import timedelta

from pydantic import BaseModel
from temporalio import activity
from temporalio.exceptions import ApplicationError

import logs
from database import Database
from execution.heartbeat import heartbeats
from models import audit
from models.credits import paid_blocks
from models.jobs import cleanup
from models.lookups import cached_answers
from models.runs import history, step_answers, uploads
from models.webhooks import delivery_recovery
from providers import dataset_refresh
from settings import Settings

_log = logs.get(__name__)


class RefreshedDataset(BaseModel):
    """What became of one dataset: `installed` or `present`, its version, and where it came from."""

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
        """Fetch the newest lookup data; what is the newest already is left as it is.

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
        """Delete what lookups have left that serves nobody any more; returns how many rows there were.

        Kept answers that are too old even to stand in, and paid blocks whose pages are free no longer. Some
        at a time: however many there are, no statement reaches its timeout, and what is done stays done.
        """
        purged = 0
        async with heartbeats(), self._database.connection() as connection:
            for purge in (cached_answers.purge, paid_blocks.purge):
                while some := await purge(connection):
                    purged += some
        return purged

    @activity.defn
    async def purge_jobs(self) -> int:
        """Delete bulk jobs that are older than they are kept; returns how many there were.

        What they have left is removed by dispatchers, as for jobs that their owners delete.
        """
        async with heartbeats(), self._database.connection() as connection:
            return await cleanup.hide_old(connection, self._settings.retention_days)

    @activity.defn
    async def tend_history(self) -> int:
        """Make the partitions of the weeks to come, and drop those that are older than runs are kept.

        Deleted is also what runs were given that have ended, what workflows have forgotten, and what the
        audit log tells of runs that are too old. Uploads keep how their runs ended, and go with them.

        Returns:
            How many weeks were dropped.
        """
        async with heartbeats():
            # Who reads what goes is waited for. If it takes longer, the next time goes on with it.
            async with await self._database.dedicated(options="-c statement_timeout=10min") as connection:
                await history.make_partitions(connection)
                await delivery_recovery.delete_empty_batches(connection)
                kept = timedelta(days=self._settings.retention_days)
                await step_answers.purge(connection)
                await audit.delete_of_runs(connection, kept)
                await uploads.tend(connection, kept)
                return await history.drop_old(connection, kept)


def _report(line: str) -> None:
    _log.info("fetching_datasets", detail=line)
