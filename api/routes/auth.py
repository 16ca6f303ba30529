"""Sign-up, login, logout, who am I, and passwords."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, StringConstraints

from api.deps import Caller, Services, ServicesDep, actor, authorised
from api.http import limits
from api.http.context import context_of
from api.http.json_body import StrictRoute
from api.http.openapi import problems
from api.http.validation import Body
from models import accounts, passwords, sessions
from models.accounts import Account
from models.errors import Forbidden, Unauthenticated

router = APIRouter(prefix="/api/auth", tags=["authentication"], route_class=StrictRoute)

SessionCaller = Annotated[Caller, authorised(None, session_only=True)]
Email = Annotated[str, StringConstraints(min_length=3, max_length=254)]
Password = Annotated[str, StringConstraints(max_length=passwords.MAX_LENGTH)]
NewPassword = Annotated[
    str, StringConstraints(min_length=passwords.MIN_LENGTH, max_length=passwords.MAX_LENGTH)
]
Name = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]


class Registration(Body):
    """A new account."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"email": "ada@example.com", "password": "correct horse battery"}]}
    )

    email: Email
    password: NewPassword
    name: Name | None = None


class Login(Body):
    """Who wants in."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"email": "ada@example.com", "password": "correct horse battery"}]}
    )

    email: Email
    password: Password


class PasswordChange(Body):
    """The old password and the new one."""

    current_password: Password
    new_password: NewPassword


class User(BaseModel):
    """A person's account."""

    id: UUID
    email: str
    name: str | None
    created_at: datetime


class SessionStarted(BaseModel):
    """A session: send `token` as `Authorization: Bearer`."""

    token: str
    token_type: Literal["bearer"] = "bearer"
    expires_at: datetime
    user: User


class CredentialView(BaseModel):
    """What the request was made with."""

    kind: Literal["session", "key"]
    id: UUID
    scopes: list[str]


class Me(BaseModel):
    """Who the request was made by."""

    user: User
    credential: CredentialView


@router.post("/register", status_code=201, responses=problems(403, 409, 429))
async def register(body: Registration, request: Request, services: ServicesDep) -> SessionStarted:
    """Create an account and log in."""
    if not services.settings.signup_open:
        raise Forbidden("signup_closed", "Sign-up is closed; the operator creates accounts.")
    context = context_of(request.scope)
    await limits.Attempt.begin(services, request, "login", context.client or "")
    email = accounts.normalised_email(body.email)
    password_hash = await passwords.hashed(body.password)
    grant = services.settings.signup_credits
    async with services.database.transaction() as connection:
        account = await accounts.create_account(
            connection,
            email,
            password_hash,
            body.name,
            grant,
            request_id=context.request_id,
            ip=context.client,
        )
        token = await sessions.begin(
            connection, services.keyring, account.id, services.settings.session_hours, context.client
        )
    return _started(account, token)


@router.post("/login", responses=problems(401, 429))
async def login(body: Login, request: Request, services: ServicesDep) -> SessionStarted:
    """Log in. A wrong e-mail and a wrong password answer alike."""
    client = context_of(request.scope).client or ""
    attempt = await limits.Attempt.begin(services, request, "login", client, f"{client} {body.email.lower()}")
    account = await _verified(services, body)
    await attempt.succeeded()
    async with services.database.connection() as connection:
        token = await sessions.begin(
            connection, services.keyring, account.id, services.settings.session_hours, client
        )
    return _started(account, token)


@router.post("/logout", status_code=204, responses=problems(403))
async def logout(request: Request, caller: SessionCaller, services: ServicesDep) -> None:
    """End this session: its token is dead at once."""
    async with services.database.transaction() as connection:
        await sessions.end(connection, actor(request, caller), caller.credential_id)
    services.credentials.forget(str(caller.credential_id))


@router.get("/me")
async def me(caller: Annotated[Caller, authorised(None)], services: ServicesDep) -> Me:
    """Who makes this request."""
    async with services.database.connection() as connection:
        account = await accounts.get(connection, caller.account_id)
    credential = CredentialView(kind=caller.kind, id=caller.credential_id, scopes=sorted(caller.scopes))
    return Me(user=User.model_validate(account, from_attributes=True), credential=credential)


@router.post("/password", status_code=204, responses=problems(403, 429))
async def change_password(
    body: PasswordChange,
    request: Request,
    caller: SessionCaller,
    services: ServicesDep,
) -> None:
    """Change the password; all other sessions end."""
    who = actor(request, caller)
    attempt = await limits.Attempt.begin(services, request, "login", f"password/{caller.account_id}")
    async with services.database.connection() as connection:
        stored = await accounts.password_hash_of(connection, caller.account_id)
    fits, _ = await passwords.verify(body.current_password, stored)
    if not fits:
        raise Forbidden("wrong_password", "The current password is not right.")
    await attempt.succeeded()
    password_hash = await passwords.hashed(body.new_password)
    async with services.database.transaction() as connection:
        await accounts.change_password(connection, who, password_hash, keep_session=caller.credential_id)


async def _verified(services: Services, body: Login) -> Account:
    async with services.database.connection() as connection:
        found = await accounts.find_by_email(connection, body.email)
    account, stored = found or (None, None)
    fits, renewed = await passwords.verify(body.password, stored)
    if account is None or not fits:
        raise Unauthenticated("invalid_credentials", "E-mail or password is not right.")
    if renewed is not None:
        async with services.database.connection() as connection:
            await accounts.store_password(connection, account.id, renewed)
    return account


def _started(account: Account, token: sessions.Token) -> SessionStarted:
    user = User.model_validate(account, from_attributes=True)
    return SessionStarted(token=token.token, expires_at=token.expires_at, user=user)
