"""The statistics of an account over a window: stored sums and the entries that are not in them yet."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Literal, LiteralString, NamedTuple
from uuid import UUID

from pydantic import Field

from database import Connection
from models.stats.durations import estimate
from models.stats.windows import Bucket, Window
from models.views import View

By = Literal["none", "workflow", "error_code", "source", "endpoint", "monitor"]

MOST_GROUPS = 50


class RunOutcomes(View):
    """Runs that have ended."""

    completed: int = Field(description="How many completed.")
    failed: int = Field(description="How many failed.")
    cancelled: int = Field(description="How many were cancelled.")


class DeliveryOutcomes(View):
    """Deliveries of events that have ended."""

    delivered: int = Field(description="How many were delivered.")
    failed: int = Field(description="How many failed for good.")


class Percentiles(View):
    """How long runs took from their beginning to their end, in milliseconds; at most a fifth off."""

    p50: int = Field(description="Half of them took no longer.")
    p95: int = Field(description="95 % of them took no longer.")


class Figures(View):
    """What happened in a time."""

    runs: RunOutcomes = Field(description="Runs that ended.")
    run_ms: Percentiles | None = Field(
        description="How long completed and failed runs took; null without one."
    )
    lookups: dict[str, int] = Field(
        description="Answers of sources by outcome, as in `providers` of a lookup: `ok`, `empty`, `cached`."
    )
    deliveries: DeliveryOutcomes = Field(description="Deliveries that ended.")
    credits: int = Field(description="Credits that were spent, less those refunded.")
    changes: int = Field(description="Targets of monitors that had changed.")


class StatsBucket(Figures):
    """What happened in one bucket."""

    at: datetime = Field(description="When the bucket begins.")


class SourceStats(View):
    """The outcomes of a source."""

    source: str = Field(description="The source.")
    outcomes: dict[str, int] = Field(description="How often each outcome occurred.")


class StatsGroup(View):
    """What happened in the whole window, of one thing."""

    key: str = Field(description="The id, the name of the source, or the code of the error.")
    name: str | None = Field(
        description="What it is called, of an endpoint its URL; null for what has no name."
    )
    total: int = Field(description="How many there were.")
    outcomes: dict[str, int] = Field(description="The same by outcome; empty where there is only one.")
    run_ms: Percentiles | None = Field(description="How long its runs took; null for what has none.")


class StatsView(View):
    """The statistics of an account."""

    since: datetime = Field(description="When the first bucket begins.")
    until: datetime = Field(description="When the last bucket ends, which is not over yet.")
    bucket: Bucket = Field(description="The length of a bucket.")
    by: By = Field(description="What `groups` are of.")
    totals: Figures = Field(description="All buckets together.")
    buckets: list[StatsBucket] = Field(description="All buckets, the oldest first, also empty ones.")
    sources: list[SourceStats] = Field(description="The sources of lookups, those asked most often first.")
    groups: list[StatsGroup] = Field(description="The 50 groups with the most, the greatest first.")


class _Grouping(NamedTuple):
    """How groups are made: of which figure, by which column, and the names of their keys."""

    figure: str
    key: LiteralString = "subject"
    names: LiteralString = ""
    where: LiteralString = ""


_GROUPINGS: Mapping[By, _Grouping] = {
    "workflow": _Grouping("runs", names="select id, name from automations"),
    "error_code": _Grouping("runs", key="code", where=" where code <> ''"),
    "source": _Grouping("lookups"),
    "endpoint": _Grouping("deliveries", names="select id, url as name from endpoints"),
    "monitor": _Grouping("changes", names="select id, name from monitors"),
}
_SUMMED = frozenset({"runs", "deliveries", "credits", "changes"})

# Each part is a range of the primary key. Entries that are not added up yet are few.
_FOUND: LiteralString = """(
  select s.slot, s.figure, s.subject, s.outcome, s.code, s.bucket, s.amount
  from unnest(%(figures)s::text[], %(detailed)s::boolean[]) as k (figure, detailed)
  join stats s on s.account_id = %(account_id)s and s.grain = %(grain)s and s.figure = k.figure
    and s.detailed = k.detailed and s.slot >= %(since)s and s.slot < %(until)s
  union all
  select e.minute, e.figure, case when k.detailed then e.subject else '' end, e.outcome, e.code, e.bucket,
    e.amount
  from unnest(%(figures)s::text[], %(detailed)s::boolean[]) as k (figure, detailed)
  join stat_entries e on e.account_id = %(account_id)s and e.figure = k.figure
    and e.minute >= %(since)s and e.minute < %(until)s
) as found
"""
_SERIES: LiteralString = (
    "select date_bin(%(width)s, slot, %(since)s) as at, figure, subject, outcome, bucket,"
    " sum(amount)::bigint as amount from " + _FOUND + " group by 1, 2, 3, 4, 5"
)


async def read(connection: Connection, account_id: UUID, window: Window, by: By) -> StatsView:
    """Return what happened to an account in a window, with groups by `by`."""
    wanted = {
        "account_id": account_id, "grain": window.grain, "since": window.since, "until": window.until,
        "width": window.width, "figures": [*sorted(_SUMMED), "lookups"],
        "detailed": [False] * len(_SUMMED) + [True],
    }  # fmt: skip
    cursor = await connection.execute(_SERIES, wanted)
    rows = await cursor.fetchall()
    by_start: defaultdict[datetime, list[dict[str, Any]]] = defaultdict(list)
    sources: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        by_start[row["at"]].append(row)
        if row["figure"] == "lookups":
            sources[row["subject"]][row["outcome"]] += row["amount"]
    return StatsView(
        since=window.since,
        until=window.until,
        bucket=window.bucket,
        by=by,
        totals=Figures(**_figures(rows)),
        buckets=[StatsBucket(at=start, **_figures(by_start[start])) for start in window.starts],
        sources=[
            SourceStats(source=source, outcomes=dict(outcomes))
            for source, outcomes in sorted(sources.items(), key=lambda one: (-one[1].total(), one[0]))
        ],
        groups=[] if by == "none" else await _read_groups(connection, wanted, _GROUPINGS[by]),
    )


async def _read_groups(
    connection: Connection, wanted: Mapping[str, Any], grouping: _Grouping
) -> list[StatsGroup]:
    cursor = await connection.execute(
        "select " + grouping.key + " as key, outcome, bucket, sum(amount)::bigint as amount from "
        + _FOUND + grouping.where + " group by 1, 2, 3",
        {**wanted, "figures": [grouping.figure], "detailed": [grouping.key == "subject"]},
    )  # fmt: skip
    outcomes: defaultdict[str, Counter[str]] = defaultdict(Counter)
    durations: defaultdict[str, Counter[int]] = defaultdict(Counter)
    for row in await cursor.fetchall():
        outcomes[row["key"]][row["outcome"]] += row["amount"]
        if row["outcome"] != "cancelled":
            durations[row["key"]][row["bucket"]] += row["amount"]
    first = sorted(outcomes, key=lambda key: (-outcomes[key].total(), key))[:MOST_GROUPS]
    names = await _read_names(connection, wanted["account_id"], grouping, first)
    return [
        StatsGroup(
            key=key,
            name=names.get(key),
            total=outcomes[key].total(),
            outcomes={outcome: count for outcome, count in outcomes[key].items() if outcome},
            run_ms=_percentiles(durations[key]),
        )
        for key in first
    ]


async def _read_names(
    connection: Connection, account_id: UUID, grouping: _Grouping, keys: Iterable[str]
) -> dict[str, str]:
    if not grouping.names:
        return {}
    cursor = await connection.execute(
        grouping.names + " where account_id = %s and id = any(%s::uuid[])", (account_id, list(keys))
    )
    return {str(row["id"]): row["name"] for row in await cursor.fetchall()}


def _figures(rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the members of `Figures` from sums."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    durations: Counter[int] = Counter()
    for row in rows:
        counts[row["figure"]][row["outcome"]] += row["amount"]
        if row["figure"] == "runs" and row["outcome"] != "cancelled":
            durations[row["bucket"]] += row["amount"]
    runs, deliveries, credits = counts["runs"], counts["deliveries"], counts["credits"]
    return {
        "runs": RunOutcomes(**{name: runs[name] for name in RunOutcomes.model_fields}),
        "run_ms": _percentiles(durations),
        "lookups": dict(counts["lookups"]),
        "deliveries": DeliveryOutcomes(**{name: deliveries[name] for name in DeliveryOutcomes.model_fields}),
        "credits": credits["charged"] - credits["refunded"],
        "changes": counts["changes"].total(),
    }


def _percentiles(durations: Mapping[int, int]) -> Percentiles | None:
    p50, p95 = estimate(durations, 0.5), estimate(durations, 0.95)
    return None if p50 is None or p95 is None else Percentiles(p50=p50, p95=p95)
