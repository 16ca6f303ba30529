"""API keys."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from api.deps import Caller, Id, ServicesDep, actor, require_scope
from api.http.openapi import problems
from api.http.strict_route import StrictRoute
from api.http.validation import Body, Moment
from models.accounts import keys
from models.accounts.keys import Bounds, Key, Scope
from models.errors import Forbidden
from models.views import View

router = APIRouter(prefix="/api/keys", tags=["keys"], route_class=StrictRoute)

KeyManager = Annotated[Caller, require_scope("keys")]
KeyMaker = Annotated[Caller, require_scope("keys", proven=True)]
Anyone = Annotated[Caller, require_scope(None, proven=True)]
Permanent = Annotated[bool, Query(description="Remove its record too.")]


class NewKey(Body):
    """A key to create."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"name": "CI", "scopes": ["lookups"]}]})

    name: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)] = Field(
        description="What the key is for."
    )
    scopes: list[Scope] | None = Field(
        None, min_length=1, max_length=20, description="By default all but `keys`."
    )
    expires_at: Moment | None = Field(
        None,
        description="By default never; when a key creates it, at most and by default when that one ends.",
    )


class KeyCreated(BaseModel):
    """The new key. `key` is shown this once."""

    id: UUID = Field(description="The key's id.")
    name: str = Field(description="What the key is for.")
    key: str = Field(description="The key itself, shown this once.")
    key_preview: str = Field(description="Its beginning and its last four characters.")
    scopes: list[Scope] = Field(description="What it may do.")
    created_at: datetime = Field(description="When it was made.")
    expires_at: datetime | None = Field(description="When it ends by itself; null for never.")


class Keys(BaseModel):
    """All keys of the account, newest first."""

    keys: list[Key] = Field(description="The keys.")


class Done(View):
    """It is done."""

    success: bool = Field(default=True, description="Always true.")
    message: str = Field(description="What was done, for people.")


@router.post("", status_code=201, responses=problems("too_many_keys", "password_required"))
async def create_key(body: NewKey, request: Request, caller: KeyMaker, services: ServicesDep) -> KeyCreated:
    """Create a key.

    A key with the scope `keys` may create others with at most its own scopes and lifetime.
    """
    bounds = Bounds(caller.scopes, caller.expires_at if caller.kind == "key" else None)
    scopes, expires_at = bounds.scopes_of(body.scopes), bounds.end_of(body.expires_at)
    async with services.database.transaction() as connection:
        key, secret = await keys.create_key(connection, actor(request, caller), body.name, scopes, expires_at)
    return KeyCreated(key=secret, **key.model_dump(include=set(KeyCreated.model_fields)))


@router.get("")
async def list_keys(caller: KeyManager, services: ServicesDep) -> Keys:
    """List all keys, with their use so far. A key sees only those whose scopes it has itself."""
    async with services.database.connection() as connection:
        return Keys(keys=await keys.list_keys(connection, caller.account_id, caller.scopes))


@router.delete("", responses=problems("not_found", "insufficient_scope", "password_required"))
async def delete_key_by_query(
    id: Annotated[Id, Query(description="The key's id.")],
    request: Request,
    caller: Anyone,
    services: ServicesDep,
    permanent: Permanent = False,
) -> Done:
    """Revoke a key, at once and everywhere; `permanent` also removes its record.

    A key may revoke itself. Everything else needs the scope `keys`.
    """
    return await delete_key(id, request, caller, services, permanent)


@router.delete("/{id}", responses=problems("insufficient_scope", "password_required"))
async def delete_key(
    id: Id, request: Request, caller: Anyone, services: ServicesDep, permanent: Permanent = False
) -> Done:
    """Revoke a key, at once and everywhere; `permanent` also removes its record.

    A key may revoke itself. Everything else needs the scope `keys`.
    """
    if "keys" not in caller.scopes and (permanent or id != caller.credential_id):
        raise Forbidden("insufficient_scope", "The key lacks the scope keys: it can revoke itself alone.")
    async with services.database.transaction() as connection:
        await keys.revoke(connection, actor(request, caller), id, caller.scopes, permanent=permanent)
    services.credentials.forget(str(id))
    return Done(message="The key is deleted." if permanent else "The key is revoked.")
