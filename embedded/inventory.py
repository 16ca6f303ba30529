"""The accounts and keys that there are, as an operator lists them at the command line."""

from __future__ import annotations

from typing import Any

from psycopg.rows import dict_row

from embedded.administration import find_account, opened
from models.keys import Key

_ACCOUNTS = """
    select id, email, name, balance as credits, created_at,
        (select count(*) from keys where account_id = accounts.id and revoked_at is null
            and (expires_at is null or expires_at > now())) as keys
    from accounts join credit_balances on account_id = id
    order by id desc limit %(limit)s
"""
_KEYS = """
    select keys.id, email as account, keys.name, preview as key_preview, scopes, total_requests, credits_used,
        keys.created_at, last_used, expires_at, revoked_at
    from keys join accounts on accounts.id = account_id
    where account_id = coalesce(%(account_id)s::uuid, account_id)
    order by keys.id desc limit %(limit)s
"""


async def list_accounts(database_url: str, limit: int) -> list[dict[str, Any]]:
    """List accounts, newest first, with what each can spend and how many keys work."""
    return await _listed(database_url, _ACCOUNTS, {"limit": limit})


async def list_keys(database_url: str, email: str | None, limit: int) -> list[dict[str, Any]]:
    """List keys, newest first, without their secrets: of one account, or of all.

    Raises:
        ModelError: there is no account with this e-mail.
    """
    account_id = None
    if email is not None:
        async with opened(database_url) as database, database.connection() as connection:
            account_id = (await find_account(connection, email)).id
    found = await _listed(database_url, _KEYS, {"account_id": account_id, "limit": limit})
    return [{"account": one.pop("account"), **Key(**one).model_dump(mode="json")} for one in found]


async def _listed(database_url: str, statement: str, values: dict[str, Any]) -> list[dict[str, Any]]:
    async with opened(database_url) as database, database.connection() as connection:
        cursor = connection.cursor(row_factory=dict_row)
        await cursor.execute(statement, values)  # pyright: ignore[reportCallIssue, reportArgumentType]
        return await cursor.fetchall()
