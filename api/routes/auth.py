"""Sign-up, login, logout, the current user, and passwords."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from api import logins
from api.context import context_of
from api.deps import Caller, Services, ServicesDep, actor, require_scope
from api.http import limits
from api.http.openapi import problems
from api.http.strict_route import StrictRoute
from api.http.validation import Body
from database import Connection
from models.accounts import accounts, known_addresses, passwords, sessions
from models.accounts.accounts import Account, EmailTaken, NewAccount
from models.errors import Forbidden
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

    email: Email = Field(description="The address to log in with.", json_schema_extra={"format": "email"})
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
    client = context_of(request.scope).client
    account = await logins.check_login(services, request, body.email, body.password)
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
    network = limits.network_of(who.ip)
    await logins.check_password(services, request, caller, body.current_password)
    password_hash = await passwords.hash_password(body.new_password)
    async with services.database.transaction() as connection:
        await accounts.change_password(
            connection, who, password_hash, keep_session=caller.credential_id, keep_address=network
        )


async def _start(
    services: Services, connection: Connection, account: Account, client: str | None
) -> SessionStarted:
    """Begin a session, and store its address as familiar."""
    hours = services.settings.session_hours
    token = await sessions.begin(connection, services.keyring, account.id, hours, client)
    await known_addresses.remember(connection, account.id, limits.network_of(client))
    user = User.model_validate(account, from_attributes=True)
    return SessionStarted(token=token.token, expires_at=token.expires_at, user=user)
