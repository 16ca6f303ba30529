"""Targets in bodies: their form, the report of invalid ones, and all targets as one array."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, Any
from uuid import UUID

import fastapi
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

from api.account_stream import AccountStream
from api.deps import Caller, Services
from api.http.openapi import problems
from api.http.streaming import json_array
from api.http.validation import Body
from database import Connection
from models.errors import FieldError, Invalid
from models.lists.lists import NumberedTarget
from services.targets import Checked

MAX_IN_REQUEST = 10_000
_MAX_BODY_BYTES = 4 * 1024 * 1024
_MOST_ERRORS = 100
_CHUNK = 2_000
_IMPORTING = "targets of files"

Texts = Annotated[list[str], Field(max_length=MAX_IN_REQUEST, fail_fast=True)]


class Targets(Body):
    """Targets, in either field."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"targets": ["ada@example.com"]}]})

    targets: Texts | None = Field(None, description="Targets.")
    emails: Texts | None = Field(None, description="The same as `targets`, whatever their type.")

    def texts(self) -> list[str]:
        """Return all targets.

        Raises:
            Invalid: there are more than a request may have.
        """
        both = [*(self.targets or ()), *(self.emails or ())]
        if len(both) > MAX_IN_REQUEST:
            message = f"At most {MAX_IN_REQUEST} items are allowed, in both fields together."
            raise Invalid([FieldError("/emails", "too_many_items", message)])
        return both

    def errors_of(self, checked: Checked) -> list[FieldError]:
        """Return the errors of the invalid texts, each with its place: the first 100."""
        first = len(self.targets or ())
        return [
            FieldError(
                f"/targets/{one.position}" if one.position < first else f"/emails/{one.position - first}",
                one.code,
                one.message,
            )
            for one in checked.rejected[:_MOST_ERRORS]
        ]


def _form(body: Any) -> str:
    return "array" if isinstance(body, list) else "object"


GivenTargets = Annotated[
    Annotated[Targets, Tag("object")] | Annotated[Texts, Tag("array")], Discriminator(_form), fastapi.Body()
]


class InvalidTarget(BaseModel):
    """A text that is no target of the type."""

    target: str = Field(description="The text, as it was sent.")
    reason: str = Field(description="What is wrong, for programs: stable, snake_case.")
    message: str = Field(description="What is wrong and what would be right.")


class TargetsAdded(BaseModel):
    """The result of adding targets."""

    added: int = Field(description="How many are there now that were not.")
    duplicates: int = Field(description="How many were there already, or came more than once.")
    invalid: list[InvalidTarget] = Field(description="Those that are no targets of the type.")


class TargetsDeleted(BaseModel):
    """The result of removing targets."""

    deleted: int = Field(description="How many were there, and are no more.")


def takes_targets(*codes: str) -> dict[str, Any]:
    """Return the common options of routes that check targets; `codes` are a route's further codes."""
    return {"max_body_size": _MAX_BODY_BYTES, "responses": problems("too_busy", "work_lost", *codes)}


def texts_of(body: Targets | list[str]) -> list[str]:
    """Return the texts in a body of targets alone.

    Raises:
        Invalid: there are none, or more than a request may have.
    """
    if isinstance(body, list):
        return body
    if body.targets is None and body.emails is None:
        raise Invalid([FieldError("/targets", "required", "Give targets here, or a bare array of them.")])
    return body.texts()


def invalid_of(texts: Sequence[str], checked: Checked) -> list[InvalidTarget]:
    """Return the invalid ones of the texts."""
    return [
        InvalidTarget(target=texts[one.position], reason=one.code, message=one.message)
        for one in checked.rejected
    ]


@asynccontextmanager
async def changing(services: Services, caller: Caller) -> AsyncGenerator[Connection]:
    """Open a transaction that changes lists or monitors.

    The requests of an account wait here for their turn, without holding a connection each.
    """
    async with services.locks.hold(caller.account_id), services.database.transaction() as connection:
        yield connection


@asynccontextmanager
async def importing(services: Services, caller: Caller) -> AsyncGenerator[Connection]:
    """Do as `changing`, for the targets of one file at a time, so files leave connections to others."""
    async with (
        services.locks.hold(caller.account_id),
        services.locks.hold(_IMPORTING),
        services.database.transaction(shared=True) as connection,
    ):
        yield connection


ReadTargets = Callable[[Connection, UUID, int, int], Awaitable[list[NumberedTarget]]]
"""Reads targets of a list or a monitor by its id: a number of targets after a given number."""


async def answer_targets(
    services: Services, connection: Connection, read: ReadTargets, id: UUID
) -> StreamingResponse:
    """Return all targets as one JSON array, the first of them read on this connection.

    No connection is held while they are sent.
    """
    first = await read(connection, id, 0, _CHUNK)
    return AccountStream(json_array(_texts(services, read, id, first)), media_type="application/json")


async def _texts(
    services: Services, read: ReadTargets, id: UUID, chunk: list[NumberedTarget]
) -> AsyncGenerator[list[str]]:
    while chunk:
        yield [one.target for one in chunk]
        async with services.database.connection() as connection:
            chunk = await read(connection, id, chunk[-1].id, _CHUNK)
