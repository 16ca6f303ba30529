"""Bulk searches: many queries of one kind in one request, each of which succeeds or fails by itself.

A few queries of a request are looked up at a time, and no more than can be paid. Their answers wait in a
short queue until they are charged and delivered, so a client that stops reading stops the lookups.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

import psycopg

import logs
from concurrency import ConcurrencyLimiter
from models.errors import DomainError, InsufficientCredits, Invalid
from providers.lookup.billing import Payer
from providers.lookup.composition import Selection
from providers.lookup.coverage import credits_for_query
from providers.lookup.lookup import Lookups
from providers.lookup.questions import LookupOptions
from providers.lookup.result import LookupResult
from providers.registry import KINDS
from services.targets import LONGEST

_log = logs.get(__name__)
# Concurrent lookups of bulk searches in this process; a single account gets half of them.
_PLACES = 32
_AT_A_TIME = 16
"""The most concurrent lookups of one request."""
_GROUP = 16
"""The most answers that are charged together, and the length of their queue."""
# Normalising this many characters of e-mail addresses takes at most 2 ms.
_CHARACTERS_IN_A_ROW = 200


@dataclass(frozen=True)
class Question:
    """The queries of a search with their options; see `Lookups.lookup`."""

    kind: str
    texts: Sequence[str]
    fields: Collection[str] | None = None
    max_age: float | None = None


class Answer(NamedTuple):
    """The answer to one text of a question.

    Attributes:
        position: of the text, from 0.
        text: the caller's text.
        outcome: the result, or the error if none can be delivered.
        repeated: whether an earlier text means the same and was charged for both.
    """

    position: int
    text: str
    outcome: LookupResult | DomainError
    repeated: bool


@dataclass
class _Query:
    """The query of one or more texts, given by their positions; or the error of an invalid text."""

    text: str
    positions: list[int]
    error: DomainError | None = None


class _Done(NamedTuple):
    query: _Query
    outcome: LookupResult | Exception


class BulkSearches:
    """All bulk searches of this process."""

    def __init__(self, lookups: Lookups) -> None:
        self._lookups = lookups
        self._places = ConcurrencyLimiter(_PLACES)

    async def prepare(self, question: Question, payer: Payer) -> BulkSearch:
        """Prepare a search; nothing is looked up yet.

        Raises:
            InsufficientCredits: the kind costs credits, and there are none.
        """
        credits = len(question.texts)
        if self._lookups.get_price(question.kind):
            funds = await self._lookups.billing.get_funds(payer)
            credits = funds.charged or funds.balance
            if not credits:
                raise InsufficientCredits(1, 0)
        queries = await _queries_of(question)
        return BulkSearch(self._lookups, self._places, question, queries, payer, _Tokens(credits))


class BulkSearch:
    """One bulk search. Use either `all`, or `group` while it is `under_way`.

    Attributes:
        total: the number of texts.
        credits_used: the credits charged so far.
    """

    def __init__(
        self,
        lookups: Lookups,
        places: ConcurrencyLimiter,
        question: Question,
        queries: list[_Query],
        payer: Payer,
        tokens: _Tokens,
    ) -> None:
        self._lookups = lookups
        self._places = places
        self._question = question
        self._queries = queries
        self._payer = payer
        self._tokens = tokens
        self._done: asyncio.Queue[_Done] = asyncio.Queue(_GROUP)
        self._left = len(queries)
        self._groups = 0
        self.total = len(question.texts)
        self.credits_used = 0

    @property
    def ended(self) -> bool:
        """Return whether all answers have been delivered."""
        return not self._left

    async def all(self) -> list[Answer]:
        """Look everything up and charge it by one entry of the ledger; return the answers in order."""
        with self.under_way():
            done = [await self._next() for _ in self._queries]
        done.sort(key=lambda one: one.query.positions[0])
        return sorted(await self._charge_done(done, self._payer))

    @contextmanager
    def under_way(self) -> Generator[None]:
        """Look up until the block ends; lookups that are not done by then are cancelled."""
        waiting = iter(self._queries)
        tasks = [asyncio.create_task(self._look_up_from(waiting)) for _ in range(_AT_A_TIME)]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()

    async def group(self, seconds: float) -> list[Answer]:
        """Return the answers since the last group, charged by one entry of the ledger.

        Args:
            seconds: how long to wait for the first answer; the group is empty if none comes.
        """
        done: list[_Done] = []
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                done.append(await self._next())
        if not done:
            return []
        while len(done) < _GROUP and not self._done.empty():
            done.append(await self._next())
        self._left -= len(done)
        self._groups += 1
        reference = f"{self._payer.reference}/{self._groups}"
        return await self._charge_done(done, replace(self._payer, reference=reference))

    async def _next(self) -> _Done:
        done = await self._done.get()
        if isinstance(done.outcome, DomainError | LookupResult):
            return done
        raise done.outcome

    async def _charge_done(self, done: Sequence[_Done], payer: Payer) -> list[Answer]:
        """Charge the finished queries as far as the credits suffice; return the answers to their texts."""
        found = [one.outcome for one in done if isinstance(one.outcome, LookupResult)]
        events = self._lookups.events
        emit = partial(events.emit_all, payer) if await events.has_subscriber(payer.account_id) else None
        charged = await self._lookups.billing.charge_together(payer, found, emit)
        self.credits_used += charged.credits
        if None in charged.delivered:
            self._tokens.close()
        paid, answers = iter(charged.delivered), list[Answer]()
        for query, outcome in done:
            given = outcome if isinstance(outcome, DomainError) else next(paid) or _unpaid()
            assert isinstance(given, LookupResult | DomainError)
            for position in query.positions:
                text = self._question.texts[position]
                answers.append(Answer(position, text, given, position != query.positions[0]))
        return answers

    async def _look_up_from(self, waiting: Iterator[_Query]) -> None:
        """Look up waiting queries until none is left. The first waiting query gets the next credit."""
        while True:
            paid = await self._tokens.take()
            query = next(waiting, None)
            if query is None:
                return
            outcome = query.error or (await self._look_up(query) if paid else _unpaid())
            if paid:
                await self._tokens.settle(isinstance(outcome, LookupResult) and outcome.credits > 0)
            await self._done.put(_Done(query, outcome))

    async def _look_up(self, query: _Query) -> LookupResult | Exception:
        """Return the result or the query's error; any exception but a DomainError fails the whole search."""
        asked = self._question
        try:
            async with self._places.hold(str(self._payer.account_id)):
                result = await self._lookups.lookup(
                    asked.kind, query.text, LookupOptions(Selection(asked.fields), asked.max_age)
                )
                # A lookup answered from local data did not yield to the event loop.
                await asyncio.sleep(0)
        except DomainError as error:
            return error
        except psycopg.Error as error:
            return error
        except Exception as error:
            _log.error("bulk_query_failed", kind=asked.kind, position=query.positions[0], exc_info=error)
            return DomainError("internal_error", "The answer made us fail.")
        if asked.kind == "company" and self._lookups.get_price("company"):
            # The query is charged, not each person found.
            return replace(result, credits=credits_for_query(result))
        return result


@dataclass
class _Tokens:
    """The credits for the queries that are still to be looked up.

    A caller that finds no credit waits for the running lookups, because a free one returns its credit.
    """

    left: int
    _taken: int = 0
    _moved: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def take(self) -> bool:
        """Take a credit; return whether there was one."""
        async with self._moved:
            await self._moved.wait_for(lambda: self.left > 0 or not self._taken)
            if self.left < 1:
                return False
            self.left -= 1
            self._taken += 1
            return True

    async def settle(self, spent: bool) -> None:
        """Record whether a taken credit was spent."""
        async with self._moved:
            self._taken -= 1
            self.left += not spent
            self._moved.notify_all()

    def close(self) -> None:
        """Issue no more credits, not even returned ones, because they were spent on other work."""
        self.left = -self._taken


def _unpaid() -> DomainError:
    return DomainError("insufficient_credits", "The credits do not reach to this query.")


async def _queries_of(question: Question) -> list[_Query]:
    """Return the distinct queries of the texts, in order."""
    normalise = KINDS[question.kind].normalise
    queries: dict[str, _Query] = {}
    invalid: list[_Query] = []
    characters = 0
    for position, text in enumerate(question.texts):
        try:
            # Longer text is invalid for every kind, and need not be read to its end.
            text = text.strip()[: LONGEST + 1]
            queries.setdefault(normalise(text, "").text, _Query(text, [])).positions.append(position)
        except Invalid as refused:
            error = refused.errors[0]
            invalid.append(_Query(text, [position], DomainError(error.code, error.message)))
        characters += min(len(text), LONGEST)
        if characters > _CHARACTERS_IN_A_ROW:
            characters = 0
            await asyncio.sleep(0)
    return sorted([*queries.values(), *invalid], key=lambda one: one.positions[0])
