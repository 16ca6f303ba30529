"""The status of a source: whether it can be asked, and how well it has worked lately."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from models.lookups.lookups import ProviderEvidence, ProviderRow, QuotaWindow, State
from models.lookups.source_quotas import WindowUse
from providers.datasets.installed import Installed
from providers.sources.base import RemoteSource, RemoteSpec, Source, Spec
from providers.sources.kind import Kind
from settings import Rate, Settings

BULK_USE = "bulk_use"
"""Detail of a source that a commercial service leaves out of jobs and monitors."""
NO_KEY = "no_key"
"""Detail of a source that needs a key and has none."""

OFF = frozenset({"disabled", "commercial", NO_KEY, "no_base_url", "local_only", BULK_USE})
"""Reasons for which the settings may disable a source."""


def switched_off(source: Source, settings: Settings) -> str | None:
    """Return why the settings disable a source, one of `OFF`, or None.

    A commercial service asks a source whose terms forbid commercial use only if its operator has enabled it,
    because the operator may have other terms.
    """
    chosen = settings.provider(source.spec.name)
    enabled = source.spec.enabled if chosen.enabled is None else chosen.enabled
    if not enabled:
        return "disabled"
    if settings.commercial and source.spec.commercial == "no" and chosen.enabled is None:
        return "commercial"
    if isinstance(source, RemoteSource):
        if source.spec.key == "required" and source.spec.secret(settings) is None:
            return NO_KEY
        if source.spec.own and chosen.base_url is None:
            return "no_base_url"
        if settings.local_only:
            return "local_only"
    return None


def is_left_out(source: Source, settings: Settings) -> bool:
    """Return whether jobs and monitors leave the source out: in a commercial service, if its terms say so."""
    chosen = settings.provider(source.spec.name)
    return settings.commercial and not source.spec.bulk and chosen.enabled is None


def name_unknown(kinds: Mapping[str, Kind], settings: Settings) -> list[str]:
    """Return the names of the sources that a commercial service asks although their terms are unclear."""
    if not settings.commercial:
        return []
    sources = {source.spec.name: source for kind in kinds.values() for source in kind.sources}
    return [
        name
        for name, source in sources.items()
        if source.spec.commercial == "unknown" and switched_off(source, settings) is None
    ]


@dataclass(frozen=True, slots=True)
class SourceState:
    """The state of a source in this installation.

    Attributes:
        off: why the settings disable it, if they do.
        installed: its data on this machine, if there is any.
        known: its statistics from Postgres: `last_success`, `error_rate` and `limited_rate`.
        cooling_down: whether it has failed so often that it is not asked for now.
        quota: how often it may be asked, and how much of that is left.
        address: the operator's address, if it replaces the vendor's.
    """

    off: str | None
    installed: Installed | None
    known: Mapping[str, Any]
    cooling_down: bool
    quota: Sequence[QuotaWindow] = ()
    address: str | None = None


def build_row(source: Source, found: SourceState) -> ProviderRow:
    """Return the row of a source in the list of all sources."""
    spec, installed, known = source.spec, found.installed, found.known
    by_way_of = installed.mirror if installed else found.address
    state: State = "ready"
    if found.off is not None:
        state = "no_key" if found.off == NO_KEY else "disabled"
    elif spec.dataset and installed is None:
        state = "no_data"
    elif found.cooling_down:
        state = "cooling_down"
    return ProviderRow(
        name=spec.name,
        kind=spec.kind,
        state=state,
        reason=found.off,
        fields=sorted(spec.fields),
        licence=installed.licence if installed else spec.licence,
        commercial=spec.commercial,
        terms=spec.terms,
        bulk=spec.bulk,
        attribution=spec.attribution + (f"; by way of {by_way_of}" if by_way_of else ""),
        address=by_way_of,
        evidence=_evidence(spec),
        quota=list(found.quota) or None,
        dataset_age=_age(installed) if installed else None,
        dataset_version=installed.version if installed else None,
        last_success=known.get("last_success"),
        error_rate=known.get("error_rate"),
        limited_rate=known.get("limited_rate"),
    )


def quota_of(
    spec: RemoteSpec, settings: Settings, use: Mapping[tuple[str, int], WindowUse]
) -> list[QuotaWindow]:
    """Return the rate windows of a source; `use` holds how much of each window of each bucket is used."""
    servers = [spec]
    if spec.per_server:
        names = sorted({bucket.partition("/")[2] for bucket, _ in use if bucket.startswith(f"{spec.name}/")})
        servers = [replace(spec, server=name) for name in names] or servers
    return [
        _window(one, rate, use.get((one.bucket, rate.seconds), WindowUse(0, None)))
        for one in servers
        for rate in one.get_rates(settings)
    ]


def _window(spec: RemoteSpec, rate: Rate, found: WindowUse) -> QuotaWindow:
    return QuotaWindow(
        server=spec.server or None,
        limit=rate.requests,
        seconds=rate.seconds,
        used=found.used,
        left=max(0, rate.requests - found.used),
        resets_at=found.resets_at,
    )


def _evidence(spec: Spec) -> ProviderEvidence:
    found = spec.evidence
    assert found is not None, "every registered source says where one reads about it"
    grade = "second_hand" if found.second_hand else "verified"
    return ProviderEvidence(url=found.url, grade=grade, date=found.read)


def _age(installed: Installed) -> int:
    return round((datetime.now(UTC) - installed.dated).total_seconds())
