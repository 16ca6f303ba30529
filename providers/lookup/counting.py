"""Counts what became of each source in the lookups of an account, for its statistics."""

from __future__ import annotations

from uuid import UUID

import metrics
from models.errors import DomainError
from models.lookups.lookups import AllProvidersFailed
from providers.lookup.result import LookupResult


def count_sources(account_id: UUID, looked: LookupResult | DomainError) -> None:
    """Count the sources of a lookup by their statuses, except those that were not asked."""
    if isinstance(looked, LookupResult):
        ended = [(source.spec.name, outcome.status) for source, outcome in looked.outcomes]
    elif isinstance(looked, AllProvidersFailed):
        ended = [(report["name"], report["status"]) for report in looked.details["providers"]]
    else:
        ended = []
    for source, status in ended:
        if status != "skipped":
            metrics.count_for(account_id, "lookups", source, status)
