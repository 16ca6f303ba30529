"""Lists of runs. Inputs, outputs and steps are included only on request and up to a size per page."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, LiteralString, NamedTuple
from uuid import UUID

from pydantic import ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

from database import Connection
from models import run_values
from models.run_values import MAX_BYTES, THE_RUN, ValueRef
from models.runs import carriers, run_counts, search_values
from models.runs.run_queries import (
    OF_UPLOAD,
    OF_WORK,
    PARTS,
    SCANNED,
    Part,
    RunQuery,
    parameters_of,
    select_end,
    select_runs,
)
from models.runs.run_views import RunHead, StepView, head_fields, view_of
from models.runs.runs import DEFINITION_STEPS, STATUS, read_steps, with_values
from models.views import StoredJson


def _as_optional(schema: dict[str, Any]) -> None:
    schema["required"] = [name for name in schema["required"] if name not in (*PARTS, "omitted")]


class ListedRun(RunHead):
    """A run of a list. `input`, `output` and `steps` are absent unless they are asked for and have room."""

    model_config = ConfigDict(json_schema_extra=_as_optional)

    input: Any = Field(default=None, description="The event: what expressions read as `trigger`.")
    output: Any = Field(default=None, description="The output of the last completed step in list order.")
    steps: list[StepView] = Field(default=[], description="Its steps, in list order.")
    omitted: list[Part] = Field(
        default=[], description="What was asked for and has no room on the page; the run by its id has it."
    )

    @model_serializer(mode="wrap")
    def _as_asked(self, handler: SerializerFunctionWrapHandler):  # a return type would become its JSON Schema
        absent = {*PARTS, "omitted"} - self.model_fields_set
        return {name: value for name, value in handler(self).items() if name not in absent}


# The runs are selected before the joins, so that skipped runs cost nothing.
_HEADS: tuple[LiteralString, LiteralString] = (
    "select r.id, r.automation_id, r.version, " + STATUS + " as status, r.trigger, r.error, r.credits_used,"
    " r.queued_at, coalesce(r.started_at, w.started_at) as started_at, r.completed_at, r.restarted_from,"
    " r.parent_run_id,"
    " r.takeovers, r.taken_over_at, r.output_of, r.input_bytes, a.name, " + carriers.SHOWN + " as carrier,"
    " case when %(steps)s then coalesce(r.progress, w.progress) end as progress from (",
    ") r left join run_work w on w.run_id = r.id join automations a on a.id = r.automation_id"
    " order by r.id desc",
)


class RunsFound(NamedTuple):
    """A page of runs.

    Attributes:
        total: how many there are in all; None where they would have to be counted one by one.
        next: where the next page begins; None if this is the last one.
    """

    runs: list[ListedRun]
    total: int | None
    next: UUID | None


async def list_page(connection: Connection, account_id: UUID, query: RunQuery) -> RunsFound:
    """Return a page of the account's runs, newest first.

    By a filter that no index serves, a page looks at 20,000 runs at most. It then has fewer runs than its
    limit, or none, and `next` goes on behind them: so a question is quick however many runs there are.

    Raises:
        Invalid: `q` is the beginning of too many values.
    """
    if not query.is_counted:
        return await _find_page(connection, account_id, query)
    automation_id, upload_id, status = query.automation_id, query.upload_id, query.status
    wanted = {
        "account_id": account_id, "automation_id": automation_id, "upload_id": upload_id, "status": status,
        "limit": query.limit + 1, "offset": (query.page - 1) * query.limit, "steps": "steps" in query.include,
    }  # fmt: skip
    of: LiteralString = " and automation_id = %(automation_id)s" if automation_id is not None else ""
    tail: LiteralString = " limit %(limit)s offset %(offset)s"
    if status in OF_WORK:
        found: LiteralString = "run_work where account_id = %(account_id)s and " + OF_WORK[status] + of
        found += OF_UPLOAD[0] + "run_id" + OF_UPLOAD[1] if upload_id is not None else ""
        work: LiteralString = "select run_id from " + found + " order by run_id desc" + tail
        chosen: LiteralString = "select * from runs where id = any(array(" + work + "))"
    else:
        found = "runs where account_id = %(account_id)s" + of
        found += " and status = %(status)s" if status is not None else ""
        found += OF_UPLOAD[0] + "id" + OF_UPLOAD[1] if upload_id is not None else ""
        chosen = "select * from " + found + " order by id desc" + tail
    cursor = await connection.execute(_HEADS[0] + chosen + _HEADS[1], wanted)
    rows = await cursor.fetchall()
    heads = await _with_steps(connection, rows[: query.limit])
    parts = await _parts(connection, heads, query.include) if query.include else {}
    if upload_id is None:
        total = await run_counts.count(connection, account_id, automation_id=automation_id, status=status)
    else:
        cursor = await connection.execute("select count(*)::int as total from " + found, wanted)
        total = row["total"] if (row := await cursor.fetchone()) else 0
    shown = [_make_listed_run(head, parts.get(head["id"], {})) for head in heads]
    return RunsFound(shown, total, shown[-1].id if len(rows) > query.limit else None)


async def _find_page(connection: Connection, account_id: UUID, query: RunQuery) -> RunsFound:
    if query.is_beginning and query.value is not None:
        await search_values.check_beginning(
            connection, account_id, query.value, search_values.Place(parameter="q")
        )
    wanted = {**parameters_of(query, account_id), "steps": "steps" in query.include}
    cursor = await connection.execute(_HEADS[0] + select_runs(query) + _HEADS[1], wanted)
    found = await cursor.fetchall()
    following: UUID | None = None
    if len(found) > query.limit:
        found = found[: query.limit]
        following = found[-1]["id"]
    elif query.parent_run_id is None:
        cursor = await connection.execute(select_end(query), wanted)
        row = await cursor.fetchone()
        following = row["id"] if row and row["looked_at"] == SCANNED else None
    heads = await _with_steps(connection, found)
    parts = await _parts(connection, heads, query.include) if query.include else {}
    return RunsFound([_make_listed_run(head, parts.get(head["id"], {})) for head in heads], None, following)


def _make_listed_run(head: Mapping[str, Any], parts: Mapping[str, Any]) -> ListedRun:
    return ListedRun(**head_fields(head), **head["counts"], **parts)


async def _with_steps(connection: Connection, heads: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add the `definition_steps` to the rows of runs, and the `counts` of their steps and items."""
    versions = {(head["automation_id"], head["version"]) for head in heads}
    cursor = await connection.execute(
        "select v.automation_id, v.version, " + DEFINITION_STEPS + " as steps from automation_versions v"
        " join unnest(%s::uuid[], %s::int[]) n (automation_id, version) using (automation_id, version)",
        ([automation_id for automation_id, _ in versions], [version for _, version in versions]),
    )
    defined: dict[Any, list[Any]] = {
        (row["automation_id"], row["version"]): row["steps"] or [] for row in await cursor.fetchall()
    }
    cursor = await connection.execute(
        "select run_id, count(*) filter (where status = 'completed')::int as steps_completed,"
        " sum(items_total)::int as items_total, sum(items_failed)::int as items_failed"
        " from run_steps where run_id = any(%s) group by run_id",
        ([head["id"] for head in heads],),
    )
    counts = {row.pop("run_id"): row for row in await cursor.fetchall()}
    none_done = {"steps_completed": 0, "items_total": None, "items_failed": None}
    for head in heads:
        steps = defined.get((head["automation_id"], head["version"]), [])
        head["definition_steps"] = steps
        head["counts"] = {"steps_total": len(steps), **counts.get(head["id"], none_done)}
    return heads


async def _parts(
    connection: Connection, heads: Sequence[Mapping[str, Any]], include: Collection[Part]
) -> dict[UUID, dict[str, Any]]:
    """Return the parts of each run that fit, and the names of those that do not."""
    fitting = await _fitting(connection, heads, include)
    inputs = await _inputs(connection, [run_id for run_id, parts in fitting.items() if "input" in parts])
    outputs = await _outputs(connection, [head for head in heads if "output" in fitting[head["id"]]])
    steps = await _steps(connection, [head for head in heads if "steps" in fitting[head["id"]]])
    return {
        run_id: {
            "omitted": [part for part in PARTS if part in include and part not in parts],
            **({"input": inputs.get(run_id)} if "input" in parts else {}),
            **({"output": outputs.get(run_id)} if "output" in parts else {}),
            **({"steps": steps[run_id]} if "steps" in parts else {}),
        }
        for run_id, parts in fitting.items()
    }


# First the stored, maybe compressed, size, which needs no reading of values; then the size as JSON.
_MEASURES: tuple[tuple[LiteralString, LiteralString], ...] = (
    ("pg_column_size(", ")"),
    ("octet_length(", "::text)"),
)


async def _fitting(
    connection: Connection, heads: Sequence[Mapping[str, Any]], include: Collection[Part]
) -> dict[UUID, set[Part]]:
    """Return the parts of each run that fit: the newest runs choose first."""
    fitting = {head["id"]: set(include) for head in heads}
    for measure in _MEASURES:
        sizes = await _sizes(connection, measure, heads, fitting)
        left = MAX_BYTES
        for head in heads:
            size = {"input": head["input_bytes"], **sizes.get(head["id"], {})}
            for part in [part for part in PARTS if part in fitting[head["id"]]]:
                if size.get(part, 0) <= left:
                    left -= size.get(part, 0)
                else:
                    fitting[head["id"]].discard(part)
    return fitting


async def _sizes(
    connection: Connection,
    measure: tuple[LiteralString, LiteralString],
    heads: Sequence[Mapping[str, Any]],
    wanted: Mapping[UUID, Collection[Part]],
) -> dict[UUID, dict[str, int]]:
    """Return the sizes of the requested output and steps of each run, in bytes."""
    head, tail = measure
    whole = [run["id"] for run in heads if "steps" in wanted[run["id"]]]
    alone = [run for run in heads if "output" in wanted[run["id"]] and "steps" not in wanted[run["id"]]]
    query: LiteralString = (
        "select s.run_id, s.step_id, coalesce(" + head + "s.input" + tail + ", 0)::bigint as input,"
        " (coalesce(" + head + "s.output" + tail + ", 0) + coalesce(i.bytes, 0))::bigint as output"
        " from run_steps s"
        " left join lateral (select sum(" + head + "output" + tail + ") as bytes from run_step_items"
        "  where run_id = s.run_id and step_id = s.step_id) i on s.gathered"
        " where s.run_id = any(%(whole)s) or s.run_id = any(%(alone)s) and (s.run_id, s.step_id) in"
        " (select * from unnest(%(alone)s::uuid[], %(outputs)s::text[]))"
    )
    cursor = await connection.execute(
        query,
        {
            "whole": whole,
            "alone": [run["id"] for run in alone],
            "outputs": [run["output_of"] for run in alone],
        },
    )
    output_of = {run["id"]: run["output_of"] for run in heads}
    sizes: dict[UUID, dict[str, int]] = {}
    for row in await cursor.fetchall():
        size = sizes.setdefault(row["run_id"], {"output": 0, "steps": 0})
        size["steps"] += row["input"] + row["output"]
        if row["step_id"] == output_of[row["run_id"]]:
            size["output"] = row["output"]
    return sizes


async def _inputs(connection: Connection, run_ids: Sequence[UUID]) -> dict[UUID, StoredJson]:
    loaded = await run_values.load(connection, [ValueRef(run_id, THE_RUN, "input") for run_id in run_ids])
    return {ref.run_id: value for ref, value in loaded.items()}


async def _outputs(connection: Connection, heads: Sequence[Mapping[str, Any]]) -> dict[UUID, StoredJson]:
    refs = [ValueRef(run["id"], run["output_of"], "output") for run in heads if run["output_of"] is not None]
    return {ref.run_id: value for ref, value in (await run_values.load(connection, refs)).items()}


async def _steps(connection: Connection, heads: Sequence[Mapping[str, Any]]) -> dict[UUID, list[StepView]]:
    steps = await read_steps(connection, [head["id"] for head in heads])
    refs = [
        ValueRef(run_id, step["step_id"], part)
        for run_id, rows in steps.items()
        for step in rows
        for part in ("input", "output")
    ]
    loaded = await run_values.load(connection, refs)
    shown = {run_id: [with_values(run_id, step, loaded) for step in rows] for run_id, rows in steps.items()}
    return {
        head["id"]: view_of({**head, "input": None, "output": None}, shown.get(head["id"], [])).steps
        for head in heads
    }
