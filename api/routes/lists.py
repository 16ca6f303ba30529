"""Contact lists: make, rename and delete them; add, remove and read their targets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import ConfigDict, Field

from api.deps import Caller, Id, Services, ServicesDep, actor, require_scope
from api.http.strict_route import StrictRoute
from api.http.validation import Body
from api.schemas.condition_bodies import WHEN, ChangeCondition, Conditions, stored_conditions
from api.schemas.target_bodies import (
    GivenTargets,
    InvalidTarget,
    Targets,
    TargetsAdded,
    TargetsDeleted,
    answer_targets,
    changing,
    importing,
    invalid_of,
    takes_targets,
    texts_of,
)
from api.schemas.target_files import File, TargetsImported, show_import, takes_file
from language.definition import Name
from models.errors import FieldError, Invalid
from models.lists import lists
from models.lists.lists import ListView, TargetType
from services.conditions import check_conditions
from services.disk_buffer import buffer_to_disk
from services.targets import Checked, check_targets

_lists = APIRouter(tags=["lists"], route_class=StrictRoute)

Owner = Annotated[Caller, require_scope("lists")]


_WHEN = f"{WHEN} They count for monitors that watch the list and have none of their own."


class NewList(Targets):
    """A list to make, with its first targets, if any."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"name": "Customers", "type": "domain", "targets": ["example.com", "example.org"]}]
        }
    )
    read_only = frozenset(ListView.model_fields) - {"name", "type", "list_type", "when"}

    name: Name = Field(description="What the list is called.")
    type: TargetType | None = Field(None, description="What its targets are; without it, e-mail addresses.")
    list_type: TargetType | None = Field(None, description="The same as `type`, for older clients.")
    when: Conditions = Field(default_factory=list[ChangeCondition], description=_WHEN)

    def target_type(self) -> TargetType:
        """Return the type of its targets.

        Raises:
            Invalid: the two fields differ.
        """
        if self.type and self.list_type and self.type != self.list_type:
            raise Invalid([FieldError("/list_type", "not_allowed", "Say it in type alone.")])
        return self.type or self.list_type or "email"


class ListChanges(Body):
    """The fields to change; the absent ones stay."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"name": "Former customers"}]})
    read_only = frozenset(ListView.model_fields) - {"name", "when", "type", "list_type"}

    name: Name | None = Field(None, description="What the list is to be called.")
    when: Conditions | None = Field(None, description=_WHEN)
    type: TargetType | None = Field(None, description="What its targets are: always the same.")
    list_type: TargetType | None = Field(None, description="The same as `type`, for older clients.")

    def check(self, type: TargetType) -> None:
        """Check the changes of a list whose targets are of this type.

        Raises:
            Invalid: they have another type, or nothing to change.
        """
        message = f"It stays {type}. For targets of another type make another list."
        given = {"/type": self.type, "/list_type": self.list_type}
        others = [at for at, one in given.items() if one not in (None, type)]
        wrong = [FieldError(at, "not_allowed", message) for at in others]
        if self.name is None and self.when is None and not wrong:
            wrong = [FieldError("/name", "required", "Give a name, or conditions as `when`.")]
        if wrong:
            raise Invalid(wrong)


class ListCreated(ListView):
    """The new list."""

    invalid: list[InvalidTarget] = Field(description="What was sent, and is no target of its type.")


@_lists.get("")
async def list_lists(
    caller: Owner,
    services: ServicesDep,
    type: Annotated[TargetType | None, Query(description="Only lists of this type.")] = None,
) -> list[ListView]:
    """List the account's lists, newest first; without their targets."""
    async with services.database.connection() as connection:
        return await lists.list_all(connection, caller.account_id, type)


@_lists.post("", status_code=201, **takes_targets("too_many_lists"))
async def create_list(body: NewList, request: Request, caller: Owner, services: ServicesDep) -> ListCreated:
    """Make a list, with up to 10,000 targets.

    Texts that are not targets are left out, and listed in `invalid`.

    If none of them is a target, no list is made (400). The body may have 4 MiB.
    """
    type, texts = body.target_type(), body.texts()
    when = _checked_conditions(type, body.when)
    checked = await check_targets(services.pool, caller.account_id, type, texts)
    if texts and not checked.targets:
        raise Invalid(body.errors_of(checked))
    async with changing(services, caller) as connection:
        who = actor(request, caller)
        made = await lists.create(connection, who, body.name, type, checked.targets, when)
    return ListCreated(**made.model_dump(), invalid=invalid_of(texts, checked))


@_lists.get("/{id}")
async def get_list(id: Id, caller: Owner, services: ServicesDep) -> ListView:
    """Get the list, without its targets."""
    async with services.database.connection() as connection:
        return await lists.get(connection, caller.account_id, id)


@_lists.patch("/{id}")
async def change_list(
    id: Id, body: ListChanges, request: Request, caller: Owner, services: ServicesDep
) -> ListView:
    """Change the list's name, or its conditions on changes. Its type stays."""
    who = actor(request, caller)
    async with changing(services, caller) as connection:
        changed = await lists.get(connection, caller.account_id, id)
        body.check(changed.type)
        if body.name is not None:
            changed = await lists.rename(connection, who, id, body.name)
        if body.when is not None:
            when = _checked_conditions(changed.type, body.when)
            changed = await lists.set_conditions(connection, who, id, when)
    return changed


@_lists.delete("/{id}", status_code=204)
async def delete_list(id: Id, request: Request, caller: Owner, services: ServicesDep) -> None:
    """Delete the list and its targets, and pause the active monitors that watch it.

    They are the monitors with this list as `data_source_ref` and `list_deleted` as `paused_reason`.
    """
    async with changing(services, caller) as connection:
        await lists.delete(connection, actor(request, caller), id)


@_lists.get("/{id}/emails", response_model=list[str])
@_lists.get("/{id}/targets", response_model=list[str])
async def list_targets(id: Id, caller: Owner, services: ServicesDep) -> Response:
    """List all targets of the list, in the order of adding."""
    async with services.database.connection() as connection:
        await lists.get(connection, caller.account_id, id)
        return await answer_targets(services, connection, lists.targets_after, id)


@_lists.post("/{id}/emails", **takes_targets("list_full"))
@_lists.post("/{id}/targets", **takes_targets("list_full"))
async def add_targets(
    id: Id, body: GivenTargets, request: Request, caller: Owner, services: ServicesDep
) -> TargetsAdded:
    """Add up to 10,000 targets. Existing ones are ignored, invalid ones are listed in `invalid`.

    If the list would exceed 100,000, none is added (409). The body may have 4 MiB.
    """
    texts = texts_of(body)
    checked = await _check_texts(services, caller, id, texts)
    async with changing(services, caller) as connection:
        added = await lists.add_targets(connection, actor(request, caller), id, checked.targets)
    duplicates = len(checked.targets) - added
    return TargetsAdded(added=added, duplicates=duplicates, invalid=invalid_of(texts, checked))


@_lists.post("/{id}/targets/import", **takes_file("list_full"))
async def import_targets(
    id: Id, request: Request, caller: Owner, file: File, services: ServicesDep
) -> TargetsImported:
    """Add the targets of a CSV file with up to 100,000 rows, sent in a form.

    Existing targets are ignored; rows without a target are listed by number. If the file is unreadable (400),
    or the list would exceed 100,000 targets (409), none is added.
    """
    async with services.database.connection() as connection:
        type = (await lists.get(connection, caller.account_id, id)).type
    given = await file.open(services, caller, type)
    async with buffer_to_disk(given.read_batches()) as batches, importing(services, caller) as connection:
        targets = given.targets_of(batches)
        added = await lists.import_targets(connection, actor(request, caller), id, targets)
    return show_import(given, added)


@_lists.delete("/{id}/emails", **takes_targets())
@_lists.delete("/{id}/targets", **takes_targets())
async def remove_targets(
    id: Id, body: GivenTargets, request: Request, caller: Owner, services: ServicesDep
) -> TargetsDeleted:
    """Remove up to 10,000 targets, in any spelling. Unknown ones are ignored.

    The body may have 4 MiB.
    """
    texts = texts_of(body)
    checked = await _check_texts(services, caller, id, texts)
    # Also unchanged: a text that was valid when added may be invalid now.
    wanted = [*checked.targets, *(text.strip() for text in texts)]
    async with changing(services, caller) as connection:
        deleted = await lists.remove_targets(connection, actor(request, caller), id, wanted)
    return TargetsDeleted(deleted=deleted)


def _checked_conditions(type: TargetType, given: Sequence[ChangeCondition]) -> list[dict[str, Any]]:
    """Return the conditions in their stored form.

    Raises:
        Invalid: an answer of the type has no such field, or the field has another type.
    """
    when = stored_conditions(given)
    if wrong := check_conditions(type, when):
        raise Invalid(wrong)
    return when


async def _check_texts(services: Services, caller: Caller, id: UUID, texts: Sequence[str]) -> Checked:
    async with services.database.connection() as connection:
        type = (await lists.get(connection, caller.account_id, id)).type
    return await check_targets(services.pool, caller.account_id, type, texts)


# Paths below /api/agent/ accept keys only.
router = APIRouter()
for _mount in ("/api/lists", "/api/agent/lists"):
    router.include_router(_lists, prefix=_mount)
