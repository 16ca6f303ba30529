"""Large parts of runs: one value at a time in pieces, and the items of a step in pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, LiteralString, NamedTuple
from uuid import UUID

from psycopg.types.json import set_json_loads
from pydantic import Field

from database import Connection
from models.errors import NotFound
from models.run_values import ROOM, THE_RUN, Omitted, ValueRef, choose, show_value
from models.views import StoredJson, View

PIECE_BYTES = 256 * 1024
"""The size of a piece of a value."""

_ITEM: LiteralString = (
    "case when i.status = 'completed' then i.output else json_build_object("
    "'error', json_build_object('code', i.error->'code', 'message', i.error->'message')) end::text"
)
_OF_STEP: LiteralString = " where run_id = %(run_id)s and step_id = %(step_id)s"
# A step that processes its items itself, as a transform does, has them only in its output.
_ITEMS_OF_STEP: LiteralString = (
    "with items as (select item, status, output, error, attempts, credits_used from run_step_items"
    + _OF_STEP
    + " union all select (o.place - 1)::smallint, o.status,"
    " case o.status when 'completed' then o.value end,"
    " case o.status when 'failed' then o.value->'error' end, 1, 0"
    " from run_steps s, lateral (select value, place, case when s.items_failed > 0"
    "   and json_typeof(value) = 'object' and value->'error'->'code' is not null"
    "   then 'failed' else 'completed' end as status"
    "  from json_array_elements(case when s.items_total is not null and s.status = 'completed'"
    "   and not s.gathered then s.output end) with ordinality as n (value, place)) o" + _OF_STEP + ")"
)
_TEXTS: dict[str, LiteralString] = {
    "trigger": "select input::text from runs where id = %(run_id)s",
    "input": "select input::text from run_steps" + _OF_STEP,
    "output": "select output::text from run_steps" + _OF_STEP,
    "items": _ITEMS_OF_STEP
    + " select string_agg(" + _ITEM + ", ',' order by item) from items i where item = any(%(items)s)",
}  # fmt: skip


class Source(NamedTuple):
    """The source of a JSON text of a run: a value, or items of a step with commas between them."""

    kind: Literal["trigger", "input", "output", "items"]
    run_id: UUID
    step_id: str
    items: Sequence[int] = ()


async def read_piece(connection: Connection, source: Source, start: int) -> bytes:
    """Read at most `PIECE_BYTES` of a text from `start` on; return none after its end, or if it is null."""
    query: LiteralString = (
        "select substring(convert_to(t.text, 'UTF8') from %(start)s for %(size)s) as piece from ("
        + _TEXTS[source.kind] + ") as t (text)"
    )  # fmt: skip
    wanted = {
        "run_id": source.run_id, "step_id": source.step_id, "items": list(source.items),
        "start": start + 1, "size": PIECE_BYTES,
    }  # fmt: skip
    cursor = await connection.execute(query, wanted, binary=True)
    row = await cursor.fetchone()
    return bytes(row["piece"] or b"") if row else b""


_HAS_STEP: LiteralString = """
select from runs r join automation_versions v on v.automation_id = r.automation_id and v.version = r.version
where r.account_id = %(account_id)s and r.id = %(run_id)s and exists (
  select from json_array_elements(case json_typeof(v.definition->'steps') when 'array'
    then v.definition->'steps' end) s where s->>'id' = %(step_id)s)
"""


async def find_value(connection: Connection, account_id: UUID, ref: ValueRef) -> Source | list[Source]:
    """Find the source of a value; a list if the value is the array of several sources.

    Raises:
        NotFound: the run is unknown or another account's, or has no such step.
    """
    if ref.step_id != THE_RUN:
        await _check_step(connection, account_id, ref.run_id, ref.step_id)
    cursor = await connection.execute(
        "select r.output_of, exists (select from run_steps s where s.run_id = %(run_id)s"
        "  and s.step_id = coalesce(nullif(%(step_id)s, ''), r.output_of)"
        "  and s.gathered and s.status = 'completed') as by_items"
        " from runs r where r.account_id = %(account_id)s and r.id = %(run_id)s",
        {"account_id": account_id, "run_id": ref.run_id, "step_id": ref.step_id},
    )
    if (run := await cursor.fetchone()) is None:
        raise NotFound("run")
    if ref.step_id == THE_RUN and ref.part == "input":
        return Source("trigger", ref.run_id, THE_RUN)
    step_id = run["output_of"] if ref.step_id == THE_RUN else ref.step_id
    if run["by_items"] and ref.part == "output":
        return await _group_items(connection, ref.run_id, step_id)
    return Source(ref.part, ref.run_id, step_id)


async def find_item(
    connection: Connection, account_id: UUID, run_id: UUID, step_id: str, item: int
) -> Source:
    """Find the source of the output of an item, even before it is written.

    Raises:
        NotFound: the run is unknown or another account's, or has no such step, or the step no such item.
    """
    await _check_step(connection, account_id, run_id, step_id)
    cursor = await connection.execute(
        "select from run_steps where run_id = %s and step_id = %s and items_total <= %s",
        (run_id, step_id, item),
    )
    if await cursor.fetchone() is not None:
        raise NotFound("item")
    return Source("items", run_id, step_id, (item,))


async def _check_step(connection: Connection, account_id: UUID, run_id: UUID, step_id: str) -> None:
    wanted = {"account_id": account_id, "run_id": run_id, "step_id": step_id}
    if await (await connection.execute(_HAS_STEP, wanted)).fetchone() is None:
        raise NotFound("step")


async def _group_items(connection: Connection, run_id: UUID, step_id: str) -> list[Source]:
    """Group the items of a step so that each group fits into a piece, unless it is a single item."""
    cursor = await connection.execute(
        "select item, octet_length(coalesce(output, error)::text) as bytes from run_step_items"
        " where run_id = %s and step_id = %s order by item",
        (run_id, step_id),
    )
    groups: list[list[int]] = []
    room = 0
    for row in await cursor.fetchall():
        room -= row["bytes"] + 1
        if room < 0:
            groups.append([])
            room = PIECE_BYTES - row["bytes"]
        groups[-1].append(row["item"])
    return [Source("items", run_id, step_id, group) for group in groups]


class ItemView(View):
    """One item of a step with `for_each` that is done."""

    item: int = Field(description="Its place in the array, from 0.")
    status: Literal["completed", "failed"] = Field(description="How it ended.")
    output: Any = Field(
        description="What the step gave for it; `{omitted: true, bytes, url}` where the page has no room."
    )
    error: dict[str, Any] | None = Field(
        description="Why it failed, as `code` and `message`; null if it did not."
    )
    attempts: int = Field(description="How often it was tried.")
    credits_used: int = Field(description="What its answer cost.")


_ITEMS: LiteralString = (
    _ITEMS_OF_STEP + " select item, status, error, attempts, credits_used,"
    "  coalesce(octet_length(output::text), 0) as bytes"
    " from items where item >= %(first)s order by item limit %(limit)s"
)


async def list_items(
    connection: Connection, account_id: UUID, run_id: UUID, step_id: str, *, first: int, limit: int
) -> tuple[list[ItemView], int | None]:
    """Return the finished items of a step, from the index `first` on, and the index of the next page.

    Raises:
        NotFound: the run is unknown or another account's, or has no such step.
    """
    await _check_step(connection, account_id, run_id, step_id)
    wanted = {"run_id": run_id, "step_id": step_id, "first": first, "limit": limit + 1}
    rows = await (await connection.execute(_ITEMS, wanted)).fetchall()
    page = rows[:limit]
    refs = {row["item"]: ValueRef(run_id, f"{step_id}/items/{row['item']}", "output") for row in page}
    chosen = choose([(refs[row["item"]], row["bytes"]) for row in page], ROOM)
    loaded = await _load_outputs(connection, run_id, step_id, [n for n, ref in refs.items() if ref in chosen])
    views = [_item_view(row, refs[row["item"]], loaded) for row in page]
    return views, rows[limit]["item"] if len(rows) > limit else None


async def _load_outputs(
    connection: Connection, run_id: UUID, step_id: str, items: Sequence[int]
) -> dict[int, StoredJson]:
    cursor = connection.cursor()
    set_json_loads(StoredJson, cursor)
    wanted = {"run_id": run_id, "step_id": step_id, "items": list(items)}
    await cursor.execute(
        _ITEMS_OF_STEP + " select item, output from items where item = any(%(items)s)", wanted
    )
    return {row["item"]: row["output"] for row in await cursor.fetchall()}


def _item_view(row: Mapping[str, Any], ref: ValueRef, loaded: Mapping[int, StoredJson]) -> ItemView:
    outputs = {ref: loaded[row["item"]]} if loaded.get(row["item"]) else {}
    output: StoredJson | Omitted | None = show_value(ref, row["bytes"], outputs)
    return ItemView(**{name: row[name] for name in row if name != "bytes"}, output=output)
