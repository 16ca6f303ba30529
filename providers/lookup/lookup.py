"""The one entry to every lookup, for requests, steps, monitors and jobs.

Sources on this machine answer at once. For the others, answers are taken from the cache of the process, then
from the cache in Postgres, then from the sources themselves, all at the same time under one deadline. Equal
queries to a source share one request. A source that fails is named in the answer and never fails the rest.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple

import logs
from database import Database
from models.accounts import suppressions
from models.errors import DomainError
from models.lookups import provider_states, source_quotas
from models.lookups.lookups import ProviderRow
from models.lookups.source_quotas import WindowUse
from outbound.client import Outbound
from providers.datasets.installed import Datasets
from providers.lookup import samples
from providers.lookup.admission import AdmissionControl
from providers.lookup.answer_cache import AnswerCache, CachedAnswers
from providers.lookup.billing import LookupBilling, Payer
from providers.lookup.composition import Selection, compose
from providers.lookup.counting import count_sources
from providers.lookup.local import NOT_ITS_SORT, LocalSources
from providers.lookup.lookup_events import LookupEvents
from providers.lookup.networks import network_of
from providers.lookup.offline_answers import LEFT_ALONE, OfflineAnswers, lack_of
from providers.lookup.questions import DEFAULTS, LookupOptions, Question
from providers.lookup.recent_cache import RecentCache
from providers.lookup.result import NOT_ASKED, LookupResult, SourceResult, is_suppressed
from providers.lookup.source_fetcher import SourceFetcher
from providers.lookup.source_status import (
    BULK_USE,
    SourceState,
    build_row,
    is_left_out,
    name_unknown,
    quota_of,
    switched_off,
)
from providers.registry import KINDS
from providers.sources.aggregate import types_of
from providers.sources.base import LocalSource, Query, RemoteSource, Source
from providers.sources.kind import Kind, Resolve
from sealing import Keyring
from settings import Settings

_log = logs.get(__name__)


class AskedSources(NamedTuple):
    """The sources that are asked for certain fields, on the network and on this machine.

    `left_out`: sources that would be asked about a single target only.
    """

    remote: Sequence[RemoteSource]
    local: Sequence[LocalSource]
    left_out: Sequence[Source] = ()


class Lookups:
    """All lookups of this process."""

    def __init__(
        self,
        settings: Settings,
        database: Database,
        keyring: Keyring,
        outbound: Outbound,
        *,
        kinds: Mapping[str, Kind] = KINDS,
    ) -> None:
        """Prepare the lookups of this process.

        Args:
            settings: which sources are enabled, their keys and addresses, whether all lookups stay local, and
                whether they cost credits.
            database: stores the answers and limits that all processes share.
            keyring: seals the stored answers.
            outbound: the HTTP clients of the sources; already open.
            kinds: the kinds of lookups, by name.
        """
        self._settings = settings
        self._database = database
        self.billing = LookupBilling(database, keyring)
        self.events = LookupEvents(database)
        if not settings.charges:
            kinds = {name: kind.without_price() for name, kind in kinds.items()}
        self._kinds = kinds
        self._datasets = Datasets(settings.data)
        self._types = {
            source.spec.name: types_of(source, kind.answer)
            for kind in kinds.values()
            for source in kind.sources
        }
        self._admission = AdmissionControl(settings, database)
        self._kept = AnswerCache(database, keyring, settings)
        self._recent = RecentCache()
        self._fetcher = SourceFetcher(
            settings, self._admission, self._kept, outbound, self._datasets, self._types
        )
        sources = [source for kind in kinds.values() for source in kind.sources]
        self._off = {source.spec.name: switched_off(source, settings) for source in sources}
        left_out = {source.spec.name for source in sources if is_left_out(source, settings)}
        self._leaves_out = bool(left_out)
        self._local = LocalSources(kinds, self._off, self._types, self._datasets, left_out)
        self.offline_answers = OfflineAnswers(kinds, self._local, self._kept, self._fetcher)

    async def open(self) -> None:
        """Open the data on this machine now, so that the first lookup need not wait for that."""
        self.events.start()
        if unknown := name_unknown(self._kinds, self._settings):
            _log.warning("commercial_terms_unknown", sources=unknown)
        for kind in self._kinds.values():
            for source in kind.sources:
                spec = source.spec
                if isinstance(source, LocalSource) and spec.dataset and self._off[spec.name] is None:
                    self._local.find(source, [kind.normalise(kind.example, "")])

    async def close(self) -> None:
        """Cancel all requests that are in flight."""
        await self._fetcher.close()
        self.events.stop()

    async def lookup(
        self,
        kind: str,
        query: str,
        options: LookupOptions = DEFAULTS,
        *,
        pointer: str | None = None,
        payer: Payer | None = None,
    ) -> LookupResult:
        """Look `query` up at every enabled source of `kind`.

        Args:
            kind: `ip` …
            query: as the caller gave it.
            options: how it is looked up.
            pointer: where in the caller's input the query stood, for the error; `/<kind>` by default.
            payer: the account that pays, if the kind costs credits; None for a lookup without an owner.

        Raises:
            models.errors.Invalid: if `query` is not of this kind.
            AllProvidersFailed: if every source that was asked failed.
            NoProvider: if no source could be asked at all.
            InsufficientCredits: if the payer cannot pay.
        """
        chosen = self._kinds[kind]
        parsed = chosen.normalise(query, pointer or f"/{kind}")
        terms = None
        if payer is not None and chosen.price:
            wanted = options.selection
            terms = await self.billing.get_terms(payer, chosen, parsed, wanted.offset, wanted.limit)
            options = replace(options, selection=replace(wanted, limit=terms.limit))
        if payer is None:
            return await self._answer(Question(chosen, parsed, options))
        try:
            result = await self._answer(Question(chosen, parsed, options))
        except DomainError as error:
            count_sources(payer.account_id, error)
            raise
        count_sources(payer.account_id, result)
        has_subscriber = await self.events.has_subscriber(payer.account_id)
        emit = partial(self.events.emit, payer) if has_subscriber else None
        if terms is not None:
            return await self.billing.charge(payer, terms, result, by_block=chosen.block > 0, emit=emit)
        if emit is not None:
            await emit(result)
        return result

    @property
    def charges(self) -> bool:
        """Return whether lookups cost credits here."""
        return self._settings.charges

    def get_price(self, kind: str) -> int:
        """Return the most credits that an answer of a kind can cost here."""
        return self._kinds[kind].price

    def network_of(self, address: str) -> str:
        """Return the network and country of an address from local data, `AS15169 US`, or else the address."""
        return network_of(self._kinds["ip"], self._local, address)

    def select_sources(self, kind: str, fields: Collection[str] | None) -> AskedSources:
        """Return the sources that a job or a monitor asks for these fields of a kind; None for all fields.

        Returns:
            The enabled network sources with the rates that apply here, the sources on this machine that have
                their data, and the enabled sources that are left out.
        """
        plan = self._local.plan(kind, fields, many=True)
        here = [source for _, source in plan.local if self._has_data(source.spec.dataset)]
        left_out = [source for source, outcome in plan.outcomes if outcome.detail == BULK_USE]
        return AskedSources([self._as_allowed(source) for _, source in plan.remote], here, left_out)

    def _as_allowed(self, source: RemoteSource) -> RemoteSource:
        return replace(source, spec=replace(source.spec, rates=source.spec.get_rates(self._settings)))

    def _has_data(self, dataset: str | None) -> bool:
        return dataset is None or self._datasets.usable(dataset) is not None

    async def count_charged(self, payer: Payer) -> int:
        """Return the credits that the work of `payer` has cost, even if it failed later."""
        return (await self.billing.get_funds(payer)).charged

    async def dry_run(
        self, kind: str, query: str, *, pointer: str, fields: Collection[str] | None = None
    ) -> LookupResult:
        """Return the answer to `query` in a dry run: nothing is sent and nothing is charged.

        It is built from the data on this machine and, for a free kind, from cached answers. Fields of sources
        that are set up but were not asked are made up and named as coming from the source `sample`.

        Args:
            kind: `ip` …
            query: as the caller wrote it.
            pointer: where in the caller's input the query stood, for the error.
            fields: the only dotted fields that are wanted.

        Raises:
            models.errors.Invalid: if `query` is not of this kind.
            AllProvidersFailed, NoProvider: as `lookup`, if no source is left to ask.
        """
        chosen = self._kinds[kind]
        parsed = chosen.normalise(query, pointer)
        # Cached answers of a kind that costs credits were paid by another account.
        options = LookupOptions(Selection(fields), max_age=0 if chosen.price else None, deadline=0)
        question = Question(chosen, parsed, options, kept_only=True)
        outcomes = await self._ask(question)
        left_alone = is_suppressed(outcomes)
        if not left_alone:
            outcomes += samples.add_sample(chosen, outcomes)
        result = compose(chosen, parsed, outcomes, datetime.now(UTC), options.selection)
        could_be_asked = any(outcome.detail == NOT_ASKED for _, outcome in outcomes)
        refusal = None if left_alone or could_be_asked else lack_of(result)
        if refusal is not None:
            raise refusal
        return result

    async def _answer(self, question: Question) -> LookupResult:
        """Return an answer of the last seconds, or a new one.

        Raises:
            AllProvidersFailed: if every source that was asked failed.
            NoProvider: if no source could be asked at all.
        """
        place = question.place, self._leaves_out and question.options.waiter is not None
        result = self._recent.find(place) if question.options.max_age is None else None
        if result is None or await self._is_suppressed(question.query):
            outcomes = await self._ask(question)
            wanted = question.options.selection
            result = compose(question.kind, question.query, outcomes, datetime.now(UTC), wanted)
            if is_suppressed(outcomes):
                return result
            # A waiting caller is refused earlier than others, so its refusals do not hold for them.
            if question.options.waiter is None or all(one.status != "rate_limited" for _, one in outcomes):
                self._recent.add(place, result)
        refusal = lack_of(result)
        if refusal is not None:
            raise refusal
        return result

    async def _is_suppressed(self, query: Query) -> bool:
        person = suppressions.identifier(query.text)
        return person is not None and (await self._kept.find([], person)).suppressed

    async def _ask(self, question: Question) -> list[tuple[Source, SourceResult]]:
        """Return the outcome of every source. Nothing is sent about a suppressed person."""
        kind, query = question.kind, question.query
        plan = self._local.plan(
            kind.name, question.options.selection.fields, many=question.options.waiter is not None
        )
        [outcomes] = self._local.ask(plan, [query])
        remote = [source for place, source in plan.remote if outcomes[place][1] is NOT_ITS_SORT]
        first = [source for source in remote if source.takes(query)]
        found = await self._look(first, question)
        if found.suppressed:
            return [(source, LEFT_ALONE) for source in kind.sources]
        if not remote:
            return outcomes
        if kind.resolve is None:
            answered = await self._ask_remote(first, question, found)
        else:
            answered = await self._ask_in_two_rounds(kind.resolve, remote, question, found)
        return [
            (
                source,
                answered[source.spec.name].rename_fields(source) if source.spec.name in answered else outcome,
            )
            for source, outcome in outcomes
        ]

    async def _look(self, sources: Sequence[RemoteSource], question: Question) -> CachedAnswers:
        """Read the cached answers, and check whether the person is suppressed."""
        person = suppressions.identifier(question.query.text)
        return await self._kept.find(
            question.list_queries(sources) if question.options.max_age != 0 else [], person
        )

    async def _ask_remote(
        self, sources: Sequence[RemoteSource], question: Question, found: CachedAnswers
    ) -> dict[str, SourceResult]:
        """Ask all sources at once, each with the query in the form of its own kind."""
        return await self._fetcher.ask(
            question.list_queries(sources),
            found.entries,
            max_age=question.options.max_age,
            deadline=question.options.deadline,
            waiter=question.options.waiter,
            kept_only=question.kept_only,
        )

    async def _ask_in_two_rounds(
        self,
        resolve: Resolve,
        sources: Sequence[RemoteSource],
        question: Question,
        found: CachedAnswers,
    ) -> dict[str, SourceResult]:
        """Find out first what exactly the query means, then ask every source about exactly that.

        If a source fails in the first round, the fields that others reported in that round alone are unsure:
        the missing answer might have changed what the query means.
        """
        started = time.perf_counter()
        searching = [source for source in sources if source.takes(question.query)]
        half = question.with_deadline(question.options.deadline / 2)
        first = await self._ask_remote(searching, half, found)
        told = {name: outcome.fields for name, outcome in first.items()}
        # A stale answer that replaces a failed one still identifies the subject, so it does not count as
        # silence.
        heard = not any(outcome.silent and not outcome.stale for outcome in first.values())
        resolution = resolve(question.query, told, heard)
        left = question.options.deadline - (time.perf_counter() - started)
        exact = replace(question.with_deadline(left), query=resolution.query)
        knowing = [source for source in sources if source.takes(exact.query)]
        second = await self._ask_remote(knowing, exact, await self._look(knowing, exact))
        failed = any(outcome.silent for outcome in first.values())
        stayed: dict[str, SourceResult] = {}
        for source in searching:
            name = source.spec.name
            unsure = source.spec.fields if failed else first[name].unsure
            stayed[name] = first[name]._replace(fields=resolution.fields.get(name, {}), unsure=unsure)
        about = {source.spec.name: source.asks(exact.query).text for source in knowing}
        return stayed | {name: one._replace(about=about[name]) for name, one in second.items()}

    async def describe(self) -> list[ProviderRow]:
        """Return every source of every kind, with its status."""
        async with self._database.connection() as connection:
            states = await provider_states.load_states(connection)
            use = await source_quotas.read_use(connection)
        return [
            self._standing(source, states, use)
            for kind in self._kinds.values()
            for source in kind.sources
            if source.spec.kind == kind.name
        ]

    def _standing(
        self,
        source: Source,
        states: Mapping[str, Mapping[str, Any]],
        use: Mapping[tuple[str, int], WindowUse],
    ) -> ProviderRow:
        spec = source.spec
        known = states.get(spec.name, {})
        installed = self._datasets.usable(spec.dataset) if spec.dataset else None
        if not isinstance(source, RemoteSource):
            return build_row(source, SourceState(self._off[spec.name], installed, known, cooling_down=False))
        account = states.get(source.spec.bucket, {})
        cooling_down = bool(known.get("blocked") or account.get("blocked"))
        state = SourceState(
            self._off[spec.name],
            installed,
            known,
            cooling_down=cooling_down or not self._admission.is_open(source.spec),
            quota=quota_of(source.spec, self._settings, use),
            address=source.spec.address(self._settings),
        )
        return build_row(source, state)
