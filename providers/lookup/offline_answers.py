"""Many lookups without asking anyone: of the data on this machine, and of kept answers."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from models.accounts import suppressions
from models.errors import DomainError
from models.lookups.lookups import AllProvidersFailed, NoProvider
from providers.lookup.answer_cache import Asked, Found, KeptAnswers
from providers.lookup.composition import compose
from providers.lookup.local import NOT_ITS_SORT, NOT_WANTED, LocalSources, Plan, Told
from providers.lookup.result import NO_DATA, SUPPRESSED, LookupResult, Outcome
from providers.lookup.source_fetcher import Asker
from providers.lookup.waiter import Waiter
from providers.sources.base import Kind, Query

LEFT_ALONE = Outcome("skipped", detail=SUPPRESSED)
"""What becomes of every source for a person about whom nothing is looked up."""

# How many are looked for by one statement, and how many answered between two turns of the event loop: that
# takes about 1 ms.
_READ_AT_ONCE, _ANSWERED_AT_ONCE = 200, 5
# A turn that took so long was used by others, who are then left alone for a while.
_NOTICED_SECONDS, _LEFT_SECONDS = 0.0003, 0.006

Answer = LookupResult | DomainError
"""What `Lookups.lookup` gives, or the error that it raises."""


@dataclass(frozen=True)
class _Question:
    """What is the same for all queries."""

    kind: Kind
    plan: Plan
    fields: Collection[str] | None
    limit: int | None
    waiter: Waiter | None


class KnownAnswers:
    """What is known of a query in this installation."""

    def __init__(
        self, kinds: Mapping[str, Kind], local: LocalSources, kept: KeptAnswers, asker: Asker
    ) -> None:
        """Prepare.

        Args:
            kinds: what can be looked up, and where.
            local: the sources on this machine.
            kept: the answers of the others.
            asker: knows which of the others cannot be asked now.
        """
        self._kinds = kinds
        self._local = local
        self._kept = kept
        self._asker = asker
        # However many ask, others who have a turn of the event loop wait for one of them only.
        self._turn = asyncio.Lock()

    async def find_many(
        self,
        kind: str,
        queries: Sequence[str],
        *,
        fields: Collection[str] | None = None,
        limit: int | None = None,
        waiter: Waiter | None = None,
    ) -> list[Answer | None]:
        """Look many queries up without asking anyone. Nothing is charged, and nobody told.

        Args:
            kind: `ip` …
            queries: as the caller gave them.
            fields: the only dotted fields that matter.
            limit: the most results to deliver, for a kind that has many.
            waiter: the caller, if it comes back where sources are over their limits.

        Returns:
            For each query its answer; None where some source is to be asked over the network: it is on,
            fills what is wanted, and is not known to fail.

        Raises:
            psycopg.Error: the database is away.
        """
        chosen = self._kinds[kind]
        question = _Question(
            chosen, self._local.plan(kind, fields, many=waiter is not None), fields, limit, waiter
        )
        answers: list[Answer | None] = []
        for first in range(0, len(queries), _READ_AT_ONCE):
            parsed = [_parsed(chosen, text) for text in queries[first : first + _READ_AT_ONCE]]
            asked = [one for one in parsed if isinstance(one, Query)]
            found = await self._kept.find_many([_wanted(question.plan, query) for query in asked])
            known: list[Answer | None] = []
            for start in range(0, len(asked), _ANSWERED_AT_ONCE):
                end = start + _ANSWERED_AT_ONCE
                async with self._turn:
                    known += self._answer(question, asked[start:end], found[start:end])
                    await _let_others_go_on()
            rest = iter(known)
            answers += [next(rest) if isinstance(one, Query) else one for one in parsed]
        return answers

    def _answer(
        self, question: _Question, queries: Sequence[Query], found: Sequence[Found]
    ) -> Iterator[Answer | None]:
        moment = datetime.now(UTC)
        told = self._local.ask(question.plan, queries)
        for query, outcomes, kept in zip(queries, told, found, strict=True):
            if kept.suppressed:
                outcomes = [(source, LEFT_ALONE) for source, _ in outcomes]
            elif not self._settle(question, query, outcomes, kept):
                yield None
                continue
            result = compose(
                question.kind, query, outcomes, moment, limit=question.limit, fields=question.fields
            )
            yield result if kept.suppressed else lack_of(result) or result

    def _settle(self, question: _Question, query: Query, outcomes: list[Told], kept: Found) -> bool:
        """Put in what becomes of the sources in the network; say whether that is known of all."""
        for place, source in question.plan.remote:
            if outcomes[place][1] is not NOT_ITS_SORT:
                continue
            # What exactly a query means, the sources of such a kind have to be asked.
            if question.kind.resolve is not None:
                return False
            if source.takes(query):
                entry = kept.entries.get(source.spec.name)
                outcome = self._asker.settled(source, entry, question.waiter)
                if outcome is None:
                    return False
                outcomes[place] = source, outcome.placed(source)
        return True


async def _let_others_go_on() -> None:
    """Give others a turn of the event loop; if one of them took it, some time for what that leads to."""
    loop = asyncio.get_running_loop()
    before = loop.time()
    await asyncio.sleep(0)
    if loop.time() - before > _NOTICED_SECONDS:
        await asyncio.sleep(_LEFT_SECONDS)


def _parsed(kind: Kind, text: str) -> Query | DomainError:
    try:
        return kind.normalise(text, f"/{kind.name}")
    except DomainError as error:
        return error


def _wanted(plan: Plan, query: Query) -> tuple[list[Asked], str | None]:
    """Of which answers it matters whether they are kept; and who the query is."""
    asked = [
        (source, replace(source.asks(query), kind=source.spec.kind))
        for _, source in plan.remote
        if source.takes(query)
    ]
    return asked, suppressions.identifier(query.text)


def lack_of(result: LookupResult) -> DomainError | None:
    """Say why an answer is refused: nobody gave it."""
    if result.heard:
        return None
    if any(outcome.failed for _, outcome in result.outcomes):
        return AllProvidersFailed(result.reports())
    if any(outcome.detail == NOT_WANTED for _, outcome in result.outcomes):
        return None  # no source fills what is wanted: nobody knows it
    lacks_data = any(outcome.detail == NO_DATA for _, outcome in result.outcomes)
    return NoProvider(result.reports(), lacks_data=lacks_data)
