"""Who pays for a lookup, and how: asked before whether they can, charged after for what was delivered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol
from uuid import UUID

from database import Connection, Database
from models.credits import credits, ledger, paid_blocks
from models.errors import Conflict, InsufficientCredits
from models.lookups import cached_answers
from providers.lookup.result import LookupResult
from providers.sources.base import Kind, Query
from sealing import Keyring


class Tell(Protocol):
    """Says that a lookup was answered, in the transaction of `connection` if one is given."""

    async def __call__(self, result: LookupResult, connection: Connection | None = None) -> None:
        """Say so."""
        ...


TellAll = Callable[[Sequence[LookupResult], Connection], Awaitable[None]]
"""Says that lookups were answered, in the transaction of a connection."""


@dataclass(frozen=True)
class Payer:
    """Who pays.

    Attributes:
        account_id: whose credits.
        reference: names the work: however often it is repeated, it is charged once.
        key_id: the API key to count the use for.
        run_id: the run to count the use for.
    """

    account_id: UUID
    reference: str
    key_id: UUID | None = None
    run_id: UUID | None = None


@dataclass(frozen=True)
class Terms:
    """What the payer can have.

    Attributes:
        limit: the most results; None: as many as the kind gives.
        charged: what this very work was charged before, by an attempt that was lost; 0 if it was not.
    """

    limit: int | None
    charged: int


class Charged(NamedTuple):
    """What was charged for several lookups together.

    Attributes:
        credits: what the ledger has for them.
        delivered: the results in their order, None in place of each that could not be paid.
    """

    credits: int
    delivered: list[LookupResult | None]


class Till:
    """Charges lookups. A lookup that fails is never charged."""

    def __init__(self, database: Database, keyring: Keyring) -> None:
        self._database = database
        self._keyring = keyring

    async def terms(self, payer: Payer, kind: Kind, query: Query, offset: int, limit: int | None) -> Terms:
        """What the account can pay: at most `limit` results. What it has paid for, it can have again.

        Raises:
            InsufficientCredits: it can pay nothing, and has paid neither for this work nor for this block.
        """
        async with self._database.connection() as connection:
            funds = await ledger.get_funds(connection, payer.account_id, payer.reference)
            most = funds.charged or funds.balance
            if most < 1:
                place = self._place(payer, kind.name, query.text, offset // kind.block if kind.block else 0)
                if not kind.block or not await paid_blocks.is_paid(connection, *place):
                    raise InsufficientCredits(1, most)
        if kind.price > 1 and (limit is not None or most < kind.price):
            # What costs more than one credit costs one for each result.
            limit = most if limit is None else min(limit, most)
        return Terms(limit, funds.charged)

    async def funds(self, payer: Payer) -> ledger.Funds:
        """What the account has to pay with, and what this very work was charged before."""
        async with self._database.connection() as connection:
            return await ledger.get_funds(connection, payer.account_id, payer.reference)

    async def charge(
        self, payer: Payer, terms: Terms, result: LookupResult, *, by_block: bool, tell: Tell | None = None
    ) -> LookupResult:
        """Charge what was delivered; the result says how much the ledger has for it.

        Args:
            payer: who pays.
            terms: what they can have.
            result: what was delivered.
            by_block: whether it is paid by blocks of results.
            tell: is called with what was delivered, in the transaction of the charge; but not again where an
                attempt before at this very work was charged.

        Raises:
            InsufficientCredits: somebody else has spent the credits meanwhile.
        """
        if terms.charged:
            return replace(result, credits=terms.charged)
        if not result.credits:
            if tell is not None:
                await tell(result)
            return result
        if tell is None and not by_block:
            # A single statement: where another attempt books the same at this moment, it is repeated.
            async with self._database.connection() as connection:
                return (await self._booked(connection, payer, result))[0]
        try:
            return await self._charge_and_tell(payer, result, by_block, tell)
        except Conflict:
            # Another attempt has booked the same at this moment.
            return await self._charge_and_tell(payer, result, by_block, tell)

    async def charge_together(
        self, payer: Payer, results: Sequence[LookupResult], tell: TellAll | None = None
    ) -> Charged:
        """Charge several lookups by one entry of the ledger, as far as the credits reach.

        Args:
            payer: who pays; the reference is that of all together.
            results: what was found, in the order in which the credits are spent on it. What is free is
                delivered in any case.
            tell: is called with what is delivered, in the transaction of the charge; but not again where an
                attempt before at this very work was charged.
        """
        if not results or (tell is None and not any(result.credits for result in results)):
            return Charged(0, [*results])
        try:
            return await self._charge_together(payer, results, tell)
        except Conflict:
            # Another attempt has booked the same at this moment.
            return await self._charge_together(payer, results, tell)

    async def _charge_together(
        self, payer: Payer, results: Sequence[LookupResult], tell: TellAll | None
    ) -> Charged:
        async with self._database.transaction() as connection:
            change = await self._book_at_most(connection, payer, results)
            left, delivered = -change.amount, list[LookupResult | None]()
            for result in results:
                delivered.append(result if result.credits <= left else None)
                left -= result.credits if delivered[-1] else 0
            told = [result for result in delivered if result is not None]
            if tell is not None and told and not change.replayed:
                await tell(told, connection)
            return Charged(-change.amount, delivered)

    async def _book_at_most(
        self, connection: Connection, payer: Payer, results: Sequence[LookupResult]
    ) -> credits.Change:
        """Charge the results, or as much of it as there is."""
        amount = sum(result.credits for result in results)
        description = f"{len(results)} {results[0].kind} lookups"
        while True:
            try:
                return await credits.charge(
                    connection, payer.account_id, amount, payer.reference, description, key_id=payer.key_id
                )
            except InsufficientCredits as short:
                amount = min(amount, short.details["balance"])

    async def _charge_and_tell(
        self, payer: Payer, result: LookupResult, by_block: bool, tell: Tell | None
    ) -> LookupResult:
        async with self._database.transaction() as connection:
            place = self._place(payer, result.kind, result.query, result.block)
            if not by_block or await paid_blocks.claim(connection, *place):
                charged, is_new = await self._booked(connection, payer, result)
            else:
                # Somebody has paid for the block: perhaps another attempt at this very work.
                funds = await ledger.get_funds(connection, payer.account_id, payer.reference)
                charged, is_new = replace(result, credits=funds.charged), not funds.charged
            if tell is not None and is_new:
                await tell(charged, connection)
            return charged

    async def _booked(
        self, connection: Connection, payer: Payer, result: LookupResult
    ) -> tuple[LookupResult, bool]:
        change = await credits.charge(
            connection,
            payer.account_id,
            result.credits,
            payer.reference,
            f"{result.kind} lookup",
            key_id=payer.key_id,
            run_id=payer.run_id,
        )
        return replace(result, credits=-change.amount), not change.replayed

    def _place(self, payer: Payer, kind: str, query: str, block: int) -> tuple[UUID, str, bytes, int]:
        return payer.account_id, kind, cached_answers.query_hash(self._keyring, kind, query), block
