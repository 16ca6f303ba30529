"""Pages of lists. A cursor is a number: that of the entry before which the next page goes on."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from models.errors import FieldError, Invalid

Limit = Annotated[int, Query(ge=1, le=100, description="How many to give at most.")]
Page = Annotated[int, Query(ge=1, le=100_000, description="The number of the page, from 1.")]
Cursor = Annotated[
    str | None, Query(description="`next_cursor` of the page before; without it, the first page.")
]


def number_of(cursor: str | None, digits: int) -> int | None:
    """The number in a cursor of at most so many digits; None without one.

    Raises:
        Invalid: it is not a cursor of ours.
    """
    if cursor is None:
        return None
    if not (cursor.isascii() and cursor.isdecimal() and len(cursor) <= digits):
        message = "This is not a cursor of an earlier answer."
        raise Invalid([FieldError("", "invalid_cursor", message, parameter="cursor")])
    return int(cursor)


def cursor_of(number: int | None) -> str | None:
    """The cursor to go on with; None where there is no more."""
    return None if number is None else str(number)
