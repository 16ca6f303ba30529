"""The query parameters of lists of runs."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any

from fastapi import Depends, Query
from pydantic import AfterValidator, AwareDatetime, BeforeValidator, Field
from pydantic_core import PydanticCustomError

from api.deps import Id
from api.http.cursors import Cursor, Limit, Page, id_of
from language.findings import describe_named
from language.search import MAX_LENGTH
from models.errors import FieldError, Invalid
from models.runs.run_queries import PARTS, Part, RunQuery
from models.runs.run_views import RunStatus, TriggerType


def _parse_parts(given: list[str]) -> list[Part]:
    names = [name.strip() for text in given for name in text.split(",") if name.strip()]
    if unknown := dict.fromkeys(name for name in names if name not in PARTS):
        told = ", ".join(describe_named("part", name) for name in list(unknown)[:10])
        message = f"A run has no {told}; there are: {', '.join(PARTS)}."
        raise PydanticCustomError("not_allowed", "{message}", {"message": message})
    return [part for part in PARTS if part in names]


Included = Annotated[
    list[Part],
    BeforeValidator(_parse_parts),
    Query(
        default_factory=list,
        description="What else to give of each run; several are parted by commas, or repeated.",
    ),
]


def _check_iso_time(given: Any) -> Any:
    # As a number, it would be seconds since 1970.
    if not isinstance(given, str) or not re.match(r"\d{4}-\d\d-\d\d[Tt ]", given):
        raise PydanticCustomError("invalid_format", "Must be a time by ISO 8601, as 2026-11-01T00:00:00Z.")
    return given


Time = Annotated[AwareDatetime, BeforeValidator(_check_iso_time)]
"""A time by ISO 8601, with its zone."""


def _check_sought(given: str) -> str:
    if "\0" in given or not given.removesuffix("*").strip():
        raise PydanticCustomError("invalid_format", "Must be a value, or its beginning before a *.")
    return given


SoughtValue = Annotated[str, Field(max_length=MAX_LENGTH + 1), AfterValidator(_check_sought)]
"""A value by which runs are found, or its beginning with a `*` behind it."""


def check_order(since: datetime | None, until: datetime | None) -> bool:
    """Return whether a stretch of time ends after its beginning."""
    return since is None or until is None or until > since


async def _read_time(
    since: Annotated[Time | None, Query(description="Only runs accepted then or later.")] = None,
    until: Annotated[Time | None, Query(description="Only runs accepted before then.")] = None,
) -> RunQuery:
    """Return a query of the runs of a stretch of time."""
    if not check_order(since, until):
        message = "The end is not after the beginning (`since`)."
        raise Invalid([FieldError("", "out_of_range", message, parameter="until")])
    return RunQuery(since=since, until=until)


async def _read_cause(
    trigger: Annotated[TriggerType | None, Query(description="Only runs that began by this.")] = None,
    error_code: Annotated[
        str | None, Query(description="Only runs that failed with this code.", max_length=100)
    ] = None,
    step: Annotated[
        str | None, Query(description="Only runs that failed at this step.", max_length=100)
    ] = None,
    parent_run_id: Annotated[Id | None, Query(description="Only runs that this run started.")] = None,
    q: Annotated[
        SoughtValue | None,
        Query(
            description="Only runs with this value, in any case, at a path that their workflow names in"
            " `search`; with `*` at its end, all that begin so.",
        ),
    ] = None,
) -> RunQuery:
    """Return a query of the runs with a beginning, an end or a value of this kind."""
    return RunQuery(trigger=trigger, error_code=error_code, step=step, parent_run_id=parent_run_id, q=q)


async def _read_page(include: Included, page: Page = 1, limit: Limit = 20, cursor: Cursor = None) -> RunQuery:
    """Return a query of a page.

    Raises:
        Invalid: there is a page and a cursor.
    """
    if cursor is not None and page != 1:
        message = "Give a page or a cursor, not both."
        raise Invalid([FieldError("", "not_allowed", message, parameter="page")])
    return RunQuery(include=include, page=page, limit=limit, before=id_of(cursor))


async def read_query(
    of_time: Annotated[RunQuery, Depends(_read_time)],
    of_cause: Annotated[RunQuery, Depends(_read_cause)],
    of_page: Annotated[RunQuery, Depends(_read_page)],
    workflow_id: Annotated[Id | None, Query(description="Only runs of this workflow.")] = None,
    batch_id: Annotated[Id | None, Query(description="Only runs of this batch.")] = None,
    status: Annotated[RunStatus | None, Query(description="Only those with this status.")] = None,
) -> RunQuery:
    """Return the query of a list of runs.

    Raises:
        Invalid: a page of runs that are not counted: they have cursors.
    """
    query = replace(
        of_page, automation_id=workflow_id, upload_id=batch_id, status=status, since=of_time.since,
        until=of_time.until, trigger=of_cause.trigger, error_code=of_cause.error_code, step=of_cause.step,
        parent_run_id=of_cause.parent_run_id, q=of_cause.q,
    )  # fmt: skip
    if query.page != 1 and not query.is_counted:
        message = (
            "With these filters, pages have no number: send `next_cursor` of the page before as `cursor`."
        )
        raise Invalid([FieldError("", "not_allowed", message, parameter="page")])
    return query
