"""The billing of lookups: a check of the payer's credits before, and the charge after delivery."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol
from uuid import UUID

from database import Connection, Database
from models.credits import credits, ledger, paid_blocks
from models.credits.credits import Booking
from models.errors import Conflict, InsufficientCredits
from models.lookups import cached_answers
from providers.lookup.result import LookupResult
from providers.sources.base import Query
from providers.sources.kind import Kind
from sealing import Keyring


class EmitEvent(Protocol):
    """A callback that emits the event of a lookup, in the transaction of `connection` if one is passed."""

    async def __call__(self, result: LookupResult, connection: Connection | None = None) -> None:
        """Emit the event."""
        ...


EmitEvents = Callable[[Sequence[LookupResult], Connection], Awaitable[None]]
"""A callback that emits the events of several lookups, in the transaction of a connection."""


@dataclass(frozen=True)
class Payer:
    """The account that pays for a lookup.

    Attributes:
        account_id: the account whose credits are spent.
        reference: identifies the work. Work that is repeated is charged once.
        key_id: the API key whose use is counted.
        run_id: the run whose use is counted.
    """

    account_id: UUID
    reference: str
    key_id: UUID | None = None
    run_id: UUID | None = None


@dataclass(frozen=True)
class Terms:
    """The limits of what the payer can buy.

    Attributes:
        limit: the most results; None for as many as the kind returns.
        charged: credits that a lost attempt charged for the same work before; 0 if none did.
    """

    limit: int | None
    charged: int


class LookupCharges(NamedTuple):
    """The charge for several lookups together.

    Attributes:
        credits: the credits that the ledger holds for them.
        delivered: the results in order; None for each that could not be paid.
    """

    credits: int
    delivered: list[LookupResult | None]


class LookupBilling:
    """Checks and charges the credits for lookups. A lookup that fails is never charged."""

    def __init__(self, database: Database, keyring: Keyring) -> None:
        self._database = database
        self._keyring = keyring

    async def get_terms(
        self, payer: Payer, kind: Kind, query: Query, offset: int, limit: int | None
    ) -> Terms:
        """Return what the account can pay for: at most `limit` results. Paid work can be fetched again.

        Raises:
            InsufficientCredits: it has no credits, and has paid neither for this work nor for this block.
        """
        async with self._database.connection() as connection:
            funds = await ledger.get_funds(connection, payer.account_id, payer.reference)
            most = funds.charged or funds.balance
            if most < 1:
                place = self._place(payer, kind.name, query.text, offset // kind.block if kind.block else 0)
                if not kind.block or not await paid_blocks.is_paid(connection, *place):
                    raise InsufficientCredits(1, most)
        if kind.price > 1 and (limit is not None or most < kind.price):
            # A kind that costs more than one credit costs one credit per result.
            limit = most if limit is None else min(limit, most)
        return Terms(limit, funds.charged)

    async def get_funds(self, payer: Payer) -> ledger.Funds:
        """Return the balance of the account, and the credits already charged for this work."""
        async with self._database.connection() as connection:
            return await ledger.get_funds(connection, payer.account_id, payer.reference)

    async def charge(
        self,
        payer: Payer,
        terms: Terms,
        result: LookupResult,
        *,
        by_block: bool,
        emit: EmitEvent | None = None,
    ) -> LookupResult:
        """Charge what was delivered; the returned result carries the credits that the ledger holds for it.

        Args:
            payer: the account that pays.
            terms: the limits that `get_terms` returned.
            result: what was delivered.
            by_block: whether results are paid in blocks.
            emit: is called with what was delivered, in the transaction of the charge. It is not called again
                if an earlier attempt at the same work was charged.

        Raises:
            InsufficientCredits: another request spent the credits meanwhile.
        """
        if terms.charged:
            return replace(result, credits=terms.charged)
        if not result.credits:
            if emit is not None:
                await emit(result)
            return result
        if emit is None and not by_block:
            # A single statement. It is repeated if another attempt books the same work at this moment.
            async with self._database.connection() as connection:
                return (await self._book_charge(connection, payer, result))[0]
        try:
            return await self._charge_and_emit(payer, result, by_block, emit)
        except Conflict:
            # Another attempt booked the same work at this moment.
            return await self._charge_and_emit(payer, result, by_block, emit)

    async def charge_together(
        self, payer: Payer, results: Sequence[LookupResult], emit: EmitEvents | None = None
    ) -> LookupCharges:
        """Charge several lookups by one entry of the ledger, as far as the credits suffice.

        Args:
            payer: the account that pays; the reference identifies all lookups together.
            results: the results, in the order in which credits are spent on them. Free ones are always
                delivered.
            emit: is called with what is delivered, in the transaction of the charge. It is not called again
                if an earlier attempt at the same work was charged.
        """
        if not results or (emit is None and not any(result.credits for result in results)):
            return LookupCharges(0, [*results])
        try:
            return await self._charge_together(payer, results, emit)
        except Conflict:
            # Another attempt booked the same work at this moment.
            return await self._charge_together(payer, results, emit)

    async def _charge_together(
        self, payer: Payer, results: Sequence[LookupResult], emit: EmitEvents | None
    ) -> LookupCharges:
        async with self._database.transaction() as connection:
            change = await self._book_at_most(connection, payer, results)
            left, delivered = -change.amount, list[LookupResult | None]()
            for result in results:
                delivered.append(result if result.credits <= left else None)
                left -= result.credits if delivered[-1] else 0
            told = [result for result in delivered if result is not None]
            if emit is not None and told and not change.replayed:
                await emit(told, connection)
            return LookupCharges(-change.amount, delivered)

    async def _book_at_most(
        self, connection: Connection, payer: Payer, results: Sequence[LookupResult]
    ) -> credits.Change:
        """Charge the results, or as much of their price as the balance allows."""
        amount = sum(result.credits for result in results)
        description = f"{len(results)} {results[0].kind} lookups"
        while True:
            try:
                return await credits.charge(
                    connection,
                    Booking(payer.account_id, amount, payer.reference, description, key_id=payer.key_id),
                )
            except InsufficientCredits as short:
                amount = min(amount, short.details["balance"])

    async def _charge_and_emit(
        self, payer: Payer, result: LookupResult, by_block: bool, emit: EmitEvent | None
    ) -> LookupResult:
        async with self._database.transaction() as connection:
            place = self._place(payer, result.kind, result.query, result.block)
            if not by_block or await paid_blocks.claim(connection, *place):
                charged, is_new = await self._book_charge(connection, payer, result)
            else:
                # The block is paid already, perhaps by another attempt at the same work.
                funds = await ledger.get_funds(connection, payer.account_id, payer.reference)
                charged, is_new = replace(result, credits=funds.charged), not funds.charged
            if emit is not None and is_new:
                await emit(charged, connection)
            return charged

    async def _book_charge(
        self, connection: Connection, payer: Payer, result: LookupResult
    ) -> tuple[LookupResult, bool]:
        change = await credits.charge(
            connection,
            Booking(
                payer.account_id,
                result.credits,
                payer.reference,
                f"{result.kind} lookup",
                key_id=payer.key_id,
                run_id=payer.run_id,
            ),
        )
        return replace(result, credits=-change.amount), not change.replayed

    def _place(self, payer: Payer, kind: str, query: str, block: int) -> tuple[UUID, str, bytes, int]:
        return payer.account_id, kind, cached_answers.query_hash(self._keyring, kind, query), block
