"""Answers to many queries from local data and cached answers, without asking any source."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from models.accounts import suppressions
from models.errors import DomainError
from models.lookups.lookups import AllProvidersFailed, NoProvider
from providers.lookup.answer_cache import AnswerCache, CachedAnswers, SourceQuery
from providers.lookup.composition import WHOLE_ANSWER, Selection, compose
from providers.lookup.local import NOT_ITS_SORT, NOT_WANTED, LocalSources, NamedResult, SourcePlan
from providers.lookup.result import NO_DATA, SUPPRESSED, LookupResult, SourceResult
from providers.lookup.source_fetcher import SourceFetcher
from providers.lookup.waiter import Waiter
from providers.sources.base import Query
from providers.sources.kind import Kind

LEFT_ALONE = SourceResult("skipped", detail=SUPPRESSED)
"""The outcome of every source for a suppressed person, about whom nothing is looked up."""

# How many queries one statement reads, and how many are answered before the event loop runs other tasks.
# Those take about 1 ms.
_READ_AT_ONCE, _ANSWERED_AT_ONCE = 200, 5
# If other tasks ran this long meanwhile, the loop is busy, and this task pauses for the second time.
_NOTICED_SECONDS, _LEFT_SECONDS = 0.0003, 0.006

Answer = LookupResult | DomainError
"""The result of `Lookups.lookup`, or the error that it raises."""


@dataclass(frozen=True)
class _Question:
    """The options that all queries of a call share."""

    kind: Kind
    plan: SourcePlan
    selection: Selection
    waiter: Waiter | None


class OfflineAnswers:
    """Answers queries from what this installation already holds."""

    def __init__(
        self, kinds: Mapping[str, Kind], local: LocalSources, kept: AnswerCache, fetcher: SourceFetcher
    ) -> None:
        """Prepare the answers.

        Args:
            kinds: the kinds of lookups, by name.
            local: the sources on this machine.
            kept: the cached answers of the network sources.
            fetcher: decides which network sources cannot be asked now.
        """
        self._kinds = kinds
        self._local = local
        self._kept = kept
        self._fetcher = fetcher
        # One caller works at a time, so that other tasks of the event loop wait for one of them only.
        self._turn = asyncio.Lock()

    async def find_many(
        self,
        kind: str,
        queries: Sequence[str],
        selection: Selection = WHOLE_ANSWER,
        *,
        waiter: Waiter | None = None,
    ) -> list[Answer | None]:
        """Answer many queries without asking any source. Nothing is charged, and no event is emitted.

        Args:
            kind: `ip` …
            queries: as the caller wrote them.
            selection: the part of the answers that is wanted.
            waiter: the caller, if it comes back when sources are over their limits.

        Returns:
            For each query its answer; None if a network source must be asked: it is enabled, fills a
                wanted field, and is not known to fail.

        Raises:
            psycopg.Error: the database is away.
        """
        chosen = self._kinds[kind]
        plan = self._local.plan(kind, selection.fields, many=waiter is not None)
        question = _Question(chosen, plan, selection, waiter)
        answers: list[Answer | None] = []
        for first in range(0, len(queries), _READ_AT_ONCE):
            parsed = [_parse_query(chosen, text) for text in queries[first : first + _READ_AT_ONCE]]
            asked = [one for one in parsed if isinstance(one, Query)]
            found = await self._kept.find_many([_list_wanted(question.plan, query) for query in asked])
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
        self, question: _Question, queries: Sequence[Query], found: Sequence[CachedAnswers]
    ) -> Iterator[Answer | None]:
        moment = datetime.now(UTC)
        told = self._local.ask(question.plan, queries)
        for query, outcomes, kept in zip(queries, told, found, strict=True):
            if kept.suppressed:
                outcomes = [(source, LEFT_ALONE) for source, _ in outcomes]
            elif not self._settle(question, query, outcomes, kept):
                yield None
                continue
            result = compose(question.kind, query, outcomes, moment, question.selection)
            yield result if kept.suppressed else lack_of(result) or result

    def _settle(
        self, question: _Question, query: Query, outcomes: list[NamedResult], kept: CachedAnswers
    ) -> bool:
        """Set the outcome of each network source that is known now; return whether all are known."""
        for place, source in question.plan.remote:
            if outcomes[place][1] is not NOT_ITS_SORT:
                continue
            # Sources of such a kind must be asked first to learn what exactly the query means.
            if question.kind.resolve is not None:
                return False
            if source.takes(query):
                entry = kept.entries.get(source.spec.name)
                outcome = self._fetcher.settle_without_request(source, entry, question.waiter)
                if outcome is None:
                    return False
                outcomes[place] = source, outcome.rename_fields(source)
        return True


async def _let_others_go_on() -> None:
    """Let other tasks of the event loop run; if any did, pause to leave time for their follow-up work."""
    loop = asyncio.get_running_loop()
    before = loop.time()
    await asyncio.sleep(0)
    if loop.time() - before > _NOTICED_SECONDS:
        await asyncio.sleep(_LEFT_SECONDS)


def _parse_query(kind: Kind, text: str) -> Query | DomainError:
    try:
        return kind.normalise(text, f"/{kind.name}")
    except DomainError as error:
        return error


def _list_wanted(plan: SourcePlan, query: Query) -> tuple[list[SourceQuery], str | None]:
    """Return the sources whose cached answers are needed, and the person that the query identifies."""
    asked = [
        (source, replace(source.asks(query), kind=source.spec.kind))
        for _, source in plan.remote
        if source.takes(query)
    ]
    return asked, suppressions.identifier(query.text)


def lack_of(result: LookupResult) -> DomainError | None:
    """Return the error for an answer that no source gave, or None."""
    if result.heard:
        return None
    if any(outcome.failed for _, outcome in result.outcomes):
        return AllProvidersFailed(result.reports())
    if any(outcome.detail == NOT_WANTED for _, outcome in result.outcomes):
        return None  # no source fills the wanted fields, so none could be heard
    lacks_data = any(outcome.detail == NO_DATA for _, outcome in result.outcomes)
    return NoProvider(result.reports(), lacks_data=lacks_data)
