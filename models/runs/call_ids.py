"""The ids under which webhook steps send: one for each call, the same whenever it is repeated.

They were joined by hyphens before, which step ids may have too: item 1 of `pay` and the step `pay-1` had one
id. A run that was accepted by an earlier release keeps those, so that a repetition after the upgrade has the
id of the first attempt.
"""

from __future__ import annotations

from uuid import UUID

from sqlmodel import Field, SQLModel

from database import Connection

_SEPARATOR, _FORMER_SEPARATOR = ":", "-"


class FormerCallIds(SQLModel, table=True):
    """When the separator was changed: one row.

    Attributes:
        runs_before: runs with a smaller id were accepted before that.
    """

    __tablename__ = "former_call_ids"  # pyright: ignore[reportAssignmentType]

    runs_before: UUID = Field(primary_key=True)


async def load_boundary(connection: Connection) -> UUID:
    """Load the id below which runs have calls with former ids."""
    cursor = await connection.execute("select runs_before from former_call_ids")
    row = await cursor.fetchone()
    assert row is not None, "the migration has inserted it"
    return row["runs_before"]


def call_id(run_id: UUID, step_id: str, item: int | None, boundary: UUID) -> str:
    """Name a call of a run.

    Args:
        run_id: the run.
        step_id: the step.
        item: which, if it is one.
        boundary: as `load_boundary` gives it.
    """
    parts = [str(run_id), step_id, *([] if item is None else [str(item)])]
    return (_FORMER_SEPARATOR if run_id < boundary else _SEPARATOR).join(parts)
