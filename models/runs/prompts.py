"""Prompts: what steps that wait ask of whoever resumes them, as it was when they began."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple
from uuid import UUID

from sqlalchemy import Column, Text
from sqlmodel import Field, SQLModel

from database import Connection


class RunPrompt(SQLModel, table=True):
    """What a step of a run asks. It is kept while the run goes on."""

    __tablename__ = "run_prompts"  # pyright: ignore[reportAssignmentType]

    run_id: UUID = Field(primary_key=True)
    step_id: str = Field(sa_column=Column(Text, primary_key=True))
    title: str | None = Field(sa_type=Text)
    message: str | None = Field(sa_type=Text)


class Prompt(NamedTuple):
    """What a step asks, in a line and in more; either may be missing."""

    title: str | None
    message: str | None


async def store(connection: Connection, run_id: UUID, step_id: str, prompt: Mapping[str, Any]) -> None:
    """Store what a step asks: `title`, `message` or both. What is stored already stands."""
    await connection.execute(
        "insert into run_prompts (run_id, step_id, title, message) values (%s, %s, %s, %s)"
        " on conflict do nothing",
        (run_id, step_id, prompt.get("title"), prompt.get("message")),
    )


async def find(connection: Connection, run_id: UUID, step_id: str) -> Prompt | None:
    """Find what a step asks; None if it has not begun, or asks nothing."""
    cursor = await connection.execute(
        "select title, message from run_prompts where run_id = %s and step_id = %s", (run_id, step_id)
    )
    row = await cursor.fetchone()
    return None if row is None else Prompt(**row)
