"""The questions to a list of runs, and the SQL that answers them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, LiteralString
from uuid import UUID

from language.search import normalize
from models.identifiers import id_at
from models.runs.run_views import RunStatus
from models.runs.search_values import MOST_FOUND, select_found

Part = Literal["input", "output", "steps"]
"""A part of a listed run that is included only on request."""
PARTS: tuple[Part, ...] = ("input", "output", "steps")
SCANNED = 20_000
"""The most runs that a page looks at by filters that no index serves."""
OF_WORK: dict[str, LiteralString] = {
    "queued": "status = 'queued'",
    "running": "status = 'running' and (wake_at is null or wake_at <= now())",
    "waiting": "(status = 'waiting' or status = 'running' and wake_at > now())",
}
"""The condition on `run_work` of each status of a run that has not ended."""
# An upload has few enough runs that they can be counted.
OF_UPLOAD: tuple[LiteralString, LiteralString] = (
    " and upload_id = %(upload_id)s and ",
    " between (select first_run_id from uploads where id = %(upload_id)s)"
    " and (select last_run_id from uploads where id = %(upload_id)s)",
)


@dataclass(frozen=True, slots=True)
class RunQuery:
    """A page of a list of runs.

    Attributes:
        automation_id: only runs of this workflow.
        upload_id: only runs of this upload.
        status: only runs with this status.
        since, until: only runs accepted from the one and before the other.
        trigger: only runs that began by this.
        error_code: only runs that failed with this code.
        step: only runs that failed at this step.
        parent_run_id: only runs that this run started.
        q: only runs with this value at a path that their workflow names in `search`; `*` ends a beginning.
        before: only runs older than this one: the last of the page before.
        include: further parts of each run, as far as there is room.
        page: the number of the page, from 1.
        limit: the highest number of runs on it.
    """

    automation_id: UUID | None = None
    upload_id: UUID | None = None
    status: RunStatus | None = None
    include: Collection[Part] = ()
    page: int = 1
    limit: int = 20
    since: datetime | None = None
    until: datetime | None = None
    trigger: str | None = None
    error_code: str | None = None
    step: str | None = None
    parent_run_id: UUID | None = None
    q: str | None = None
    before: UUID | None = None

    @property
    def is_beginning(self) -> bool:
        """Return whether `q` is the beginning of a value."""
        return self.q is not None and self.q.endswith("*")

    @property
    def value(self) -> str | None:
        """Return the wanted value, or its beginning, normal."""
        return None if self.q is None else normalize(self.q[:-1] if self.is_beginning else self.q)

    @property
    def is_counted(self) -> bool:
        """Return whether the number of all such runs is known without looking at each."""
        return self == RunQuery(
            self.automation_id, self.upload_id, self.status, self.include, self.page, self.limit
        )


def parameters_of(query: RunQuery, account_id: UUID) -> dict[str, Any]:
    """Return the parameters of the statements below."""
    return {
        "account_id": account_id, "automation_id": query.automation_id, "upload_id": query.upload_id,
        "status": query.status, "since": query.since and id_at(query.since), "before": query.before,
        "until": query.until and id_at(query.until), "trigger": query.trigger, "code": query.error_code,
        "step": query.step, "parent": query.parent_run_id, "scanned": SCANNED, "limit": query.limit + 1,
        "value": query.value, "most": MOST_FOUND,
    }  # fmt: skip


def select_runs(query: RunQuery, columns: LiteralString = "c.*") -> LiteralString:
    """Return the statement that selects a page of runs, and one more if there are more."""
    conditions: tuple[tuple[object, LiteralString], ...] = (
        (query.trigger, " and c.trigger = %(trigger)s"),
        (query.error_code, " and c.error->>'code' = %(code)s"),
        (query.step, " and c.error->>'step' = %(step)s"),
        (query.parent_run_id, " and c.parent_run_id = %(parent)s"),
    )
    if query.q is not None:
        conditions = (*conditions, *_conditions_on_found(query))
    filters: LiteralString = ""
    for value, condition in conditions:
        filters += condition if value is not None else ""
    return (
        "select " + columns + " from " + _candidates(query, "*") + " c where true" + filters
        + " order by c.id desc limit %(limit)s"
    )  # fmt: skip


def select_end(query: RunQuery) -> LiteralString:
    """Return the statement that selects how many runs a page has looked at, and the oldest of them."""
    return (
        "select (array_agg(c.id order by c.id))[1] as id, count(*)::int as looked_at from "
        + _candidates(query, "id") + " c"
    )  # fmt: skip


def _candidates(query: RunQuery, columns: Literal["*", "id"]) -> LiteralString:
    """Return the sub-select of the runs that a page looks at: those that indexes find."""
    if query.q is not None:
        found = (
            "select id from (" + select_found(query.is_beginning) + ") s where true" + _range(query)
            + " order by id desc limit %(scanned)s"
        )  # fmt: skip
        return "(select " + columns + " from runs where id = any(array(" + found + ")))"
    if query.status in OF_WORK:
        work: LiteralString = (
            "select run_id from (select run_id as id, * from run_work) w where " + OF_WORK[query.status]
            + _bounds(query) + " order by id desc limit %(scanned)s"
        )  # fmt: skip
        return "(select " + columns + " from runs where id = any(array(" + work + ")))"
    of_status: LiteralString = " and status = %(status)s" if query.status is not None else ""
    # The children of a run are soon behind it.
    order: LiteralString = " order by id" + (" desc" if query.parent_run_id is None else "")
    return (
        "(select " + columns + " from runs where true" + of_status + _bounds(query) + order
        + " limit %(scanned)s)"
    )  # fmt: skip


def _conditions_on_found(query: RunQuery) -> tuple[tuple[object, LiteralString], ...]:
    """Return the conditions that the index of values does not know."""
    work = OF_WORK.get(query.status or "")
    return (
        (query.automation_id, " and c.automation_id = %(automation_id)s"),
        (query.upload_id, " and c.upload_id = %(upload_id)s"),
        (query.status if work is None else None, " and c.status = %(status)s"),
        (work, " and exists (select from run_work where run_id = c.id and " + (work or "true") + ")"),
    )


def _bounds(query: RunQuery) -> LiteralString:
    bounds: LiteralString = " and account_id = %(account_id)s" + _range(query)
    if query.automation_id is not None:
        bounds += " and automation_id = %(automation_id)s"
    if query.upload_id is not None:
        bounds += OF_UPLOAD[0] + "id" + OF_UPLOAD[1]
    return bounds


def _range(query: RunQuery) -> LiteralString:
    """Return the conditions on ids: they begin with a time."""
    bounds: LiteralString = ""
    if query.since is not None:
        bounds += " and id >= %(since)s"
    if query.until is not None:
        bounds += " and id < %(until)s"
    if query.before is not None:
        bounds += " and id < %(before)s"
    if query.parent_run_id is not None:
        bounds += " and id > %(parent)s"
    return bounds
