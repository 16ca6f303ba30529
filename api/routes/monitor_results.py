"""The results of monitors' runs: as arrays, as pages, as files, and for one target over time."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Annotated, Any
from uuid import UUID

import orjson
from fastapi import APIRouter, Depends, Query
from fastapi.responses import Response, StreamingResponse
from pydantic import BaseModel, Field

from api.account_stream import AccountStream
from api.deps import Caller, Id, Services, ServicesDep, require_scope
from api.http.cursors import Cursor, Limit, cursor_of_id, id_of
from api.http.query import Digits
from api.http.streaming import json_array
from api.http.strict_route import StrictRoute
from models.monitors import monitors, results, runs
from models.monitors.results import PastResultView, Result, ResultView
from services.csv_files import write_csv
from services.monitors import columns, row_of
from services.targets import LONGEST, check_targets

_results = APIRouter(tags=["monitors"], route_class=StrictRoute)

Owner = Annotated[Caller, require_scope("monitors")]
ChangesOnly = Annotated[bool, Query(description="Only those of targets that have changed.")]

_AT_ONCE = 100
_CSV: dict[int | str, dict[str, Any]] = {
    200: {"description": "The file.", "content": {"text/csv": {"schema": {"type": "string"}}}}
}


class ResultPage(BaseModel):
    """Some results of a run, in the order of its targets."""

    results: list[ResultView] = Field(description="The results of this page.")
    total: int = Field(description="How many there are in all.")


class TargetHistory(BaseModel):
    """The results of one target in all runs, newest first."""

    results: list[PastResultView] = Field(description="The results of this page.")
    next_cursor: str | None = Field(
        description="Pass it as `cursor` for the next page; null on the last one."
    )


@dataclass(frozen=True, slots=True)
class ResultQuery:
    """Some results of a run; all of them without `limit` and `offset`."""

    changes_only: bool
    limit: int | None
    offset: int | None

    @property
    def is_whole(self) -> bool:
        """Return whether all results are wanted."""
        return self.limit is None and self.offset is None


async def read_query(
    changes_only: ChangesOnly = False,
    limit: Annotated[int | None, Query(ge=1, le=100, description="How many to give at most."), Digits] = None,
    offset: Annotated[
        int | None, Query(ge=0, le=1_000_000, description="How many to leave out."), Digits
    ] = None,
) -> ResultQuery:
    """Return the query of the results of a run."""
    return ResultQuery(changes_only, limit, offset)


@_results.get("/{id}/runs/{run_id}/results", response_model=list[ResultView] | ResultPage)
async def list_run_results(
    id: Id,
    run_id: Id,
    caller: Owner,
    services: ServicesDep,
    query: Annotated[ResultQuery, Depends(read_query)],
) -> Response:
    """List the results of the run in the order of its targets: all of them as an array.

    With `limit` (100 by default) or `offset` (0 by default), some of them as an object with their `total`.
    For a run in progress, the results so far.
    """
    async with services.database.connection() as connection:
        run = await runs.get(connection, caller.account_id, id, run_id)
        if query.is_whole:
            first = await results.read_after(
                connection, run_id, after=-1, limit=_AT_ONCE, changes_only=query.changes_only
            )
            chunks = _chunks(services, run_id, first, query.changes_only)
            shown = ([one.to_view() for one in chunk] async for chunk in chunks)
            return AccountStream(json_array(shown), media_type="application/json")
        page = await results.list_some(
            connection, run_id, limit=query.limit or 100, offset=query.offset or 0,
            changes_only=query.changes_only,
        )  # fmt: skip
    total = run.changes_detected if query.changes_only else run.processed_records
    return json_answer({"results": [one.to_view() for one in page], "total": total})


@_results.get("/{id}/runs/{run_id}/results/download", response_class=StreamingResponse, responses=_CSV)
async def download_run_results(
    id: Id, run_id: Id, caller: Owner, services: ServicesDep, changes_only: ChangesOnly = False
) -> Response:
    """Get the results of the run as a CSV file, one row for each target, safe to open in a spreadsheet.

    The columns are `target`, `has_changes`, `changed_fields`, `error`, `silent`, and one for each field of an
    answer.
    """
    async with services.database.connection() as connection:
        run = await runs.get(connection, caller.account_id, id, run_id)
        first = await results.read_after(
            connection, run_id, after=-1, limit=_AT_ONCE, changes_only=changes_only
        )
    header = columns(run.monitor_type)
    rows = _rows(_chunks(services, run_id, first, changes_only), header)
    return AccountStream(
        write_csv(header, rows),
        media_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="monitor-run-{run_id}.csv"'},
    )


@_results.get("/{id}/targets/history", response_model=TargetHistory)
async def list_target_history(
    id: Id,
    caller: Owner,
    services: ServicesDep,
    target: Annotated[
        str, Query(min_length=1, max_length=LONGEST, pattern=r"^[^\x00]+$", description="The target.")
    ],
    limit: Limit = 20,
    cursor: Cursor = None,
) -> Response:
    """List the results of a target in all ended runs, newest first; none if it is unknown."""
    before = id_of(cursor)
    async with services.database.connection() as connection:
        kept_days = services.settings.retention_days
        monitor = await monitors.get(connection, caller.account_id, id, kept_days)
    checked = await check_targets(services.pool, caller.account_id, monitor.monitor_type, [target])
    normal = checked.targets[0] if checked.targets else target.strip()
    async with services.database.connection() as connection:
        past, last = await results.list_past(connection, id, normal, before=before, limit=limit)
    return json_answer({"results": past, "next_cursor": cursor_of_id(last)})


def json_answer(content: Any) -> Response:
    """Return an answer with parts that are JSON already."""
    return Response(orjson.dumps(content, option=orjson.OPT_UTC_Z), media_type="application/json")


async def _chunks(
    services: Services, run_id: UUID, chunk: list[Result], changes_only: bool
) -> AsyncGenerator[list[Result]]:
    """Yield the results of a run from this first chunk on; no connection is held while sending."""
    while chunk:
        yield chunk
        if len(chunk) < _AT_ONCE:
            return
        async with services.database.connection() as connection:
            chunk = await results.read_after(
                connection, run_id, after=chunk[-1].position, limit=_AT_ONCE, changes_only=changes_only
            )


async def _rows(chunks: AsyncGenerator[list[Result]], header: list[str]) -> AsyncGenerator[list[Any]]:
    async for chunk in chunks:
        for one in chunk:
            yield row_of(one, header)


# Paths below /api/agent/ accept keys only.
router = APIRouter()
for _mount in ("/api/monitors", "/api/agent/monitors"):
    router.include_router(_results, prefix=_mount)
