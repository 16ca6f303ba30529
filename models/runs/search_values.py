"""The index of runs by values of their events, at the paths that their workflow names in `search`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import LiteralString, NamedTuple
from uuid import UUID

from sqlalchemy import Column, Index, Text
from sqlmodel import Field, SQLModel

from database import Connection
from language.search import find_values
from models.errors import FieldError, Invalid

MOST_FOUND = 20_000
"""The most runs that have a value with the wanted beginning."""


class RunSearchValue(SQLModel, table=True):
    """A value by which a run is found; it goes with the run."""

    __tablename__ = "run_search_values"  # pyright: ignore[reportAssignmentType]
    __table_args__ = (Index("ix_run_search_values_run_id", "run_id"),)

    account_id: UUID = Field(primary_key=True)
    value: str = Field(sa_column=Column(Text(collation="C"), primary_key=True))
    run_id: UUID = Field(primary_key=True)


async def insert_values(
    connection: Connection, account_ids: Mapping[UUID, UUID], values: Mapping[UUID, Sequence[str]]
) -> None:
    """Index runs that were just accepted.

    Args:
        connection: in the transaction that accepts them.
        account_ids: the account of each run.
        values: those of each run, normal.
    """
    rows = [(account_ids[run_id], value, run_id) for run_id, found in values.items() for value in found]
    if rows:
        await connection.execute(
            "insert into run_search_values (account_id, value, run_id)"
            " select * from unnest(%s::uuid[], %s::text[], %s::uuid[]) on conflict do nothing",
            [list(column) for column in zip(*rows, strict=True)],
        )


async def index_runs(connection: Connection, run_ids: Sequence[UUID]) -> None:
    """Index runs whose events come from the database: another run's, or the report of a failure."""
    cursor = await connection.execute(
        "select r.id, r.account_id, r.input, v.definition->'search' as search from runs r"
        " join automation_versions v on v.automation_id = r.automation_id and v.version = r.version"
        " where r.id = any(%s) and json_typeof(v.definition->'search') = 'array'",
        (list(run_ids),),
    )
    rows = await cursor.fetchall()
    await insert_values(
        connection,
        {row["id"]: row["account_id"] for row in rows},
        {row["id"]: find_values(row["search"], row["input"]) for row in rows},
    )


def select_found(is_beginning: bool) -> LiteralString:
    """Return the sub-select of the runs with the value, or with one that begins so."""
    if not is_beginning:
        return (
            "select run_id as id from run_search_values"
            " where account_id = %(account_id)s and value = %(value)s"
        )
    # The greatest character ends the range.
    return (
        "select distinct run_id as id from (select run_id from run_search_values"
        " where account_id = %(account_id)s and value >= %(value)s and value < %(value)s || chr(1114111)"
        " limit %(most)s) b"
    )


class Place(NamedTuple):
    """The place of a value in a request: a pointer into its body, or a parameter of its query."""

    pointer: str = ""
    parameter: str | None = None


async def check_beginning(connection: Connection, account_id: UUID, value: str, place: Place) -> None:
    """Check that few enough values begin so; `place` is that of the value in the request.

    Raises:
        Invalid: more than 20,000 do, which would have to be sorted.
    """
    cursor = await connection.execute(
        "select count(*)::int as n from (" + select_found(is_beginning=True) + ") c",
        {"account_id": account_id, "value": value, "most": MOST_FOUND + 1},
    )
    row = await cursor.fetchone()
    if row and row["n"] > MOST_FOUND:
        message = f"More than {MOST_FOUND:,} runs have a value that begins so: give more of its beginning."
        raise Invalid([FieldError(place.pointer, "out_of_range", message, parameter=place.parameter)])
