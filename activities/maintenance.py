"""What has to be done now and then: fresh lookup data, and kept answers that serve nobody any more."""

from __future__ import annotations

from pydantic import BaseModel
from temporalio import activity
from temporalio.exceptions import ApplicationError

import logs
from activities.heartbeat import heartbeats
from database import Database
from models import lookups, paid_blocks
from providers import datasets
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
            fetched = await datasets.fetch(self._settings, report=_report)
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
            for purge in (lookups.purge, paid_blocks.purge):
                while some := await purge(connection):
                    purged += some
        return purged


def _report(line: str) -> None:
    _log.info("fetching_datasets", detail=line)
