"""What an executor goes on from: the runs of a batch as the record has them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString
from uuid import UUID

from database import Connection
from language.records import INLINE_BYTES, DoneStep, StepError


@dataclass(frozen=True)
class StoredRun:
    """A run that has not ended, as its rows have it.

    Attributes:
        size: of trigger and request together, in bytes of JSON.
        stored: these two are large and stay in the row.
        done: the steps that are done.
        items: by iterating step that is not done, the items that are, each with its error if it failed.
        progress: of the steps that have begun, as `engine.progress` writes it.
    """

    run_id: UUID
    started_at: datetime
    trigger: Any
    request: Any
    size: int
    stored: bool
    done: list[DoneStep]
    items: dict[str, dict[int, StepError | None]]
    progress: dict[str, Any] | None


async def load_runs(connection: Connection, batch_id: UUID, read: Sequence[str]) -> list[StoredRun]:
    """The runs of a batch that are at work, with how far they are. What is large stays in its row.

    Args:
        connection: outside a transaction; after the lease was taken.
        batch_id: of the batch.
        read: the steps whose outputs the engine needs.
    """
    cursor = await connection.execute(
        "select r.id, r.started_at, r.input_bytes, w.progress,"
        " case when r.input_bytes <= %(kept)s then r.input end as input,"
        " case when r.input_bytes <= %(kept)s then r.request end as request"
        " from run_work w join runs r on r.id = w.run_id"
        " where w.batch_id = %(batch)s and w.state = 'running' order by r.id",
        {"batch": batch_id, "kept": INLINE_BYTES},
    )
    runs = await cursor.fetchall()
    begun = [run["id"] for run in runs]
    done, items = await _done(connection, begun, read), await _items_done(connection, begun)
    return [
        StoredRun(
            run_id=run["id"],
            started_at=run["started_at"],
            trigger=run["input"],
            request=run["request"],
            size=run["input_bytes"],
            stored=run["input_bytes"] > INLINE_BYTES,
            done=done.get(run["id"], []),
            items=items.get(run["id"], {}),
            progress=run["progress"],
        )
        for run in runs
    ]


async def _done(
    connection: Connection, run_ids: list[UUID], read: Sequence[str]
) -> dict[UUID, list[DoneStep]]:
    cursor = await connection.execute(
        "select run_id, step_id, status, error, gathered, octet_length(output::text) as size,"
        " case when step_id = any(%s) and octet_length(output::text) <= %s then output end as output"
        " from run_steps where run_id = any(%s) order by run_id, position",
        (list(read), INLINE_BYTES, run_ids),
    )
    done: dict[UUID, list[DoneStep]] = {}
    for row in await cursor.fetchall():
        size = row["size"] or 0
        step = DoneStep.model_validate(row | {"size": size, "stored": row["gathered"] or size > INLINE_BYTES})
        done.setdefault(row["run_id"], []).append(step)
    return done


async def _items_done(
    connection: Connection, run_ids: list[UUID]
) -> dict[UUID, dict[str, dict[int, StepError | None]]]:
    """By run and step the items that are done, of steps that are not."""
    cursor = await connection.execute(
        "select run_id, step_id, item, error from run_step_items i where run_id = any(%s) and not exists"
        "  (select 1 from run_steps s where s.run_id = i.run_id and s.step_id = i.step_id)"
        " order by run_id, step_id, item",
        (run_ids,),
    )
    done: dict[UUID, dict[str, dict[int, StepError | None]]] = {}
    for row in await cursor.fetchall():
        error = StepError.model_validate(row["error"]) if row["error"] else None
        done.setdefault(row["run_id"], {}).setdefault(row["step_id"], {})[row["item"]] = error
    return done


# Where a step has items, these have its output: it is kept once.
_VALUES: LiteralString = """
select n.name, case
  when n.name = 'trigger' then r.input when n.name = 'request' then r.request
  when s.gathered and s.status = 'completed' then (
    select coalesce(json_agg(
      case when i.status = 'completed' then i.output else json_build_object(
        'error', json_build_object('code', i.error->'code', 'message', i.error->'message')) end
      order by i.item), '[]')
    from run_step_items i where i.run_id = s.run_id and i.step_id = s.step_id)
  else s.output end as value
from unnest(%s::text[]) as n (name) join runs r on r.id = %s
left join run_steps s on s.run_id = r.id and s.step_id = n.name
"""


async def load_values(connection: Connection, run_id: UUID, names: Sequence[str]) -> dict[str, Any]:
    """What is stored of a run: `trigger`, `request`, or the output of a step, by name."""
    cursor = await connection.execute(_VALUES, (list(names), run_id))
    return {row["name"]: row["value"] for row in await cursor.fetchall()}
