"""Pages of lists. A cursor is the number or the id of the last entry before the next page."""

from __future__ import annotations

import base64
import zlib
from typing import Annotated
from uuid import UUID

from fastapi import Query

from api.http.query import Digits
from models.errors import FieldError, Invalid

Limit = Annotated[int, Query(ge=1, le=100, description="How many to give at most."), Digits]
Page = Annotated[int, Query(ge=1, le=100_000, description="The number of the page, from 1."), Digits]
Offset = Annotated[int, Query(ge=0, le=1_000_000, description="How many to leave out."), Digits]
Cursor = Annotated[
    str | None, Query(description="`next_cursor` of the page before; without it, the first page.")
]


def number_of(cursor: str | None, digits: int) -> int | None:
    """Return the number in a cursor of at most this many digits; None without one.

    Raises:
        Invalid: it is not a cursor of ours.
    """
    if cursor is None:
        return None
    if not (cursor.isascii() and cursor.isdecimal() and len(cursor) <= digits):
        raise _not_ours()
    return int(cursor)


def cursor_of(number: int | None) -> str | None:
    """Return the cursor for the next page; None if there is none."""
    return None if number is None else str(number)


def id_of(cursor: str | None) -> UUID | None:
    """Return the id in a cursor; None without one.

    Raises:
        Invalid: it is not a cursor of ours.
    """
    if cursor is None:
        return None
    try:
        id = UUID(bytes=base64.urlsafe_b64decode(cursor.encode("ascii"))[:16])
    except ValueError:
        raise _not_ours() from None
    if cursor_of_id(id) != cursor:
        raise _not_ours()
    return id


def cursor_of_id(id: UUID | None) -> str | None:
    """Return the cursor for the next page; None if there is none.

    Its checksum detects cut or changed ones.
    """
    if id is None:
        return None
    # 21 bytes, so that base64 needs no padding.
    return base64.urlsafe_b64encode(id.bytes + zlib.crc32(id.bytes).to_bytes(5, "big")).decode()


def _not_ours() -> Invalid:
    message = "This is not a cursor of an earlier answer."
    return Invalid([FieldError("", "invalid_cursor", message, parameter="cursor")])
