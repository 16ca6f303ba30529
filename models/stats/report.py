"""The statistics of an account over a window: stored sums and the entries that are not in them yet."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, LiteralString, NamedTuple
from uuid import UUID

from pydantic import Field

from database import Connection
from models.stats.durations import estimate
from models.stats.entries import PARTS, Grain
from models.stats.windows import Slots, Window
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
    """The durations of runs from their beginning to their end, in milliseconds; at most a fifth off."""

    p50: int = Field(description="Half of them took no longer.")
    p95: int = Field(description="95 % of them took no longer.")


class Figures(View):
    """The figures of a time."""

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
    """The figures of one bucket."""

    at: datetime = Field(description="When the bucket begins.")


class SourceStats(View):
    """The outcomes of a source."""

    source: str = Field(description="The source.")
    outcomes: dict[str, int] = Field(description="How often each outcome occurred.")


class StatsGroup(View):
    """The figures of the whole window, of one thing."""

    key: str = Field(description="The id, the name of the source, or the code of the error.")
    name: str | None = Field(
        description="What it is called, of an endpoint its URL; null for what has no name."
    )
    total: int = Field(description="How many there were.")
    outcomes: dict[str, int] = Field(description="The same by outcome; empty where there is only one.")
    run_ms: Percentiles | None = Field(description="How long its runs took; null for what has none.")


class StatsView(View):
    """The statistics of an account over a window."""

    since: datetime = Field(description="When the first bucket begins.")
    until: datetime = Field(description="When the last bucket ends, which is not over yet.")
    bucket: Grain = Field(description="The length of a bucket.")
    by: By = Field(description="What `groups` are of.")
    totals: Figures = Field(description="All buckets together.")
    buckets: list[StatsBucket] = Field(description="All buckets, the oldest first, also empty ones.")
    sources: list[SourceStats] = Field(description="The sources of lookups, those asked most often first.")
    groups: list[StatsGroup] = Field(description="The 50 groups with the most, the greatest first.")


class _Grouping(NamedTuple):
    """The way to make groups: of which figure, by which part, and the names of their keys."""

    figure: str
    part: str = "subject"
    names: LiteralString = ""


_GROUPINGS: Mapping[By, _Grouping] = {
    "workflow": _Grouping("runs", names="select id, name from automations"),
    "error_code": _Grouping("runs", part="code"),
    "source": _Grouping("lookups"),
    "endpoint": _Grouping("deliveries", names="select id, url as name from endpoints"),
    "monitor": _Grouping("changes", names="select id, name from monitors"),
}
_Count = tuple[str, str, int, int]
"""A figure, an outcome, a bucket of durations, and an amount."""
_FIGURES = ["runs", "durations", "lookups", "deliveries", "credits", "changes"]

# The slots of a figure are one range of the primary key, which `offset 0` keeps together. Entries that are
# in no sum yet are few.
_FOUND: LiteralString = f"""(
  select s.* from unnest(%(grains)s::text[], %(sinces)s::timestamptz[], %(untils)s::timestamptz[])
    as w (grain, since, until)
  cross join unnest(%(figures)s::text[]) as k (figure)
  cross join lateral (
    select s.slot, s.figure, s.subject, s.outcome, s.bucket, s.amount from stats s
    where s.account_id = %(account_id)s and s.grain = w.grain and s.figure = k.figure and s.part = %(part)s
      and s.slot >= w.since and s.slot < w.until offset 0
  ) s
  union all
  select t.minute, p.figure, p.subject, p.outcome, p.bucket, t.amount
  from stat_entries t cross join lateral ({PARTS}) p
  where t.account_id = %(account_id)s and t.minute >= %(since)s and t.minute < %(until)s
    and p.figure = any(%(figures)s) and p.part = %(part)s
) as found
"""
_SERIES: LiteralString = (
    "select at, json_agg(json_build_array(figure, outcome, bucket, amount)) as counts from ("
    "select date_bin(%(width)s, slot, %(since)s) as at, figure, outcome, bucket,"
    " sum(amount)::bigint as amount from " + _FOUND + " group by 1, 2, 3, 4) as summed group by at"
)
_GROUPS: LiteralString = (
    "select subject as key, figure, outcome, bucket, sum(amount)::bigint as amount from "
    + _FOUND
    + " group by 1, 2, 3, 4"
)


async def read(connection: Connection, account_id: UUID, window: Window, by: By) -> StatsView:
    """Return what happened to an account in a window, with groups by `by`."""
    cursor = await connection.execute(
        _SERIES,
        {
            **_wanted(account_id, window, [Slots(window.bucket, window.since, window.until)]),
            "width": window.width, "figures": _FIGURES, "part": "all",
        },
    )  # fmt: skip
    counts: dict[datetime, list[_Count]] = {row["at"]: row["counts"] for row in await cursor.fetchall()}
    sources = await _read_groups(connection, account_id, window, "source")
    return StatsView(
        since=window.since,
        until=window.until,
        bucket=window.bucket,
        by=by,
        totals=Figures(**_figures(count for some in counts.values() for count in some)),
        buckets=[StatsBucket(at=start, **_figures(counts.get(start, ()))) for start in window.starts],
        sources=[SourceStats(source=one.key, outcomes=one.outcomes) for one in sources],
        groups=[] if by == "none" else await _read_groups(connection, account_id, window, by),
    )


def _wanted(account_id: UUID, window: Window, slots: Sequence[Slots]) -> dict[str, Any]:
    return {
        "account_id": account_id, "since": window.since, "until": window.until,
        "grains": [one.grain for one in slots], "sinces": [one.since for one in slots],
        "untils": [one.until for one in slots],
    }  # fmt: skip


async def _read_groups(connection: Connection, account_id: UUID, window: Window, by: By) -> list[StatsGroup]:
    grouping = _GROUPINGS[by]
    wanted = _wanted(account_id, window, window.slots)
    figures = [grouping.figure, *(["durations"] if by == "workflow" else [])]
    cursor = await connection.execute(_GROUPS, {**wanted, "figures": figures, "part": grouping.part})
    outcomes: defaultdict[str, Counter[str]] = defaultdict(Counter)
    durations: defaultdict[str, Counter[int]] = defaultdict(Counter)
    for row in await cursor.fetchall():
        if row["figure"] == "durations":
            durations[row["key"]][row["bucket"]] += row["amount"]
        else:
            outcomes[row["key"]][row["outcome"]] += row["amount"]
    first = sorted(outcomes, key=lambda key: (-outcomes[key].total(), key))[:MOST_GROUPS]
    names = await _read_names(connection, account_id, grouping, first)
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


def _figures(counts: Iterable[_Count]) -> dict[str, Any]:
    """Return the members of `Figures`."""
    by_figure: defaultdict[str, defaultdict[str, int]] = defaultdict(lambda: defaultdict(int))
    durations: defaultdict[int, int] = defaultdict(int)
    for figure, outcome, bucket, amount in counts:
        if figure == "durations":
            durations[bucket] += amount
        else:
            by_figure[figure][outcome] += amount
    runs, deliveries, credits = by_figure["runs"], by_figure["deliveries"], by_figure["credits"]
    return {
        "runs": RunOutcomes(**{name: runs[name] for name in RunOutcomes.model_fields}),
        "run_ms": _percentiles(durations),
        "lookups": dict(by_figure["lookups"]),
        "deliveries": DeliveryOutcomes(**{name: deliveries[name] for name in DeliveryOutcomes.model_fields}),
        "credits": credits["charged"] - credits["refunded"],
        "changes": by_figure["changes"][""],
    }


def _percentiles(durations: Mapping[int, int]) -> Percentiles | None:
    p50, p95 = estimate(durations, 0.5), estimate(durations, 0.95)
    return None if p50 is None or p95 is None else Percentiles(p50=p50, p95=p95)
