"""Who pays for a lookup, and how: asked before whether they can, charged after for what was delivered."""

from __future__ import annotations

from dataclasses import dataclass, replace
from uuid import UUID

from database import Database
from models import credits, lookups, paid_blocks
from models.errors import InsufficientCredits
from providers.base import Kind, Query
from providers.result import LookupResult
from sealing import Keyring


@dataclass(frozen=True)
class Payer:
    """Who pays.

    Attributes:
        account_id: whose credits.
        reference: names the work: however often it is repeated, it is charged once.
        key_id: the API key to count the use for.
    """

    account_id: UUID
    reference: str
    key_id: UUID | None = None


class Till:
    """Charges lookups. A lookup that fails is never charged."""

    def __init__(self, database: Database, keyring: Keyring) -> None:
        self._database = database
        self._keyring = keyring

    async def most(
        self, payer: Payer, kind: Kind, query: Query, offset: int, limit: int | None
    ) -> int | None:
        """The most results that the account can pay: `limit`, or its balance if that is less.

        Raises:
            InsufficientCredits: it can pay nothing, and has not paid for this block before.
        """
        async with self._database.connection() as connection:
            balance = (await credits.balance(connection, payer.account_id)).balance
            if balance < 1:
                digest = lookups.query_hash(self._keyring, kind.name, query.text)
                place = (payer.account_id, kind.name, digest, offset // kind.block if kind.block else 0)
                if not kind.block or not await paid_blocks.is_paid(connection, *place):
                    raise InsufficientCredits(1, balance)
        if kind.price == 1 or (limit is None and balance >= kind.price):
            return limit
        # What costs more than one credit costs one for each result.
        return balance if limit is None else min(limit, balance)

    async def charge(self, payer: Payer, result: LookupResult, *, by_block: bool) -> LookupResult:
        """Charge what was delivered; the result says how much that was.

        Raises:
            InsufficientCredits: somebody else has spent the credits meanwhile.
        """
        description = f"{result.kind} lookup"
        digest = lookups.query_hash(self._keyring, result.kind, result.query)
        place = (payer.account_id, result.kind, digest, result.block)
        async with self._database.transaction() as connection:
            if by_block:
                if await paid_blocks.is_paid(connection, *place):
                    return replace(result, credits=0)
                await paid_blocks.note(connection, *place)
            await credits.charge(
                connection,
                payer.account_id,
                result.credits,
                payer.reference,
                description,
                key_id=payer.key_id,
            )
        return result
