"""How a batch is put together from its rows: what has started each run, and how far it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from pydantic import ValidationError

from database import Connection
from engine.plan import Plan
from language.definition import Definition
from language.records import INLINE_BYTES, DoneStep
from workflows.messages import PART_BYTES, Batch, BatchRow, Progress

MAX_BYTES = 1024 * 1024 - 256 * 1024
"""What the rows of a batch may have when it starts: a definition goes along."""


async def loaded(
    connection: Connection, batch_id: UUID, lane: dict[str, Any], rows: list[dict[str, Any]]
) -> Batch:
    """The batch of these runs; those that do not fit into its start go back to their lane.

    Args:
        connection: inside the transaction that has claimed or locked them.
        batch_id: under which they are held.
        lane: account_id, automation_id, version and priority.
        rows: of the runs, as `models.batches` selects them; `begun`: there may be records of its steps.
    """
    cursor = await connection.execute(
        "select definition from automation_versions where automation_id = %s and version = %s",
        (lane["automation_id"], lane["version"]),
    )
    version = await cursor.fetchone()
    assert version is not None
    begun = [row["id"] for row in rows if row["begun"]]
    done = await _done(connection, version["definition"], begun) if begun else {}
    items = await _items_done(connection, begun) if begun else {}
    triggers = {row["trigger"] for row in rows}
    loaded = _rows(rows, done, items)
    fitting = _fitting(loaded)
    if left_out := [row.run_id for row in loaded[len(fitting) :]]:
        await connection.execute(
            "update runs set status = 'queued', batch_id = null where id = any(%s)", (left_out,)
        )
    return Batch(
        batch_id=batch_id,
        account_id=lane["account_id"],
        automation_id=lane["automation_id"],
        version=lane["version"],
        priority=lane["priority"],
        trigger=triggers.pop() if len(triggers) == 1 else "mixed",
        definition=version["definition"],
        rows=fitting,
    )


def _rows(
    rows: list[dict[str, Any]],
    done: dict[UUID, list[DoneStep]],
    items: dict[UUID, dict[str, list[int]]],
) -> list[BatchRow]:
    return [
        BatchRow(
            run_id=row["id"],
            trigger=row["input"],
            request=row["request"],
            size=0 if row["input_bytes"] > INLINE_BYTES else row["input_bytes"],
            stored=row["input_bytes"] > INLINE_BYTES,
            started_at=row["started_at"],
            done=done.get(row["id"], []),
            items=items.get(row["id"], {}),
            progress=Progress.model_validate(row["progress"] or {}),
        )
        for row in sorted(rows, key=lambda row: row["id"])
    ]


def _fitting(rows: list[BatchRow]) -> list[BatchRow]:
    """The first rows that fit into a start together, one at least; what has begun has more than its input."""
    size = 0
    for place, row in enumerate(rows):
        begun = row.done or row.items or row.progress.attempts
        size += len(row.model_dump_json()) if begun else row.size
        if place and size > MAX_BYTES:
            return rows[:place]
    return rows


async def _done(
    connection: Connection, definition: dict[str, Any], run_ids: Sequence[UUID]
) -> dict[UUID, list[DoneStep]]:
    """The steps that are done in these runs, with the outputs that later ones read, if they can travel."""
    try:
        plan = Plan(Definition.model_validate(definition))
    except ValidationError:
        return {}  # The batch itself will fail, and say why.
    # The interpreter itself reads what a condition has decided.
    read = [step.id for step in plan.steps if plan.keeps(step.id) or step.type == "condition"]
    cursor = await connection.execute(
        "select run_id, step_id, status, error, octet_length(output::text) as size,"
        " case when step_id = any(%s) and octet_length(output::text) <= %s then output end as output"
        " from run_steps where run_id = any(%s) order by run_id, position",
        (read, INLINE_BYTES, list(run_ids)),
    )
    room, done = PART_BYTES, dict[UUID, list[DoneStep]]()
    for row in await cursor.fetchall():
        size = (row["size"] or 0) if row["step_id"] in read else 0
        stored = size > min(INLINE_BYTES, max(room, 100))
        room -= 0 if stored else size
        changes = {"size": size, "stored": stored} | ({"output": None} if stored else {})
        step = DoneStep.model_validate(row | changes)
        done.setdefault(row["run_id"], []).append(step)
    return done


async def _items_done(connection: Connection, run_ids: Sequence[UUID]) -> dict[UUID, dict[str, list[int]]]:
    """By run and step the items that are done, of steps that are not."""
    cursor = await connection.execute(
        "select run_id, step_id, array_agg(item order by item) as items from run_step_items i"
        " where run_id = any(%s) and status = 'completed' and not exists"
        "  (select 1 from run_steps s where s.run_id = i.run_id and s.step_id = i.step_id)"
        " group by run_id, step_id order by run_id, step_id",
        (list(run_ids),),
    )
    done: dict[UUID, dict[str, list[int]]] = {}
    for row in await cursor.fetchall():
        done.setdefault(row["run_id"], {})[row["step_id"]] = row["items"]
    return done
