"""Loading of runs: the recorded state from which a carrier continues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, LiteralString
from uuid import UUID

from database import Connection
from language.items import failure_fails_run
from language.records import INLINE_BYTES, DoneStep, StepError
from language.steps import Step
from models.run_values import GATHERED


@dataclass
class Recorded:
    """The rows of a run's finished work, not yet validated: an invalid row must fail only its own run.

    Attributes:
        steps: the finished steps.
        items: the finished items of unfinished steps.
    """

    steps: list[Mapping[str, Any]] = field(default_factory=list[Mapping[str, Any]])
    items: list[Mapping[str, Any]] = field(default_factory=list[Mapping[str, Any]])

    def parse_steps(self) -> list[DoneStep]:
        """Parse the finished steps."""
        return [
            DoneStep.model_validate(
                {**row, "size": row["size"] or 0,
                 "stored": row["gathered"] or (row["size"] or 0) > INLINE_BYTES}
            )
            for row in self.steps
        ]  # fmt: skip

    def items_done(self) -> dict[str, dict[int, StepError | None]]:
        """Parse the finished items by step, each with its error if it failed."""
        done: dict[str, dict[int, StepError | None]] = {}
        for row in self.items:
            error = StepError.model_validate(row["error"]) if row["error"] else None
            done.setdefault(row["step_id"], {})[row["item"]] = error
        return done


async def load_records(
    connection: Connection, run_ids: Sequence[UUID], read: Sequence[str]
) -> dict[UUID, Recorded]:
    """Return the finished work of these runs.

    Args:
        connection: outside a transaction.
        run_ids: the runs.
        read: the steps whose outputs the engine needs.
    """
    recorded: dict[UUID, Recorded] = {}
    cursor = await connection.execute(
        "select run_id, step_id, status, error, gathered, octet_length(output::text) as size,"
        " case when step_id = any(%s) and octet_length(output::text) <= %s then output end as output"
        " from run_steps where run_id = any(%s) order by run_id, completed_at, position",
        (list(read), INLINE_BYTES, list(run_ids)),
    )
    for row in await cursor.fetchall():
        recorded.setdefault(row["run_id"], Recorded()).steps.append(row)
    cursor = await connection.execute(
        "select run_id, step_id, item, error from run_step_items i where run_id = any(%s) and not exists"
        "  (select 1 from run_steps s where s.run_id = any(%s) and s.run_id = i.run_id"
        "   and s.step_id = i.step_id)"
        " order by run_id, step_id, item",
        (list(run_ids), list(run_ids)),
    )
    for row in await cursor.fetchall():
        recorded.setdefault(row["run_id"], Recorded()).items.append(row)
    return recorded


# The output of a step with items is stored once, in its items.
_VALUES: LiteralString = """
select n.name, case
  when n.name = 'trigger' then r.input when n.name = 'request' then r.request
  when s.gathered and s.status = 'completed' then (
    select {gathered}
    from run_step_items i where i.run_id = s.run_id and i.step_id = s.step_id)
  else s.output end as value
from unnest(%s::text[]) as n (name) join runs r on r.id = %s
left join run_steps s on s.run_id = r.id and s.step_id = n.name
""".replace("{gathered}", GATHERED)


async def load_values(connection: Connection, run_id: UUID, names: Sequence[str]) -> dict[str, Any]:
    """Return stored values of a run by name: `trigger`, `request`, or the output of a step."""
    cursor = await connection.execute(_VALUES, (list(names), run_id))
    return {row["name"]: row["value"] for row in await cursor.fetchall()}


_SIZES: LiteralString = """
select coalesce(sum(case
  when n.name in ('trigger', 'request') then r.input_bytes
  when s.gathered then (select sum(octet_length(i.output::text)) from run_step_items i
                        where i.run_id = s.run_id and i.step_id = s.step_id)
  else octet_length(s.output::text) end), 0)::bigint as bytes
from unnest(%s::text[]) as n (name) join runs r on r.id = %s
left join run_steps s on s.run_id = r.id and s.step_id = n.name
"""


async def measure_values(connection: Connection, run_id: UUID, names: Sequence[str]) -> int:
    """Return the size in bytes of JSON of the result of `load_values`."""
    cursor = await connection.execute(_SIZES, (list(names), run_id))
    row = await cursor.fetchone()
    return row["bytes"] if row else 0


async def is_failing(connection: Connection, run_id: UUID, steps: Sequence[Step]) -> bool:
    """Return whether one of these steps of a run is recorded as failed, and fails the run."""
    cursor = await connection.execute(
        "select step_id from run_steps where run_id = %s and status = 'failed'", (run_id,)
    )
    failed = {row["step_id"] for row in await cursor.fetchall()}
    return any(step.id in failed and failure_fails_run(step) for step in steps)
