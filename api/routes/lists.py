"""Contact lists: make, rename and delete them; add, remove and read their targets."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, Any
from uuid import UUID

import fastapi
import orjson
from fastapi import APIRouter, Query, Request
from fastapi.responses import Response, StreamingResponse
from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

from api.deps import Caller, Id, Services, ServicesDep, actor, authorised
from api.http.json_body import StrictRoute
from api.http.openapi import problems
from api.http.validation import Body
from database import Connection
from language.definition import Name
from models import lists
from models.errors import FieldError, Invalid
from models.lists import ListView, NumberedTarget, TargetType
from services.targets import Checked, check_targets

_lists = APIRouter(tags=["lists"], route_class=StrictRoute)

Owner = Annotated[Caller, authorised("lists")]

MAX_IN_REQUEST = 10_000
_MAX_BODY_BYTES = 4 * 1024 * 1024
_MOST_ERRORS = 100
_CHUNK = 2_000

Texts = Annotated[list[str], Field(max_length=MAX_IN_REQUEST, fail_fast=True)]


class Targets(Body):
    """Targets, in either field."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"targets": ["ada@example.com"]}]})

    targets: Texts | None = Field(None, description="Targets.")
    emails: Texts | None = Field(None, description="The same as `targets`, whatever their type.")

    def texts(self) -> list[str]:
        """All of them.

        Raises:
            Invalid: there are more than a request may bring.
        """
        both = [*(self.targets or ()), *(self.emails or ())]
        if len(both) > MAX_IN_REQUEST:
            message = f"At most {MAX_IN_REQUEST} items are allowed, in both fields together."
            raise Invalid([FieldError("/emails", "too_many_items", message)])
        return both


class NewList(Targets):
    """A list to make, with its first targets if there are any."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"name": "Customers", "type": "domain", "targets": ["example.com", "example.org"]}]
        }
    )
    read_only = frozenset(ListView.model_fields) - {"name", "type", "list_type"}

    name: Name = Field(description="What the list is called.")
    type: TargetType | None = Field(None, description="What its targets are; without it, e-mail addresses.")
    list_type: TargetType | None = Field(None, description="The same as `type`, for older clients.")

    def target_type(self) -> TargetType:
        """What its targets are.

        Raises:
            Invalid: the two fields say different things.
        """
        if self.type and self.list_type and self.type != self.list_type:
            raise Invalid([FieldError("/list_type", "not_allowed", "Say it in type alone.")])
        return self.type or self.list_type or "email"

    def pointer(self, position: int) -> str:
        """Where the text stands that is at this place in `texts`."""
        first = len(self.targets or ())
        return f"/targets/{position}" if position < first else f"/emails/{position - first}"


class ListName(Body):
    """Another name for a list."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"name": "Former customers"}]})
    read_only = frozenset(ListView.model_fields) - {"name"}

    name: Name = Field(description="What the list is to be called.")


def _form(body: Any) -> str:
    return "array" if isinstance(body, list) else "object"


GivenTargets = Annotated[
    Annotated[Targets, Tag("object")] | Annotated[Texts, Tag("array")], Discriminator(_form), fastapi.Body()
]


class InvalidTarget(BaseModel):
    """A text that is no target of the list's type."""

    target: str = Field(description="The text, as it was sent.")
    reason: str = Field(description="What is wrong, for programs: stable, snake_case.")
    message: str = Field(description="What is wrong and what would be right.")


class ListCreated(ListView):
    """The new list."""

    invalid: list[InvalidTarget] = Field(description="What was sent, and is no target of its type.")


class TargetsAdded(BaseModel):
    """What became of the targets that were sent."""

    added: int = Field(description="How many the list has now that it did not have.")
    duplicates: int = Field(description="How many it had already, or that came more than once.")
    invalid: list[InvalidTarget] = Field(description="Those that are no targets of its type.")


class TargetsDeleted(BaseModel):
    """What became of the targets that were sent."""

    deleted: int = Field(description="How many the list had, and has no more.")


def _takes_targets(*codes: str) -> dict[str, Any]:
    """What the routes share that check targets; `codes` are the further ones that a route gives."""
    return {"max_body_size": _MAX_BODY_BYTES, "responses": problems("too_busy", "work_lost", *codes)}


@asynccontextmanager
async def _changing(services: Services, caller: Caller) -> AsyncGenerator[Connection]:
    """A transaction that changes lists. Those of an account wait here, and not with a connection each."""
    async with services.list_turns.of(caller.account_id), services.database.transaction() as connection:
        yield connection


@_lists.get("")
async def list_lists(
    caller: Owner,
    services: ServicesDep,
    type: Annotated[TargetType | None, Query(description="Only lists of this type.")] = None,
) -> list[ListView]:
    """The account's lists, newest first; without their targets."""
    async with services.database.connection() as connection:
        return await lists.list_all(connection, caller.account_id, type)


@_lists.post("", status_code=201, **_takes_targets("too_many_lists"))
async def create_list(body: NewList, request: Request, caller: Owner, services: ServicesDep) -> ListCreated:
    """Make a list, with up to 10,000 targets. Texts that are no targets are left out, and named in `invalid`.

    If none of them is a target, no list is made (400). The body may have 4 MiB.
    """
    type, texts = body.target_type(), body.texts()
    checked = await check_targets(services.pool, caller.account_id, type, texts)
    if texts and not checked.targets:
        first = checked.rejected[:_MOST_ERRORS]
        raise Invalid([FieldError(body.pointer(one.position), one.code, one.message) for one in first])
    async with _changing(services, caller) as connection:
        made = await lists.create(connection, actor(request, caller), body.name, type, checked.targets)
    return ListCreated(**made.model_dump(), invalid=_invalid(texts, checked))


@_lists.get("/{id}")
async def get_list(id: Id, caller: Owner, services: ServicesDep) -> ListView:
    """The list, without its targets."""
    async with services.database.connection() as connection:
        return await lists.get(connection, caller.account_id, id)


@_lists.patch("/{id}")
async def rename_list(
    id: Id, body: ListName, request: Request, caller: Owner, services: ServicesDep
) -> ListView:
    """Give the list another name."""
    async with _changing(services, caller) as connection:
        return await lists.rename(connection, actor(request, caller), id, body.name)


@_lists.delete("/{id}", status_code=204)
async def delete_list(id: Id, request: Request, caller: Owner, services: ServicesDep) -> None:
    """Delete the list and its targets."""
    async with _changing(services, caller) as connection:
        await lists.delete(connection, actor(request, caller), id)


@_lists.get("/{id}/emails", response_model=list[str])
@_lists.get("/{id}/targets", response_model=list[str])
async def list_targets(id: Id, caller: Owner, services: ServicesDep) -> Response:
    """All targets of the list, in the order of adding."""
    async with services.database.connection() as connection:
        await lists.get(connection, caller.account_id, id)
        first = await lists.targets_after(connection, id, 0, _CHUNK)
    return StreamingResponse(_json_array(services, id, first), media_type="application/json")


@_lists.post("/{id}/emails", **_takes_targets("list_full"))
@_lists.post("/{id}/targets", **_takes_targets("list_full"))
async def add_targets(
    id: Id, body: GivenTargets, request: Request, caller: Owner, services: ServicesDep
) -> TargetsAdded:
    """Add up to 10,000 targets. What the list has already is ignored, what is none is named in `invalid`.

    If the list would have more than 100,000, none is added (409). The body may have 4 MiB.
    """
    texts = _texts(body)
    checked = await _checked(services, caller, id, texts)
    async with _changing(services, caller) as connection:
        added = await lists.add_targets(connection, actor(request, caller), id, checked.targets)
    duplicates = len(checked.targets) - added
    return TargetsAdded(added=added, duplicates=duplicates, invalid=_invalid(texts, checked))


@_lists.delete("/{id}/emails", **_takes_targets())
@_lists.delete("/{id}/targets", **_takes_targets())
async def remove_targets(
    id: Id, body: GivenTargets, request: Request, caller: Owner, services: ServicesDep
) -> TargetsDeleted:
    """Remove up to 10,000 targets, in whatever form they are written. What it does not have is ignored.

    The body may have 4 MiB.
    """
    texts = _texts(body)
    checked = await _checked(services, caller, id, texts)
    # Also as they are: what was a target when it was added may be none any more.
    wanted = [*checked.targets, *(text.strip() for text in texts)]
    async with _changing(services, caller) as connection:
        deleted = await lists.remove_targets(connection, actor(request, caller), id, wanted)
    return TargetsDeleted(deleted=deleted)


def _texts(body: Targets | list[str]) -> list[str]:
    if isinstance(body, list):
        return body
    if body.targets is None and body.emails is None:
        raise Invalid([FieldError("/targets", "required", "Give targets here, or a bare array of them.")])
    return body.texts()


async def _checked(services: Services, caller: Caller, id: UUID, texts: Sequence[str]) -> Checked:
    async with services.database.connection() as connection:
        type = (await lists.get(connection, caller.account_id, id)).type
    return await check_targets(services.pool, caller.account_id, type, texts)


def _invalid(texts: Sequence[str], checked: Checked) -> list[InvalidTarget]:
    return [
        InvalidTarget(target=texts[one.position], reason=one.code, message=one.message)
        for one in checked.rejected
    ]


async def _json_array(
    services: Services, list_id: UUID, chunk: list[NumberedTarget]
) -> AsyncGenerator[bytes]:
    """The targets as one JSON array, from this first chunk on; no connection is held while they are sent."""
    opening = b"["
    while chunk:
        yield opening + orjson.dumps([one.target for one in chunk])[1:-1]
        opening = b","
        async with services.database.connection() as connection:
            chunk = await lists.targets_after(connection, list_id, chunk[-1].id, _CHUNK)
    yield b"[]" if opening == b"[" else b"]"


# Below /api/agent/ they take keys only.
router = APIRouter()
for _mount in ("/api/lists", "/api/agent/lists"):
    router.include_router(_lists, prefix=_mount)
