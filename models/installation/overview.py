"""All accounts and keys of the installation, for its operator."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from psycopg.rows import dict_row

from database import Connection

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


async def list_accounts(connection: Connection, limit: int) -> list[dict[str, Any]]:
    """List accounts, newest first, with the balance and the number of valid keys of each."""
    cursor = connection.cursor(row_factory=dict_row)
    await cursor.execute(_ACCOUNTS, {"limit": limit})
    return await cursor.fetchall()


async def list_keys(connection: Connection, account_id: UUID | None, limit: int) -> list[dict[str, Any]]:
    """List the keys of one account or of all, newest first, without their secrets."""
    cursor = connection.cursor(row_factory=dict_row)
    await cursor.execute(_KEYS, {"account_id": account_id, "limit": limit})
    return await cursor.fetchall()
