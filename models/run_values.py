"""Inputs and outputs of runs: measured in Postgres, and loaded only as far as an answer has room for them.

They stay in their stored form (`StoredJson`), so that an answer takes no more memory than its bytes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Literal, LiteralString, NamedTuple
from uuid import UUID

from psycopg.types.json import set_json_loads
from pydantic import Field

from database import Connection
from models.views import StoredJson, View

MAX_BYTES = 4 * 1024 * 1024
"""The largest answer about runs, in bytes of JSON."""
ROOM = MAX_BYTES - 256 * 1024
"""The part of it for the inputs and outputs of a run: the rest is for 100 steps without them."""
SMALL = 16 * 1024
"""The part for each run where many runs are read together."""
THE_RUN = ""
"""The `step_id` of the run's own values."""


class ValueRef(NamedTuple):
    """The name of one value of a run: its input, or the input or output of a step."""

    run_id: UUID
    step_id: str
    part: Literal["input", "output"]


class Omitted(View):
    """Stands in the place of a value for which the answer has no room."""

    omitted: Literal[True] = True
    bytes: int = Field(description="How many bytes of JSON the value has; of a very large one, at least.")
    url: str = Field(description="Where the value is.")


GATHERED: LiteralString = """
coalesce(json_agg(
  case when i.status = 'completed' then i.output else json_build_object(
    'error', json_build_object('code', i.error->'code', 'message', i.error->'message')) end
  order by i.item), '[]')
"""
"""The gathered output of a step: the outputs of its items, `i`."""
# The stored, maybe compressed, size is read without loading the value.
_STORED_BYTES: LiteralString = (
    "(select coalesce(sum(pg_column_size(output)), 0) from run_step_items"
    " where run_id = s.run_id and step_id = s.step_id)"
)
_ITEM_BYTES: LiteralString = (
    "(select coalesce(sum(octet_length(coalesce(output, error)::text) + 2), 0) + 2 from run_step_items"
    " where run_id = s.run_id and step_id = s.step_id)"
)
OUTPUT_BYTES: LiteralString = (
    "case when s.gathered and s.status = 'completed' then"
    " case when " + _STORED_BYTES + " > %(most)s then " + _STORED_BYTES + " else " + _ITEM_BYTES + " end"
    " else coalesce(octet_length(s.output::text), 0) end::bigint"
)
"""The size of the output of a step `s` as JSON, in bytes; only a lower bound if it exceeds `most`."""


def value_url(ref: ValueRef) -> str:
    """Return the API's path to a value."""
    steps = f"/steps/{ref.step_id}" if ref.step_id != THE_RUN else ""
    return f"/api/workflows/runs/{ref.run_id}{steps}/{ref.part}"


def choose(sizes: Iterable[tuple[ValueRef, int]], room: int) -> set[ValueRef]:
    """Choose the values to show: the smallest first, as long as there is room."""
    chosen: set[ValueRef] = set()
    for ref, size in sorted(sizes, key=lambda one: one[1]):
        room -= size
        if room < 0:
            break
        chosen.add(ref)
    return chosen


def show_value(
    ref: ValueRef, size: int, loaded: Mapping[ValueRef, StoredJson]
) -> StoredJson | Omitted | None:
    """Return a value of this size as an answer shows it: whole, or as `Omitted` if it was not loaded."""
    if not size:
        return None
    return loaded[ref] if ref in loaded else Omitted(bytes=size, url=value_url(ref))


_LOAD: LiteralString = """
select n.run_id, n.step_id, n.part, case
  when n.part = 'input' then s.input
  when s.gathered and s.status = 'completed' then (
    select {gathered} from run_step_items i where i.run_id = s.run_id and i.step_id = s.step_id)
  else s.output end as value
from unnest(%(runs)s::uuid[], %(steps)s::text[], %(parts)s::text[]) as n (run_id, step_id, part)
join run_steps s on s.run_id = n.run_id and s.step_id = n.step_id
where s.run_id = any(%(runs)s)
union all
select id, '', 'input', input from runs where id = any(%(inputs)s)
""".replace("{gathered}", GATHERED)


async def load(connection: Connection, refs: Collection[ValueRef]) -> dict[ValueRef, StoredJson]:
    """Load values in their stored form, without those that are null."""
    if not refs:
        return {}
    of_steps = [ref for ref in refs if ref.step_id != THE_RUN]
    cursor = connection.cursor()
    set_json_loads(StoredJson, cursor)
    await cursor.execute(
        _LOAD,
        {
            "runs": [ref.run_id for ref in of_steps],
            "steps": [ref.step_id for ref in of_steps],
            "parts": [ref.part for ref in of_steps],
            "inputs": [ref.run_id for ref in refs if ref.step_id == THE_RUN],
        },
    )
    return {
        ValueRef(row["run_id"], row["step_id"], row["part"]): row["value"]
        for row in await cursor.fetchall()
        if row["value"] is not None
    }
