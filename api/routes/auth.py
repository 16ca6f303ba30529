"""Sign-up, login, logout, the current user, and passwords."""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from api.context import context_of
from api.deps import Caller, Services, ServicesDep, actor, require_scope
from api.http import limits
from api.http.openapi import problems
from api.http.strict_route import StrictRoute
from api.http.validation import Body
from database import Connection
from models.accounts import accounts, known_addresses, passwords, sessions
from models.accounts.accounts import Account, EmailTaken, NewAccount
from models.errors import Forbidden, Unauthenticated
from models.views import View

router = APIRouter(prefix="/api/auth", tags=["auth"], route_class=StrictRoute)

SessionCaller = Annotated[Caller, require_scope(None, session_only=True)]
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

    email: Email = Field(description="The address to log in with.")
    password: NewPassword = Field(description="12 to 1,024 characters.")
    name: Name | None = Field(default=None, description="The person's name.")


class Login(Body):
    """The credentials of a login."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"email": "ada@example.com", "password": "correct horse battery"}]}
    )

    email: Email = Field(description="The address of the account.")
    password: Password = Field(description="Its password.")


class PasswordChange(Body):
    """The old password and the new one."""

    current_password: Password = Field(description="The password until now.")
    new_password: NewPassword = Field(description="12 to 1,024 characters.")


class User(BaseModel):
    """A person's account."""

    id: UUID = Field(description="The account's id.")
    email: str = Field(description="The address to log in with.")
    name: str | None = Field(description="The person's name; null if none was given.")
    created_at: datetime = Field(description="When the account was made.")


class SessionStarted(View):
    """A session: send `token` as `Authorization: Bearer`."""

    token: str = Field(description="Send it as `Authorization: Bearer`; it is shown this once.")
    token_type: Literal["bearer"] = Field(default="bearer", description="How the token is sent.")
    expires_at: datetime = Field(description="When the session ends by itself.")
    user: User = Field(description="Whose session it is.")


class CredentialView(BaseModel):
    """The credential of the request."""

    kind: Literal["session", "key"] = Field(description="A session, or an API key.")
    id: UUID = Field(description="The id of the session or key.")
    scopes: list[str] = Field(description="What it may do.")


class Me(BaseModel):
    """The account and credential of the request."""

    user: User = Field(description="The account.")
    credential: CredentialView = Field(description="The session or key of the request.")


@router.post(
    "/register",
    status_code=201,
    responses=problems("signup_closed", "registration_refused", "rate_limited"),
)
async def register(body: Registration, request: Request, services: ServicesDep) -> SessionStarted:
    """Create an account and log in. A refusal has no reason, because it would reveal who has an account."""
    if not services.settings.signup_open:
        raise Forbidden("signup_closed", "Sign-up is closed; the operator creates accounts.")
    context, email = context_of(request.scope), accounts.normalised_email(body.email)
    network, refusals = limits.network_of(context.client), limits.Attempt(services)
    await limits.Attempt(services).count("login", network, request=request)
    await refusals.count("login_account", f"register/{network}")
    password_hash = await passwords.hash_password(body.password)
    grant = services.settings.signup_credits
    try:
        async with services.database.transaction() as connection:
            account = await accounts.create_account(
                connection,
                NewAccount(email, password_hash, body.name, credits=grant),
                request_id=context.request_id,
                ip=context.client,
            )
            started = await _start(services, connection, account, context.client)
    except EmailTaken:
        raise Forbidden("registration_refused", "No account was made. Log in if you have one.") from None
    await refusals.uncount()
    return started


@router.post("/login", responses=problems("invalid_credentials", "rate_limited"))
async def login(body: Login, request: Request, services: ServicesDep) -> SessionStarted:
    """Log in. A wrong e-mail and a wrong password get the same answer."""
    client, email = context_of(request.scope).client, accounts.login_name(body.email)
    attempt = await _begin_login(services, request, limits.network_of(client), email)
    account = await _verify_password(services, email, body.password)
    await attempt.uncount()
    async with services.database.transaction() as connection:
        return await _start(services, connection, account, client)


@router.post("/logout", status_code=204)
async def logout(request: Request, caller: SessionCaller, services: ServicesDep) -> None:
    """End this session: its token is invalid at once."""
    async with services.database.transaction() as connection:
        await sessions.end(connection, actor(request, caller), caller.credential_id)
    services.credentials.forget(str(caller.credential_id))


@router.get("/me")
async def me(caller: Annotated[Caller, require_scope(None)], services: ServicesDep) -> Me:
    """Get the account and credential of this request."""
    async with services.database.connection() as connection:
        account = await accounts.get(connection, caller.account_id)
    credential = CredentialView(kind=caller.kind, id=caller.credential_id, scopes=sorted(caller.scopes))
    return Me(user=User.model_validate(account, from_attributes=True), credential=credential)


@router.post("/password", status_code=204, responses=problems("wrong_password", "rate_limited"))
async def change_password(
    body: PasswordChange,
    request: Request,
    caller: SessionCaller,
    services: ServicesDep,
) -> None:
    """Change the password; all other sessions end."""
    who = actor(request, caller)
    network, attempt = limits.network_of(who.ip), limits.Attempt(services)
    await attempt.count("login", network, request=request)
    await attempt.count("login_account", f"password/{caller.credential_id}")
    async with services.database.connection() as connection:
        stored = await accounts.get_password_hash(connection, caller.account_id)
    fits, _ = await passwords.verify(body.current_password, stored)
    if not fits:
        raise Forbidden("wrong_password", "The current password is not right.")
    await attempt.uncount()
    password_hash = await passwords.hash_password(body.new_password)
    async with services.database.transaction() as connection:
        await accounts.change_password(
            connection, who, password_hash, keep_session=caller.credential_id, keep_address=network
        )


async def _begin_login(services: Services, request: Request, network: str, email: str) -> limits.Attempt:
    """Count a login before it is checked.

    At an address where the account has logged in before, only the address is counted. So an attacker
    elsewhere cannot lock the owner out.

    Raises:
        RateLimited: the address, the address with this e-mail, or all unfamiliar addresses with this e-mail
            failed too often.
    """
    attempt = limits.Attempt(services)
    await attempt.count("login", network, request=request)
    async with services.database.connection() as connection:
        known = await known_addresses.is_known(connection, email, network)
    if not known:
        counted = hashlib.sha256(email.encode()).hexdigest()
        await attempt.count("login_account", f"{network}/{counted}")
        await attempt.count("login_anywhere", counted)
    return attempt


async def _verify_password(services: Services, email: str, password: str) -> Account:
    async with services.database.connection() as connection:
        found = await accounts.find_by_email(connection, email)
    account, stored = found or (None, None)
    fits, renewed = await passwords.verify(password, stored)
    if account is None or not fits:
        raise Unauthenticated("invalid_credentials", "E-mail or password is not right.")
    if renewed is not None:
        async with services.database.connection() as connection:
            await accounts.store_password(connection, account.id, renewed)
    return account


async def _start(
    services: Services, connection: Connection, account: Account, client: str | None
) -> SessionStarted:
    """Begin a session, and store its address as familiar."""
    hours = services.settings.session_hours
    token = await sessions.begin(connection, services.keyring, account.id, hours, client)
    await known_addresses.remember(connection, account.id, limits.network_of(client))
    user = User.model_validate(account, from_attributes=True)
    return SessionStarted(token=token.token, expires_at=token.expires_at, user=user)
