"""The steps of runs that were cancelled while a worker executed them, recorded after the end of the run."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from database import Connection
from language.records import StepRecord
from models.runs.run_writes import encode_records, insert_records

_FIND_CANCELLED = "select id, completed_at from runs where id = any(%s) and status = 'cancelled'"

_COUNT_FAILED = (
    "update run_steps s set items_failed = n.failed from (select i.run_id, i.step_id, count(*)::int as failed"
    " from run_step_items i where i.run_id = any(%s) and i.status = 'failed' group by 1, 2) n"
    " where s.run_id = n.run_id and s.step_id = n.step_id and s.status = 'cancelled'"
    " and s.items_total is not null and s.items_failed is distinct from n.failed"
)


async def record_cancelled_steps(connection: Connection, records: Sequence[StepRecord]) -> None:
    """Write an executor's finished work in runs that were cancelled meanwhile, if it is not recorded."""
    cursor = await connection.execute(_FIND_CANCELLED, (list({record.run_id for record in records}),))
    ended: dict[UUID, datetime] = {row["id"]: row["completed_at"] for row in await cursor.fetchall()}
    late = [record for record in records if _belongs_to_cancelled(record, ended)]
    steps = encode_records(record for record in late if record.item is None)
    items = encode_records(record for record in late if record.item is not None)
    async with connection.transaction():
        await insert_records(connection, steps, items)
        # Further items may have failed since the executor has read its rows.
        await connection.execute(_COUNT_FAILED, (list(ended),))


def _belongs_to_cancelled(record: StepRecord, ended: dict[UUID, datetime]) -> bool:
    ended_at = ended.get(record.run_id)
    if ended_at is None:
        return False
    return record.status == "cancelled" or record.completed_at <= ended_at
