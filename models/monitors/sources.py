"""The sources of a monitor's tracked fields: when each was heard, and which are silent."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, LiteralString, NamedTuple
from uuid import UUID

import orjson
from pydantic import Field as Described
from sqlalchemy import Column, DateTime, ForeignKey, Integer, Text
from sqlmodel import Field, SQLModel

from database import Connection
from models.lookups.silence import NOT_PARTIAL, WHY, Reason
from models.views import View


class MonitorSource(SQLModel, table=True):
    """The state of a source of a monitor's tracked fields.

    Attributes:
        heard_at: when it was last heard, of any target; None if never.
        silent_since: the time since which it has answered for no target; None while it is heard.
        why: the reason of its silence.
        silent_runs: the number of runs in a row that have not heard it.
        emitted_at: when `monitor.source_silent` was emitted; None once it is heard again.
    """

    __tablename__ = "monitor_sources"  # pyright: ignore[reportAssignmentType]

    monitor_id: UUID = Field(
        sa_column=Column(ForeignKey("monitors.id", ondelete="CASCADE"), primary_key=True)
    )
    source: str = Field(sa_column=Column(Text, primary_key=True))
    heard_at: datetime | None = Field(sa_column=Column(DateTime(timezone=True)))
    silent_since: datetime | None = Field(sa_column=Column(DateTime(timezone=True)))
    why: str | None = Field(sa_column=Column(Text))
    silent_runs: int = Field(sa_column=Column(Integer, nullable=False, server_default="0"))
    emitted_at: datetime | None = Field(sa_column=Column(DateTime(timezone=True)))


class SilenceView(View):
    """A source that was not heard."""

    source: str = Described(description="The source.")
    since: datetime | None = Described(description="When it was last heard before; null if it never was.")
    why: Reason = Described(description=WHY)


class RunSilenceView(SilenceView):
    """A source that was not heard of some targets of a run."""

    targets: int = Described(description="Of how many targets it was not heard.")


class SourceView(View):
    """The state of a source of a monitor's tracked fields."""

    source: str = Described(description="The source.")
    heard_at: datetime | None = Described(description="When it was last heard; null if it never was.")
    silent_since: datetime | None = Described(
        description="When the first run began that heard it of no target; null while it is heard."
    )
    why: Reason | None = Described(description="Why it is silent; null while it is heard.")


VIEWS: LiteralString = (
    "coalesce((select json_agg(json_build_object('source', source, 'heard_at', heard_at, 'silent_since',"
    " silent_since, 'why', why) order by source) from monitor_sources where monitor_id = m.id), '[]')"
)
"""The `SourceView`s of a monitor `m`."""

_SILENT: LiteralString = """
select s.source, min(s.since) as since, mode() within group (order by s.why) as why, count(*)::int as targets
from monitor_results r
cross join lateral json_to_recordset(r.silent) as s (source text, since timestamptz, why text)
where r.run_id = %s and r.silent is not null and s.why <> all(%s) group by s.source order by s.source
"""


async def find_silent(connection: Connection, run_id: UUID) -> list[dict[str, Any]]:
    """Return the fields of a `RunSilenceView` for each source that a run has not heard for some target.

    Sources without which results are not partial are left out.
    """
    cursor = await connection.execute(_SILENT, (run_id, sorted(NOT_PARTIAL)))
    return await cursor.fetchall()


class Turns(NamedTuple):
    """The rows of sources to be reported as silent, and of reported ones that are heard again."""

    silent: list[dict[str, Any]]
    back: list[dict[str, Any]]


_ABSENT: LiteralString = """
insert into monitor_sources (monitor_id, source, why)
select %s, source, why from unnest(%s::text[], %s::text[]) s (source, why) order by source
on conflict do nothing
"""


async def add_absent(connection: Connection, monitor_id: UUID, absent: Mapping[str, Reason]) -> None:
    """Record sources that are not asked, with the reason, if they have no row yet."""
    if absent:
        await connection.execute(_ABSENT, (monitor_id, list(absent), list(absent.values())))


_HEARD: LiteralString = """
insert into monitor_sources (monitor_id, source, heard_at)
select %(monitor_id)s, source, %(moment)s from unnest(%(names)s::text[]) source order by source
on conflict (monitor_id, source) do update
set heard_at = excluded.heard_at, silent_since = null, why = null, silent_runs = 0, emitted_at = null
"""
_BACK: LiteralString = """
select * from monitor_sources
where monitor_id = %s and source = any(%s) and emitted_at is not null order by source
"""
_NOT_HEARD: LiteralString = """
insert into monitor_sources as s (monitor_id, source, silent_since, why, silent_runs)
select %(monitor_id)s, source, %(moment)s, why, 1
from json_to_recordset(%(silent)s) as g (source text, why text) order by source
on conflict (monitor_id, source) do update set why = excluded.why, silent_runs = s.silent_runs + 1,
  silent_since = coalesce(s.silent_since, excluded.silent_since)
"""
# A day or two runs, the later of both: a monitor does not report an outage of an hour.
_SILENT_FOR_LONG: LiteralString = """
update monitor_sources set emitted_at = %(moment)s
where monitor_id = %(monitor_id)s and source = any(%(names)s) and emitted_at is null and silent_runs >= 2
  and silent_since <= %(moment)s::timestamptz - interval '1 day'
  and (heard_at is not null or why <> 'no_key')
returning *
"""


async def note_run(connection: Connection, run: Mapping[str, Any]) -> Turns:
    """Record which sources an ended run has heard; a source that was heard for any target is not silent."""
    monitor_id, heard, ended = run["monitor_id"], run["sources_heard"], run["completed_at"]
    cursor = await connection.execute(_BACK, (monitor_id, heard))
    back = await cursor.fetchall()
    await connection.execute(_HEARD, {"monitor_id": monitor_id, "names": heard, "moment": ended})
    silent = {one["source"]: one["why"] for one in run["sources_silent"] if one["source"] not in heard}
    await connection.execute(
        _NOT_HEARD,
        {
            "monitor_id": monitor_id,
            "silent": orjson.dumps([{"source": name, "why": why} for name, why in silent.items()]).decode(),
            "moment": run["started_at"] or ended,
        },
    )
    wanted = {"monitor_id": monitor_id, "names": list(silent), "moment": ended}
    cursor = await connection.execute(_SILENT_FOR_LONG, wanted)
    return Turns(sorted(await cursor.fetchall(), key=lambda row: row["source"]), back)
