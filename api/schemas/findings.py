"""The errors and doubts of a document that is checked and not stored."""

from __future__ import annotations

from pydantic import BaseModel, Field


class FoundView(BaseModel):
    """One error."""

    pointer: str = Field(description="JSON pointer into the body; empty for the body as a whole")
    code: str = Field(description="What is wrong, for programs: stable, snake_case.")
    message: str = Field(description="What is wrong and what would be right.")


class WarningView(FoundView):
    """One doubt."""
