"""Secrets of workflows: stored, listed by name, deleted. A value never comes back."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field, StrictBool, StringConstraints

from api.deps import Caller, ServicesDep, actor, authorised
from api.http.json_body import StrictRoute
from api.http.openapi import problems
from api.http.validation import Body
from models import secrets
from models.secrets import MAX_NAME_LENGTH, MAX_VALUE_LENGTH, NAME, SecretView

router = APIRouter(prefix="/api/workflows/secrets", tags=["workflows"], route_class=StrictRoute)

Author = Annotated[Caller, authorised("workflows")]


class NewSecret(Body):
    """A secret to store; one of this name gets the new value."""

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
    value: Annotated[str, StringConstraints(min_length=1, max_length=MAX_VALUE_LENGTH)]


class SecretName(Body):
    """Which secret to delete; with `force` also if workflows use it."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"name": "CRM_TOKEN"}]})

    name: Annotated[str, StringConstraints(strip_whitespace=True)]
    force: StrictBool = False


class SecretStored(BaseModel):
    """The value is stored."""

    name: str
    created_at: datetime


class Secrets(BaseModel):
    """All secrets of the account, by name."""

    secrets: list[SecretView]


class SecretDeleted(BaseModel):
    """It is gone."""

    success: bool = True
    message: str = "The secret is deleted."


@router.get("")
async def list_secrets(caller: Author, services: ServicesDep) -> Secrets:
    """The account's secrets, and the workflows whose current version uses each; no values."""
    async with services.database.connection() as connection:
        return Secrets(secrets=await secrets.list_all(connection, caller.account_id))


@router.post(
    "",
    status_code=201,
    responses={
        200: {"model": SecretStored, "description": "It was there; its value is new"},
        **problems(409),
    },
)
async def store_secret(
    body: NewSecret, request: Request, caller: Author, services: ServicesDep, response: Response
) -> SecretStored:
    """Store a secret. With a name that is there its value is replaced, for the next call that uses it."""
    async with services.database.transaction() as connection:
        stored = await secrets.put(
            connection, services.keyring, actor(request, caller), body.name, body.value
        )
    response.status_code = 201 if stored.is_new else 200
    return SecretStored(name=body.name, created_at=stored.created_at)


@router.delete("", responses=problems(404, 409))
async def delete_secret_by_body(
    body: SecretName, request: Request, caller: Author, services: ServicesDep, force: bool = False
) -> SecretDeleted:
    """Delete a secret. One that workflows use is only deleted with `force`; their steps then fail."""
    return await delete_secret(body.name, request, caller, services, force or body.force)


@router.delete("/{name}", responses=problems(409))
async def delete_secret(
    name: str, request: Request, caller: Author, services: ServicesDep, force: bool = False
) -> SecretDeleted:
    """Delete a secret. One that workflows use is only deleted with `force`; their steps then fail."""
    async with services.database.transaction() as connection:
        await secrets.delete(connection, actor(request, caller), name, force=force)
    return SecretDeleted()
