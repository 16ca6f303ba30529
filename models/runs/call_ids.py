"""The ids that webhook steps send with their calls: one for each call, the same in each repetition.

Formerly the parts were joined by hyphens, which step ids may contain: item 1 of `pay` and the step `pay-1`
had the same id. A run that was accepted by an earlier release keeps such ids, so that a repetition after the
upgrade has the id of the first attempt.
"""

from __future__ import annotations

from uuid import UUID

from sqlmodel import Field, SQLModel

from database import Connection

_SEPARATOR, _FORMER_SEPARATOR = ":", "-"


class FormerCallIds(SQLModel, table=True):
    """The change of the separator: one row.

    Attributes:
        runs_before: runs with a smaller id were accepted before the change.
    """

    __tablename__ = "former_call_ids"  # pyright: ignore[reportAssignmentType]

    runs_before: UUID = Field(primary_key=True)


async def load_boundary(connection: Connection) -> UUID:
    """Load the id below which runs use the former call ids."""
    cursor = await connection.execute("select runs_before from former_call_ids")
    row = await cursor.fetchone()
    assert row is not None, "the migration has inserted it"
    return row["runs_before"]


def call_id(run_id: UUID, step_id: str, item: int | None, boundary: UUID) -> str:
    """Return the id of a call of a run.

    Args:
        run_id: the run.
        step_id: the step.
        item: the index of the item, if the call is for one.
        boundary: the result of `load_boundary`.
    """
    parts = [str(run_id), step_id, *([] if item is None else [str(item)])]
    return (_FORMER_SEPARATOR if run_id < boundary else _SEPARATOR).join(parts)
