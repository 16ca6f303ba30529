"""The driver of a claimed run, for either carrier."""

from __future__ import annotations

from engine.driver import Driver
from engine.run_room import RunRoom
from engine.state import RunInput
from execution.versions import LoadedVersion
from language.progress import read_progress
from models.runs.run_loading import Recorded
from models.runs.run_work import ClaimedRun


def create_driver(version: LoadedVersion, run: ClaimedRun, recorded: Recorded, room: RunRoom) -> Driver:
    """Create the driver that continues a run from its rows.

    The values in `run` and `recorded` move to it: it alone knows for which of them there is room.
    """
    given = RunInput(
        run_id=run.run_id,
        started_at=run.started_at,
        trigger=run.trigger,
        request=run.request,
        size=run.size,
        stored=run.unloaded,
        done=recorded.parse_steps(),
        items=recorded.items_done(),
        progress=read_progress(run.progress),
        queued_at=run.queued_at,
    )
    run.trigger = run.request = None
    recorded.steps.clear()
    return Driver(version.plan, given, version.workflow, room)
