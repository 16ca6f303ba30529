"""The check of a password: at a login, and again in a session. Failures are counted."""

from __future__ import annotations

import hashlib

from fastapi import Request

from api.auth.credentials import Caller
from api.context import context_of
from api.deps import Services
from api.http import limits
from models.accounts import accounts, known_addresses, passwords
from models.accounts.accounts import Account
from models.errors import Forbidden, Unauthenticated


async def check_login(services: Services, request: Request, email: str, password: str) -> Account:
    """Return the account that this e-mail and password are of.

    Raises:
        RateLimited: see `_begin_login`.
        Unauthenticated: one of the two is wrong; it is not said which.
    """
    name = accounts.login_name(email)
    attempt = await _begin_login(services, request, limits.network_of(context_of(request.scope).client), name)
    async with services.database.connection() as connection:
        found = await accounts.find_by_email(connection, name)
    account, stored = found or (None, None)
    fits, renewed = await passwords.verify(password, stored)
    if account is None or not fits:
        raise Unauthenticated("invalid_credentials", "E-mail or password is not right.")
    if renewed is not None:
        async with services.database.connection() as connection:
            await accounts.store_password(connection, account.id, renewed)
    await attempt.uncount()
    return account


async def check_password(services: Services, request: Request, caller: Caller, password: str) -> None:
    """Check the password of a session's own account.

    Raises:
        RateLimited: this session or address failed too often.
        Forbidden: `wrong_password`.
    """
    attempt = limits.Attempt(services)
    await attempt.count("login", limits.network_of(context_of(request.scope).client), request=request)
    await attempt.count("login_account", f"password/{caller.credential_id}")
    async with services.database.connection() as connection:
        stored = await accounts.get_password_hash(connection, caller.account_id)
    fits, _ = await passwords.verify(password, stored)
    if not fits:
        raise Forbidden("wrong_password", "The current password is not right.")
    await attempt.uncount()


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
