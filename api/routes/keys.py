"""API keys."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query, Request
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, StringConstraints

from api.deps import Caller, Id, ServicesDep, actor, authorised
from api.http.json_body import StrictRoute
from api.http.openapi import problems
from api.http.validation import Body
from models import keys
from models.keys import Bounds, Key, Scope

router = APIRouter(prefix="/api/keys", tags=["keys"], route_class=StrictRoute)

Keeper = Annotated[Caller, authorised("keys")]


class NewKey(Body):
    """A key to create."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"name": "CI", "scopes": ["lookups"]}]})

    name: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]
    scopes: list[Scope] | None = Field(None, min_length=1, max_length=20, description="default: all but keys")
    expires_at: AwareDatetime | None = Field(
        None, description="default: never; when a key creates it, at most and by default when that one ends"
    )


class KeyCreated(BaseModel):
    """The new key. `key` is shown this once."""

    id: UUID
    name: str
    key: str
    key_preview: str
    scopes: list[Scope]
    created_at: datetime
    expires_at: datetime | None


class Keys(BaseModel):
    """All keys of the account, newest first."""

    keys: list[Key]


class Done(BaseModel):
    """It is done."""

    success: bool = True
    message: str


@router.post("", status_code=201, responses=problems(409))
async def create_key(body: NewKey, request: Request, caller: Keeper, services: ServicesDep) -> KeyCreated:
    """Create a key. A key with the scope `keys` may create others, that can do no more and last no longer."""
    bounds = Bounds(caller.scopes, caller.expires_at if caller.kind == "key" else None)
    scopes, expires_at = bounds.scopes_of(body.scopes), bounds.end_of(body.expires_at)
    async with services.database.transaction() as connection:
        key, secret = await keys.create_key(connection, actor(request, caller), body.name, scopes, expires_at)
    return KeyCreated(key=secret, **key.model_dump(include=set(KeyCreated.model_fields)))


@router.get("")
async def list_keys(caller: Keeper, services: ServicesDep) -> Keys:
    """All keys, with their use so far; to a key those that have no scope which it lacks."""
    async with services.database.connection() as connection:
        return Keys(keys=await keys.list_keys(connection, caller.account_id, caller.scopes))


@router.delete("", responses=problems(404))
async def delete_key_by_query(
    id: Annotated[Id, Query()],
    request: Request,
    caller: Keeper,
    services: ServicesDep,
    permanent: bool = False,
) -> Done:
    """Revoke a key, at once and everywhere; `permanent` also removes its record."""
    return await delete_key(id, request, caller, services, permanent)


@router.delete("/{id}")
async def delete_key(
    id: Id, request: Request, caller: Keeper, services: ServicesDep, permanent: bool = False
) -> Done:
    """Revoke a key, at once and everywhere; `permanent` also removes its record."""
    async with services.database.transaction() as connection:
        await keys.revoke(connection, actor(request, caller), id, caller.scopes, permanent=permanent)
    services.credentials.forget(str(id))
    return Done(message="The key is deleted." if permanent else "The key is revoked.")
