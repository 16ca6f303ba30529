"""What a lookup gives, and what became of each source in it."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from models.lookups.lookups import FAILURES, Status
from providers.sources.base import Fields, RemoteSource, Source, Unsure

ANSWERS: frozenset[Status] = frozenset({"ok", "empty", "cached"})
"""The outcomes after which it is known what a source knows."""

NOT_ASKED = "not_asked"
"""Why a source was skipped of which nothing is kept, where nobody was to be asked."""

NO_DATA = "no_data"
"""Why a source was skipped whose data is not on this machine."""
_SAID = {NO_DATA: "lookup data is missing: run `vedette data fetch`"}

REFUSING = "refusing"
"""Why a source is over its limit that has refused again and again, however long it was left alone."""

SUPPRESSED = "suppressed"
"""Why a source was skipped where nothing is to be looked up, nor kept, of the person."""

_NOTHING: Fields = {}
_NO_DOUBTS: Mapping[str, Unsure] = {}

Shown = Literal["asked", "all", "failed"]
"""Which sources an answer lists."""


class Outcome(NamedTuple):
    """What became of one source: its status, and its fields if it has any.

    Attributes:
        status: what became of it.
        fields: that it filled, by their names in its own kind.
        ms: how long that took, in milliseconds.
        stale: it failed now, and an answer from before stands in.
        retry_after: seconds after which it can be asked again.
        detail: why it was skipped or failed.
        fetched_at: when its answer, or the data on this machine, was fetched; Unix seconds.
        unsure: fields of which it may know more, or otherwise, than it could find out this time.
        about: what exactly it was asked about, where the query may mean several things.
        failure: how it failed, where an answer from before stands in.
        doubts: of the unsure fields those of which it says why, or who contradicts whom.
        server: which of its servers failed, or is over its limit, for a source with one for each registry.
    """

    status: Status
    fields: Fields = _NOTHING
    ms: int = 0
    stale: bool = False
    retry_after: float | None = None
    detail: str | None = None
    fetched_at: float | None = None
    unsure: frozenset[str] = frozenset()
    about: str = ""
    doubts: Mapping[str, Unsure] = _NO_DOUBTS
    failure: Status | None = None
    server: str | None = None

    @property
    def failed(self) -> bool:
        """Whether the source was asked, and gave no answer."""
        return self.status in FAILURES

    @property
    def silent(self) -> bool:
        """Whether the source was to say what it knows of the query, and has not said it now."""
        return self.status in FAILURES or self.stale or self.detail == NO_DATA

    @property
    def failures(self) -> dict[str, str]:
        """The fields that it could not find out since a part of what was asked has failed, and how."""
        return {path: doubt.why for path, doubt in self.doubts.items() if doubt.why}

    def placed(self, source: Source) -> Outcome:
        """The outcome with the fields named as in the kind that `source` stands in."""
        if not source.places:
            return self
        fields = {source.places.get(path, path): value for path, value in self.fields.items()}
        doubts = {source.places.get(path, path): doubt for path, doubt in self.doubts.items()}
        unsure = frozenset(source.places.get(path, path) for path in self.unsure)
        return self._replace(fields=fields, unsure=unsure, doubts=doubts)

    def report(self, source: Source) -> dict[str, Any]:
        """The outcome as `models.lookups.lookups.ProviderReport`; what does not apply is left out."""
        report: dict[str, Any] = {
            "name": source.spec.name,
            "status": self.status,
            "ms": self.ms,
            "fields": list(self.fields),
        }
        if self.fetched_at is not None:
            report["fetched_at"] = _utc(self.fetched_at)
        if self.status == "cached":
            report["cached"] = True
        if self.stale:
            report["stale"] = True
        if self.retry_after is not None:
            report["retry_after"] = math.ceil(self.retry_after)
        if self.detail is not None:
            report["detail"] = _SAID.get(self.detail, self.detail)
        if self.server is not None:
            report["server"] = self.server
        if self.failures:
            report["failed"] = self.failures
        return report


def outcome_of(report: Mapping[str, Any]) -> Outcome:
    """Read what became of a source from its `report`: how it failed, not what it said."""
    detail = report.get("detail")
    detail = next((word for word, said in _SAID.items() if said == detail), detail)
    return Outcome(
        report["status"], retry_after=report.get("retry_after"), detail=detail, server=report.get("server")
    )


Outcomes = Sequence[tuple[Source, Outcome]]
"""Every source of a kind, in the order of precedence, with its fields named as in this kind."""


def is_heard(source: Source, outcome: Outcome) -> bool:
    """Whether the source has told what it knows of the query, be it nothing.

    A source that holds another sort of data than the rest tells nothing when it has none, and one that only
    helps to judge never does.
    """
    spec = source.spec
    return outcome.status in ANSWERS and spec.suffices and bool(outcome.fields or spec.proves_absence)


def suppressed(outcomes: Outcomes) -> bool:
    """Whether nothing is to be looked up, nor kept, of the person."""
    return all(outcome.detail == SUPPRESSED for _, outcome in outcomes)


def all_kept(outcomes: Outcomes) -> bool:
    """Whether every source that was to be asked over the network was answered from what is kept."""
    if not any(outcome.status == "cached" for _, outcome in outcomes):
        return False
    statuses = {outcome.status for source, outcome in outcomes if isinstance(source, RemoteSource)}
    return statuses <= {"cached", "skipped"}


@dataclass(frozen=True)
class LookupResult:
    """What all sources together know about a query.

    Attributes:
        kind: the kind of lookup.
        query: in its normalised form.
        echo: the field of `data` that repeats the query.
        data: the fields of the kind's answer, nested; null where nobody knows.
        credits: what it costs: by what was delivered.
        cached: every source that had to be asked over the network was answered from what is kept.
        partial: some source failed, or lacks its data.
        outcomes: for each source what became of it.
        sources: path → the sources that its value is from.
        conflicts: path → source → value, where sources differ.
        block: which block of results this is, for a kind that charges by blocks.
    """

    kind: str
    query: str
    echo: str
    data: dict[str, Any]
    credits: int
    cached: bool
    partial: bool
    outcomes: Outcomes
    sources: dict[str, list[str]]
    conflicts: dict[str, dict[str, Any]]
    block: int = 0

    @property
    def heard(self) -> bool:
        """Whether any source has answered. Where none has, there is no answer, and nothing to charge."""
        return any(is_heard(source, outcome) for source, outcome in self.outcomes)

    def value(self, path: str) -> Any:
        """The value of a dotted field; None where nobody knows one, an empty list too."""
        value: Any = self.data
        for name in path.split("."):
            value = value.get(name) if value else None
        return value if value != [] else None

    def reports(self, shown: Shown = "all") -> list[dict[str, Any]]:
        """What became of the sources, each as `models.lookups.lookups.ProviderReport`."""
        if shown == "failed" and not self.partial:
            return []
        chosen = _SHOWN[shown]
        return [outcome.report(source) for source, outcome in self.outcomes if chosen(outcome)]

    def told(self, fields: Collection[str] | None = None) -> dict[str, Any]:
        """What is known: the only dotted fields and blocks wanted, with the query; None for all."""
        if fields is None:
            return self.data
        return {self.echo: self.data[self.echo], **_pruned(self.data, fields)}

    def answer(self, *, shown: Shown = "asked", fields: Collection[str] | None = None) -> dict[str, Any]:
        """The answer as the API gives it.

        Args:
            shown: which sources are listed: those asked, all, or only those that failed.
            fields: the only dotted fields and blocks that it has; None for all.
        """
        sources, conflicts = self.sources, self.conflicts
        if fields is not None:
            sources = {path: names for path, names in sources.items() if within(path, fields)}
            conflicts = {path: values for path, values in conflicts.items() if within(path, fields)}
        return {
            **self.told(fields),
            "credits": self.credits,
            "cached": self.cached,
            "partial": self.partial,
            "providers": self.reports(shown),
            "sources": sources,
            "conflicts": conflicts,
        }


_SHOWN: dict[Shown, Callable[[Outcome], bool]] = {
    "asked": lambda outcome: outcome.status != "skipped" or outcome.silent,
    "all": lambda outcome: True,
    "failed": lambda outcome: outcome.silent,
}


def _pruned(data: Mapping[str, Any], fields: Collection[str]) -> dict[str, Any]:
    """The members of `data` that `fields` name, in their order."""
    inner: dict[str, list[str]] = {}
    for path in fields:
        name, _, rest = path.partition(".")
        inner.setdefault(name, []).append(rest)
    return {
        name: value if "" in inner[name] or value is None else _pruned(value, inner[name])
        for name, value in data.items()
        if name in inner
    }


def within(path: str, fields: Collection[str]) -> bool:
    """Whether `path` is one of `fields`, or in a block that they name."""
    return path in fields or any(path[:end] in fields for end, sign in enumerate(path) if sign == ".")


@lru_cache(4096)
def _utc(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
