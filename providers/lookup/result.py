"""The result of a lookup and the outcome of each of its sources."""

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
"""Statuses of a source that answered, be it with nothing."""

NOT_ASKED = "not_asked"
"""Detail of a skipped source that has no cached answer, in a lookup that sends no requests."""

NO_DATA = "no_data"
"""Detail of a skipped source whose data is not on this machine."""
_SAID = {NO_DATA: "lookup data is missing: run `vedette data fetch`"}

REFUSING = "refusing"
"""Detail of a source that keeps refusing, however long it was not asked."""

SUPPRESSED = "suppressed"
"""Detail of a skipped source where nothing may be looked up or stored about the person."""

_NOTHING: Fields = {}
_NO_DOUBTS: Mapping[str, Unsure] = {}

Shown = Literal["asked", "all", "failed"]
"""Which sources an answer lists."""


class SourceResult(NamedTuple):
    """The outcome of one source: its status, and its fields if it has any.

    Attributes:
        status: how the request ended.
        fields: the fields that it filled, by their names in its own kind.
        ms: duration in milliseconds.
        stale: whether it failed now and an earlier answer replaces its own.
        retry_after: seconds after which it can be asked again.
        detail: why it was skipped or failed.
        fetched_at: when its answer, or the data on this machine, was fetched; Unix seconds.
        unsure: fields of which it may know more, or something else, than it could find out this time.
        about: what exactly it was asked about, where the query may mean several things.
        failure: how it failed, where an earlier answer replaces its own.
        doubts: the unsure fields for which it reports a reason, or who contradicts whom.
        server: which of its servers failed or is over its limit, for a source with one server per registry.
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
        """Return whether the source was asked and did not answer."""
        return self.status in FAILURES

    @property
    def silent(self) -> bool:
        """Return whether the source should have answered the query and did not do so now."""
        return self.status in FAILURES or self.stale or self.detail == NO_DATA

    @property
    def failures(self) -> dict[str, str]:
        """The fields that it could not find out because a part of the request failed, with the reason."""
        return {path: doubt.why for path, doubt in self.doubts.items() if doubt.why}

    def rename_fields(self, source: Source) -> SourceResult:
        """Return the outcome with its fields named as in the kind that uses `source`."""
        if not source.places:
            return self
        fields = {source.places.get(path, path): value for path, value in self.fields.items()}
        doubts = {source.places.get(path, path): doubt for path, doubt in self.doubts.items()}
        unsure = frozenset(source.places.get(path, path) for path in self.unsure)
        return self._replace(fields=fields, unsure=unsure, doubts=doubts)

    def report(self, source: Source) -> dict[str, Any]:
        """Return the outcome as `models.lookups.lookups.ProviderReport`, without inapplicable members."""
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


def outcome_of(report: Mapping[str, Any]) -> SourceResult:
    """Rebuild the outcome of a source from its `report`: its status and failure, without its fields."""
    detail = report.get("detail")
    detail = next((word for word, said in _SAID.items() if said == detail), detail)
    return SourceResult(
        report["status"], retry_after=report.get("retry_after"), detail=detail, server=report.get("server")
    )


SourceResults = Sequence[tuple[Source, SourceResult]]
"""Every source of a kind in the order of precedence, with its fields named as in this kind."""


def is_heard(source: Source, outcome: SourceResult) -> bool:
    """Return whether the source has reported what it knows of the query, even if that is nothing.

    An empty answer does not count from a source that holds another sort of data than the rest, and no answer
    counts from one that only helps to judge.
    """
    spec = source.spec
    return outcome.status in ANSWERS and spec.suffices and bool(outcome.fields or spec.proves_absence)


def is_suppressed(outcomes: SourceResults) -> bool:
    """Return whether the person is suppressed: nothing may be looked up or stored about them."""
    return all(outcome.detail == SUPPRESSED for _, outcome in outcomes)


def all_kept(outcomes: SourceResults) -> bool:
    """Return whether every network source to be asked was answered from the cache."""
    if not any(outcome.status == "cached" for _, outcome in outcomes):
        return False
    statuses = {outcome.status for source, outcome in outcomes if isinstance(source, RemoteSource)}
    return statuses <= {"cached", "skipped"}


@dataclass(frozen=True)
class LookupResult:
    """The combined answer of all sources to a query.

    Attributes:
        kind: the kind of lookup.
        query: in its normalised form.
        echo: the field of `data` that repeats the query.
        data: the fields of the kind's answer, nested; null where no source knows a value.
        credits: its price, by what was delivered.
        cached: whether every network source that had to be asked was answered from the cache.
        partial: whether some source failed, or lacks its data.
        outcomes: the outcome of each source.
        sources: path → the sources that its value is from.
        conflicts: path → source → value, where sources differ.
        block: the number of this block of results, for a kind that charges by blocks.
    """

    kind: str
    query: str
    echo: str
    data: dict[str, Any]
    credits: int
    cached: bool
    partial: bool
    outcomes: SourceResults
    sources: dict[str, list[str]]
    conflicts: dict[str, dict[str, Any]]
    block: int = 0

    @property
    def heard(self) -> bool:
        """Return whether any source answered. If none did, there is no answer and no charge."""
        return any(is_heard(source, outcome) for source, outcome in self.outcomes)

    def value(self, path: str) -> Any:
        """Return the value of a dotted field; None if it is unknown or an empty list."""
        value: Any = self.data
        for name in path.split("."):
            value = value.get(name) if value else None
        return value if value != [] else None

    def reports(self, shown: Shown = "all") -> list[dict[str, Any]]:
        """Return the outcomes of the sources, each as `models.lookups.lookups.ProviderReport`."""
        if shown == "failed" and not self.partial:
            return []
        chosen = _SHOWN[shown]
        return [outcome.report(source) for source, outcome in self.outcomes if chosen(outcome)]

    def to_answer(self, fields: Collection[str] | None = None) -> dict[str, Any]:
        """Return the query and the known values of these dotted fields and blocks; None for all."""
        if fields is None:
            return self.data
        return {self.echo: self.data[self.echo], **_prune_data(self.data, fields)}

    def answer(self, *, shown: Shown = "asked", fields: Collection[str] | None = None) -> dict[str, Any]:
        """Return the answer in the form of the API.

        Args:
            shown: which sources are listed: those asked, all, or only those that failed.
            fields: the only dotted fields and blocks to include; None for all.
        """
        sources, conflicts = self.sources, self.conflicts
        if fields is not None:
            sources = {path: names for path, names in sources.items() if is_within(path, fields)}
            conflicts = {path: values for path, values in conflicts.items() if is_within(path, fields)}
        return {
            **self.to_answer(fields),
            "credits": self.credits,
            "cached": self.cached,
            "partial": self.partial,
            "providers": self.reports(shown),
            "sources": sources,
            "conflicts": conflicts,
        }


_SHOWN: dict[Shown, Callable[[SourceResult], bool]] = {
    "asked": lambda outcome: outcome.status != "skipped" or outcome.silent,
    "all": lambda outcome: True,
    "failed": lambda outcome: outcome.silent,
}


def _prune_data(data: Mapping[str, Any], fields: Collection[str]) -> dict[str, Any]:
    """Return the members of `data` that `fields` name, in the order of `data`."""
    inner: dict[str, list[str]] = {}
    for path in fields:
        name, _, rest = path.partition(".")
        inner.setdefault(name, []).append(rest)
    return {
        name: value if "" in inner[name] or value is None else _prune_data(value, inner[name])
        for name, value in data.items()
        if name in inner
    }


def is_within(path: str, fields: Collection[str]) -> bool:
    """Return whether `path` is one of `fields`, or lies in a block that they name."""
    return path in fields or any(path[:end] in fields for end, sign in enumerate(path) if sign == ".")


@lru_cache(4096)
def _utc(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
