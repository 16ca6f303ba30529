"""The one call for every lookup: by a request, a step, a monitor or a job.

Sources on this machine answer at once. For the others: answers kept in the process, then those kept in
Postgres, then the sources themselves, all at the same time under one deadline; a query that is already on
its way to a source is not sent again. A source that fails is named in the answer, and never fails the rest.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from database import Database
from models import lookups, suppressions
from models.lookups import FAILURES, AllProvidersFailed, NoProvider, ProviderRow, Status
from outbound.client import Outbound
from providers import samples
from providers.aggregate import declared, merge, nest
from providers.asking import Asker, Outcome
from providers.base import Fields, Kind, LocalSource, Query, RemoteSource, Resolution, Source, SourceError
from providers.charging import Payer, Till
from providers.installed import Datasets
from providers.registry import DATASETS, KINDS
from providers.result import LookupResult
from providers.standing import row, switched_off
from sealing import Keyring
from settings import Settings

_DEADLINE_SECONDS = 8.0
_ANSWERS: frozenset[Status] = frozenset({"ok", "empty", "cached"})


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
        """Prepare.

        Args:
            settings: which sources are on, their keys and addresses, and whether all stays local.
            database: where all processes keep answers and limits.
            keyring: seals what is kept.
            outbound: the clients of the sources; open.
            kinds: what can be looked up, and where.
        """
        self._database = database
        self._keyring = keyring
        self._till = Till(database, keyring)
        self._kinds = kinds
        self._datasets = Datasets(settings.data)
        self._asker = Asker(settings, database, keyring, outbound, self._datasets)
        self._off = {
            source.spec.name: switched_off(source, settings)
            for kind in kinds.values()
            for source in kind.sources
        }

    async def open(self) -> None:
        """Open the data on this machine now, so that the first lookup need not wait for that."""
        for kind in self._kinds.values():
            for source in kind.sources:
                spec = source.spec
                if isinstance(source, LocalSource) and spec.dataset and self._off[spec.name] is None:
                    self._find(source, kind.normalise(kind.example, ""))

    async def close(self) -> None:
        """Give up what is on its way."""
        await self._asker.close()

    async def lookup(
        self,
        kind: str,
        query: str,
        *,
        pointer: str | None = None,
        fields: Collection[str] | None = None,
        max_age: float | None = None,
        deadline: float = _DEADLINE_SECONDS,
        offset: int = 0,
        limit: int | None = None,
        payer: Payer | None = None,
    ) -> LookupResult:
        """Look `query` up at every source of `kind` that is on.

        Args:
            kind: `ip` …
            query: as the caller gave it.
            pointer: where in the caller's input it stood, for the error; `/<kind>` by default.
            fields: the only dotted fields that matter; sources that fill none of them are not asked.
            max_age: seconds; no kept answer older than that is used, 0 for none at all.
            deadline: seconds for everything.
            offset: how many results to leave out, for a kind that has pages.
            limit: the most results to deliver, for a kind that has many.
            payer: who pays; None where nobody does.

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
            terms = await self._till.terms(payer, chosen, parsed, offset, limit)
            limit = terms.limit
        outcomes = await self._ask(chosen, parsed, fields, max_age, deadline, kept_only=False)
        result = _result(chosen, parsed, outcomes, offset, limit)
        _check(result)
        if payer is None or terms is None:
            return result
        return await self._till.charge(payer, terms, result, by_block=chosen.block > 0)

    async def charged(self, payer: Payer) -> int:
        """The credits that the work of `payer` has cost, although it may have failed since."""
        return await self._till.charged(payer)

    async def dry_run(
        self, kind: str, query: str, *, pointer: str, fields: Collection[str] | None = None
    ) -> LookupResult:
        """The answer to `query` in a dry run: nothing is sent to anyone, and nothing charged.

        It is of the data on this machine and, for a kind that costs nothing, of kept answers. What sources
        could add that were not asked is made up, and said to be from the source `sample`.

        Args:
            kind: `ip` …
            query: as the caller gave it.
            pointer: where in the caller's input it stood, for the error.
            fields: the only dotted fields that matter.

        Raises:
            models.errors.Invalid: if `query` is not of this kind.
        """
        chosen = self._kinds[kind]
        parsed = chosen.normalise(query, pointer)
        # What is kept of a kind that costs credits, somebody has paid for.
        max_age = 0 if chosen.price else None
        outcomes = await self._ask(chosen, parsed, fields, max_age, 0, kept_only=True)
        return _result(chosen, parsed, [*outcomes, *samples.added(chosen, outcomes)], 0, None)

    async def _suppressed(self, query: Query) -> bool:
        """Whether the query is a person about whom nothing is to be looked up."""
        identifier = suppressions.identifier(query.text)
        if identifier is None:
            return False
        async with self._database.connection() as connection:
            return await suppressions.contains(connection, self._keyring, identifier)

    async def _ask(
        self,
        kind: Kind,
        query: Query,
        fields: Collection[str] | None,
        max_age: float | None,
        deadline: float,
        *,
        kept_only: bool,
    ) -> list[tuple[Source, Outcome]]:
        if await self._suppressed(query):
            return [(source, Outcome("empty", detail="suppressed")) for source in kind.sources]
        outcomes: dict[str, Outcome] = {}
        remote: list[RemoteSource] = []
        alone: str | None = None
        for source in kind.sources:
            spec = source.spec
            off = self._off[spec.name]
            if alone is not None:
                outcomes[spec.name] = Outcome("skipped", detail=f"{alone}_knows")
            elif off is not None:
                outcomes[spec.name] = Outcome("skipped", detail=off)
            elif fields is not None and not kind.wants(source, fields) and not spec.exclusive:
                outcomes[spec.name] = Outcome("skipped", detail="not_wanted")
            elif isinstance(source, LocalSource):
                outcome = outcomes[spec.name] = self._find(source, query)
                alone = spec.name if spec.exclusive and outcome.status == "ok" else None
            elif kind.resolve is None and not source.takes(query):
                outcomes[spec.name] = Outcome("skipped", detail="not_its_sort")
            else:
                remote.append(source)
        ask = self._ask_remote if kind.resolve is None else partial(self._ask_in_two_rounds, kind.resolve)
        outcomes |= await ask(remote, query, max_age, deadline, kept_only)
        return [(source, _placed(source, outcomes[source.spec.name])) for source in kind.sources]

    async def _ask_in_two_rounds(
        self,
        resolve: Callable[[Query, Mapping[str, Fields]], Resolution],
        sources: Sequence[RemoteSource],
        query: Query,
        max_age: float | None,
        deadline: float,
        kept_only: bool,
    ) -> dict[str, Outcome]:
        """Find out first what exactly the query means, then ask every source about just that."""
        started = time.perf_counter()
        searching = [source for source in sources if source.takes(query)]
        first = await self._ask_remote(searching, query, max_age, deadline / 2, kept_only)
        resolution = resolve(query, {name: outcome.fields for name, outcome in first.items()})
        knowing = [source for source in sources if source.takes(resolution.query)]
        left = deadline - (time.perf_counter() - started)
        second = await self._ask_remote(knowing, resolution.query, max_age, left, kept_only)
        stayed = {
            name: replace(outcome, fields=resolution.fields.get(name, {})) for name, outcome in first.items()
        }
        unasked = {source.spec.name: Outcome("skipped", detail="not_its_sort") for source in sources}
        return unasked | stayed | second

    async def _ask_remote(
        self,
        sources: Sequence[RemoteSource],
        query: Query,
        max_age: float | None,
        deadline: float,
        kept_only: bool,
    ) -> dict[str, Outcome]:
        """Ask all at once, each as in its own kind."""
        groups = {
            kind: [source for source in sources if source.spec.kind == kind]
            for kind in dict.fromkeys(source.spec.kind for source in sources)
        }
        answers = await asyncio.gather(
            *(
                self._asker.ask(
                    group,
                    replace(query, kind=kind),
                    max_age=max_age,
                    deadline=deadline,
                    kept_only=kept_only,
                )
                for kind, group in groups.items()
            )
        )
        return {
            source.spec.name: outcome
            for group, outcomes in zip(groups.values(), answers, strict=True)
            for source, outcome in zip(group, outcomes, strict=True)
        }

    def _find(self, source: LocalSource, query: Query) -> Outcome:
        started = time.perf_counter()
        try:
            fields, drifted = declared(source.spec, source.find(query, self._datasets))
        except SourceError as error:
            return Outcome(error.status, detail=error.detail)
        ms = round((time.perf_counter() - started) * 1000)
        if drifted:
            return Outcome("bad_response", fields, ms, detail="undeclared_fields")
        return Outcome("ok" if fields else "empty", fields, ms)

    def missing_datasets(self) -> list[str]:
        """The data that lookups should not do without and that is not installed. Lists are optional."""
        wanted = [name for name, dataset in DATASETS.items() if not dataset.optional]
        return [name for name in wanted if self._datasets.info(name) is None]

    async def describe(self) -> list[ProviderRow]:
        """Every source of every kind, and how it is doing."""
        async with self._database.connection() as connection:
            states = await lookups.states(connection)
        return [
            self._standing(source, states.get(source.spec.name, {}))
            for kind in self._kinds.values()
            for source in kind.sources
            if source.spec.kind == kind.name
        ]

    def _standing(self, source: Source, known: Mapping[str, Any]) -> ProviderRow:
        spec = source.spec
        installed = self._datasets.info(spec.dataset) if spec.dataset else None
        cooling_down = bool(known.get("blocked")) or not self._asker.gates.open(spec.name)
        return row(source, self._off[spec.name], installed, known, cooling_down=cooling_down)


def _result(
    kind: Kind,
    query: Query,
    outcomes: Sequence[tuple[Source, Outcome]],
    offset: int,
    limit: int | None,
) -> LookupResult:
    answers = ((source.spec.name, outcome.fields) for source, outcome in outcomes)
    merged = merge(answers, kind.rules, kind.together)
    for path, (value, origin) in kind.derive(merged.fields, datetime.now(UTC)).items():
        if path not in merged.fields and value is not None:
            merged.fields[path] = value
            merged.sources[path] = merged.sources[origin]
    for path, (value, origin) in kind.none.items():
        could = [(source.spec.name, outcome) for source, outcome in outcomes if origin in source.fields]
        answered = [name for name, outcome in could if outcome.status in _ANSWERS]
        if answered and path not in merged.fields:
            merged.fields[path] = value
            merged.sources[path] = answered
    merged.fields[kind.echo] = query.text
    if kind.count is not None:
        answers = [outcome.fields for _, outcome in outcomes if outcome.status in _ANSWERS]
        merged.fields[kind.count] = sum(fields.get(kind.count, 1) for fields in answers)
        merged.sources.pop(kind.count, None)  # all of them have a part in it
    delivered = kind.cut(merged.fields, offset, limit)
    statuses = {outcome.status for _, outcome in outcomes}
    remote = {outcome.status for source, outcome in outcomes if isinstance(source, RemoteSource)}
    return LookupResult(
        kind=kind.name,
        query=query.text,
        data=_data(kind, delivered),
        credits=kind.cost(delivered),
        cached="cached" in remote and remote <= {"cached", "skipped"},
        partial=not statuses.isdisjoint(FAILURES),
        providers=[_report(source, outcome) for source, outcome in outcomes],
        sources=merged.sources,
        conflicts=merged.conflicts,
        block=offset // kind.block if kind.block else 0,
    )


def _data(kind: Kind, fields: Mapping[str, Any]) -> dict[str, Any]:
    data = nest(fields, kind.answer)
    return {name: value for name, value in data.items() if value or name not in kind.absent}


def _placed(source: Source, outcome: Outcome) -> Outcome:
    """The outcome with the fields named as in the kind that the source stands in."""
    if not source.places:
        return outcome
    fields = {source.places.get(path, path): value for path, value in outcome.fields.items()}
    return replace(outcome, fields=fields)


def _report(source: Source, outcome: Outcome) -> dict[str, Any]:
    report: dict[str, Any] = {
        "name": source.spec.name,
        "status": outcome.status,
        "ms": outcome.ms,
        "fields": list(outcome.fields),
        "cached": outcome.status == "cached",
    }
    if outcome.stale:
        report["stale"] = True
    if outcome.retry_after is not None:
        report["retry_after"] = math.ceil(outcome.retry_after)
    if outcome.detail is not None:
        report["detail"] = outcome.detail
    return report


def _check(result: LookupResult) -> None:
    """Refuse an answer that nobody gave."""
    statuses = {report["status"] for report in result.providers}
    if statuses == {"skipped"}:
        raise NoProvider(result.providers)
    if statuses <= FAILURES | {"skipped"}:
        raise AllProvidersFailed(result.providers)
