"""Prompts: the questions of steps that wait, as they were when the steps began."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple
from uuid import UUID

from sqlalchemy import Column, Text
from sqlmodel import Field, SQLModel

from database import Connection


class RunPrompt(SQLModel, table=True):
    """The prompt of a step of a run. It is stored while the run is unfinished."""

    __tablename__ = "run_prompts"  # pyright: ignore[reportAssignmentType]

    run_id: UUID = Field(primary_key=True)
    step_id: str = Field(sa_column=Column(Text, primary_key=True))
    title: str | None = Field(sa_type=Text)
    message: str | None = Field(sa_type=Text)


class Prompt(NamedTuple):
    """The question of a step: a title and a message; either may be missing."""

    title: str | None
    message: str | None


async def store(connection: Connection, run_id: UUID, step_id: str, prompt: Mapping[str, Any]) -> None:
    """Store the prompt of a step: `title`, `message` or both. An existing prompt stays unchanged."""
    await connection.execute(
        "insert into run_prompts (run_id, step_id, title, message) values (%s, %s, %s, %s)"
        " on conflict do nothing",
        (run_id, step_id, prompt.get("title"), prompt.get("message")),
    )


async def find(connection: Connection, run_id: UUID, step_id: str) -> Prompt | None:
    """Return the prompt of a step; None if it has not begun, or has no prompt."""
    cursor = await connection.execute(
        "select title, message from run_prompts where run_id = %s and step_id = %s", (run_id, step_id)
    )
    row = await cursor.fetchone()
    return None if row is None else Prompt(**row)
