"""Secrets of workflows: stored, listed by name, deleted. A value never comes back."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field, StrictBool, StringConstraints

from api.deps import Caller, ServicesDep, actor, require_scope
from api.http.openapi import problems
from api.http.strict_route import StrictRoute
from api.http.validation import Body
from models.accounts import secrets
from models.accounts.secrets import MAX_NAME_LENGTH, MAX_VALUE_LENGTH, NAME, SecretView
from models.errors import FieldError, Invalid
from models.views import View
from services.signatures import flaw_of

router = APIRouter(prefix="/api/workflows/secrets", tags=["secrets"], route_class=StrictRoute)

Author = Annotated[Caller, require_scope("workflows")]
Keeper = Annotated[Caller, require_scope("workflows", proven=True)]
Force = Annotated[bool, Query(description="Delete it even if workflows use it.")]


class NewSecret(Body):
    """A secret to store; an existing one of this name gets the new value."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"name": "CRM_TOKEN", "value": "a value that never comes back"}]}
    )

    name: Annotated[
        str,
        StringConstraints(
            strip_whitespace=True, min_length=1, max_length=MAX_NAME_LENGTH, pattern=NAME.pattern
        ),
        Field(description="letters, digits and _, no digit first: `{{ secrets.NAME }}` names it"),
    ]
    value: Annotated[str, StringConstraints(min_length=1, max_length=MAX_VALUE_LENGTH)] = Field(
        description="What to keep; it never comes back."
    )


class SecretName(Body):
    """The secret to delete; with `force` also if workflows use it."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"name": "CRM_TOKEN"}]})

    name: Annotated[str, StringConstraints(strip_whitespace=True)] = Field(description="The secret's name.")
    force: StrictBool = Field(default=False, description="Delete it even if workflows use it.")


class SecretStored(BaseModel):
    """The value is stored."""

    name: str = Field(description="The secret's name.")
    created_at: datetime = Field(description="When it was first stored.")


class Secrets(BaseModel):
    """All secrets of the account, by name."""

    secrets: list[SecretView] = Field(description="The secrets, without their values.")


class SecretDeleted(View):
    """It is gone."""

    success: bool = Field(default=True, description="Always true.")
    message: str = Field(default="The secret is deleted.", description="What was done, for people.")


@router.get("")
async def list_secrets(caller: Author, services: ServicesDep) -> Secrets:
    """List the account's secrets, and the workflows whose current version uses each; no values."""
    async with services.database.connection() as connection:
        return Secrets(secrets=await secrets.list_all(connection, caller.account_id))


@router.post(
    "",
    status_code=201,
    responses={
        200: {"model": SecretStored, "description": "It was there; its value is new"},
        **problems("too_many_secrets", "password_required"),
    },
)
async def store_secret(
    body: NewSecret, request: Request, caller: Keeper, services: ServicesDep, response: Response
) -> SecretStored:
    """Store a secret. An existing one of this name is replaced, from the next call that uses it.

    A secret that signs a workflow's events must be long enough for that.
    """
    async with services.database.transaction() as connection:
        schemes = await secrets.signing_schemes(connection, caller.account_id, body.name)
        if flaw := next(filter(None, (flaw_of(scheme, body.value) for scheme in schemes)), None):
            raise Invalid([FieldError("/value", "weak_secret", flaw)])
        stored = await secrets.put_secret(
            connection, services.keyring, actor(request, caller), body.name, body.value
        )
    response.status_code = 201 if stored.is_new else 200
    return SecretStored(name=body.name, created_at=stored.created_at)


@router.delete("", responses=problems("not_found", "secret_in_use", "password_required"))
async def delete_secret_by_body(
    body: SecretName, request: Request, caller: Keeper, services: ServicesDep, force: Force = False
) -> SecretDeleted:
    """Delete a secret. One in use by workflows is only deleted with `force`; their steps then fail."""
    return await delete_secret(body.name, request, caller, services, force or body.force)


@router.delete("/{name}", responses=problems("secret_in_use", "password_required"))
async def delete_secret(
    name: str, request: Request, caller: Keeper, services: ServicesDep, force: Force = False
) -> SecretDeleted:
    """Delete a secret. One in use by workflows is only deleted with `force`; their steps then fail."""
    async with services.database.transaction() as connection:
        await secrets.delete(connection, actor(request, caller), name, force=force)
    return SecretDeleted()
