"""The sources on this machine, and the choice of the sources that a kind asks for any query."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from models.lookups.lookups import Status
from providers.datasets.installed import Datasets
from providers.lookup.result import SourceResult, is_within
from providers.lookup.source_status import BULK_USE
from providers.sources.aggregate import Types, check_declared
from providers.sources.base import Fields, LocalSource, Query, RemoteSource, Source, SourceError
from providers.sources.kind import Kind

NOT_WANTED = "not_wanted"
"""Detail of a skipped source that fills none of the wanted fields."""

NOT_ITS_SORT = SourceResult("skipped", detail="not_its_sort")
"""The outcome of a network source until it is asked."""


NamedResult = tuple[Source, SourceResult]
"""A source and its outcome, with fields named as in the kind that uses the source."""


class SourcePlan(NamedTuple):
    """The sources to ask for certain fields of a kind.

    Attributes:
        outcomes: every source in the order of precedence, with its outcome if it is not asked.
        local: the sources on this machine to ask, each with its index in `outcomes`.
        remote: the network sources to ask, each with its index in `outcomes`.
    """

    outcomes: list[NamedResult]
    local: list[tuple[int, LocalSource]]
    remote: list[tuple[int, RemoteSource]]


class LocalSources:
    """Asks the sources on this machine."""

    def __init__(
        self,
        kinds: Mapping[str, Kind],
        off: Mapping[str, str | None],
        types: Mapping[str, Types],
        datasets: Datasets,
        left_out: Collection[str] = (),
    ) -> None:
        """Prepare the sources of all kinds.

        Args:
            kinds: the kinds of lookups, by name.
            off: source → why the settings disable it, if they do.
            types: source → the type of each of its fields.
            datasets: the data on this machine.
            left_out: the sources that are not asked when many targets are looked up.
        """
        self._kinds = kinds
        self._off = off
        self._types = types
        self._datasets = datasets
        self._left_out = left_out
        self._plans = lru_cache(256)(self._make_plan)

    def plan(self, kind: str, fields: Collection[str] | None, *, many: bool = False) -> SourcePlan:
        """Return the sources to ask for `fields`, None for all.

        Callers share the plan and must not change it.

        `many`: a job or a monitor is looking up one of many targets.
        """
        return self._plans(kind, None if fields is None else frozenset(fields), many)

    def _make_plan(self, kind: str, fields: frozenset[str] | None, many: bool) -> SourcePlan:
        chosen = self._kinds[kind]
        needed = None if fields is None else chosen.find_needed(fields)
        plan = SourcePlan([], [], [])
        for source in chosen.sources:
            off = self._off[source.spec.name]
            outcome = NOT_ITS_SORT
            if off is not None:
                outcome = SourceResult("skipped", detail=off)
            elif needed is not None and not source.spec.exclusive and not _fills(source, needed):
                outcome = SourceResult("skipped", detail=NOT_WANTED)
            elif many and source.spec.name in self._left_out:
                outcome = SourceResult("skipped", detail=BULK_USE)
            elif isinstance(source, LocalSource):
                plan.local.append((len(plan.outcomes), source))
            else:
                plan.remote.append((len(plan.outcomes), source))
            plan.outcomes.append((source, outcome))
        return plan

    def ask(self, plan: SourcePlan, queries: Sequence[Query]) -> list[list[NamedResult]]:
        """Ask the sources about all queries, one source after the other.

        This order keeps the data of one source in the processor's caches.

        Returns:
            For each query, what becomes of every source unless it is asked over the network.
        """
        answers = [plan.outcomes.copy() for _ in queries]
        asked, open_answers = queries, answers
        for place, source in plan.local:
            for answer, told in zip(open_answers, self.find(source, asked), strict=True):
                answer[place] = told
            if not source.spec.exclusive:
                continue
            known = {n for n, answer in enumerate(open_answers) if answer[place][1].status == "ok"}
            if known:
                alone = SourceResult("skipped", detail=f"{source.spec.name}_knows")
                for n in known:
                    open_answers[n][place + 1 :] = [(other, alone) for other, _ in plan.outcomes[place + 1 :]]
                asked = [query for n, query in enumerate(asked) if n not in known]
                open_answers = [answer for n, answer in enumerate(open_answers) if n not in known]
        return answers

    def find(self, source: LocalSource, queries: Sequence[Query]) -> list[NamedResult]:
        """Return the fields of each query from the source. Each query counts an equal part of the time."""
        spec = source.spec
        started = time.perf_counter()
        found: list[Fields | SourceResult] = []
        for query in queries:
            try:
                found.append(source.find(query, self._datasets))
            except SourceError as error:
                found.append(_without_fields(error.status, 0, error.detail, None))
        ms = round((time.perf_counter() - started) * 1000 / max(1, len(queries)))
        fetched_at = self._datasets.fetched_at(spec.dataset) if spec.dataset else None
        nothing = source, _without_fields("empty", ms, None, fetched_at)
        return [
            nothing
            if not one
            else (
                source,
                one if isinstance(one, SourceResult) else self._check_fields(source, one, ms, fetched_at),
            )
            for one in found
        ]

    def _check_fields(
        self, source: LocalSource, found: Fields, ms: int, fetched_at: float | None
    ) -> SourceResult:
        fields, unsure, drifted, doubts = check_declared(source.spec, found, self._types[source.spec.name])
        if drifted:
            outcome = SourceResult("bad_response", fields, ms, detail="drifted", fetched_at=fetched_at)
        else:
            status = "ok" if fields else "empty"
            outcome = SourceResult(status, fields, ms, fetched_at=fetched_at, unsure=unsure, doubts=doubts)
        return outcome.rename_fields(source)


@lru_cache(256)
def _without_fields(status: Status, ms: int, detail: str | None, fetched_at: float | None) -> SourceResult:
    return SourceResult(status, ms=ms, detail=detail, fetched_at=fetched_at)


def _fills(source: Source, needed: Collection[str]) -> bool:
    return any(is_within(path, needed) for path in source.fields)
