"""The accounts and keys, as listed for an operator at the command line."""

from __future__ import annotations

from typing import Any

from models.accounts.keys import Key
from models.installation import overview
from services.operator.administration import find_account, open_database


async def list_accounts(database_url: str, limit: int) -> list[dict[str, Any]]:
    """List accounts, newest first, with their credits and the number of their active keys."""
    async with open_database(database_url) as database, database.connection() as connection:
        return await overview.list_accounts(connection, limit)


async def list_keys(database_url: str, email: str | None, limit: int) -> list[dict[str, Any]]:
    """List keys, newest first, without their secrets: of one account, or of all.

    Raises:
        DomainError: no account has this e-mail.
    """
    async with open_database(database_url) as database, database.connection() as connection:
        account_id = None if email is None else (await find_account(connection, email)).id
        found = await overview.list_keys(connection, account_id, limit)
    return [{"account": one.pop("account"), **Key(**one).model_dump(mode="json")} for one in found]
