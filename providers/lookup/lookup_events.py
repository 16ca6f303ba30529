"""The event `lookup.completed`, for accounts that have an endpoint subscribed to it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from uuid import UUID

from database import Connection, Database
from micro_batcher import MicroBatcher
from models.events import events
from models.events.event_data import LookupCompleted
from models.webhooks import endpoints
from providers.lookup.billing import Payer
from providers.lookup.result import ANSWERS, LookupResult

_EVENT = "lookup.completed"


class LookupEvents:
    """Emits lookup events for accounts that subscribe to them.

    The subscribed accounts are cached until an endpoint changes. While changes cannot be received, Postgres
    is read each time.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._handlers = {endpoints.CHANGED_CHANNEL: self._on_endpoints_changed}
        self._known: tuple[int, frozenset[UUID]] | None = None
        self._changes = 0
        self._asking = asyncio.Lock()
        self._batcher = MicroBatcher(self._emit_all)

    def start(self) -> None:
        """Start listening for changes of endpoints."""
        self._database.listener.add(self._handlers)
        self._database.listener.start()

    def stop(self) -> None:
        """Stop listening."""
        self._database.listener.remove(self._handlers)

    def forget_subscribers(self) -> None:
        """Drop the cached subscriptions, because an endpoint has changed."""
        self._changes += 1
        self._known = None

    def _on_endpoints_changed(self, _payload: str) -> None:
        self.forget_subscribers()

    async def has_subscriber(self, account_id: UUID) -> bool:
        """Return whether an endpoint of the account subscribes to lookup events."""
        listener = self._database.listener
        hearing = listener.connections if listener.connected.is_set() else 0
        known = self._known
        if known is None or not hearing or known[0] != hearing:
            known = await self._ask(hearing)
        return account_id in known[1]

    async def _ask(self, hearing: int) -> tuple[int, frozenset[UUID]]:
        async with self._asking:
            if self._known is not None and hearing and self._known[0] == hearing:
                return self._known
            changes = self._changes
            async with self._database.connection() as connection:
                found = hearing, await endpoints.find_subscribers(connection, _EVENT)
            if changes == self._changes:
                self._known = found
            return found

    async def emit(self, payer: Payer, result: LookupResult, connection: Connection | None = None) -> None:
        """Write the event of a lookup, in one statement with the concurrent ones.

        Args:
            payer: the account whose lookup it was.
            result: the result of the lookup.
            connection: write in its transaction instead.
        """
        data = _make_event(payer, result)
        if connection is not None:
            await events.emit(connection, payer.account_id, data)
        else:
            await self._batcher.submit((payer.account_id, data))

    async def emit_all(self, payer: Payer, results: Sequence[LookupResult], connection: Connection) -> None:
        """Write the events of one or more lookups of a payer, in the transaction of `connection`."""
        await events.emit_all(
            connection, [(payer.account_id, _make_event(payer, result)) for result in results]
        )

    async def _emit_all(self, told: Sequence[tuple[UUID, LookupCompleted]]) -> list[Exception | None]:
        async with self._database.connection() as connection:
            await events.emit_all(connection, told)
        return [None] * len(told)


def _make_event(payer: Payer, result: LookupResult) -> LookupCompleted:
    return LookupCompleted(
        kind=result.kind,
        query=result.data[result.echo],
        credits_used=result.credits,
        cached=result.cached,
        partial=result.partial,
        sources=[source.spec.name for source, outcome in result.outcomes if outcome.status in ANSWERS],
        via="api" if payer.run_id is None else "workflow",
        key_id=payer.key_id,
        run_id=payer.run_id,
    )
