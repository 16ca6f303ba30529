"""Disposable addresses: whether the domain, or one above it, provides throw-away addresses.

The list is the one of the `disposable-email-domains` package. It is read on first use.
"""

from __future__ import annotations

from datetime import date
from functools import cache

from providers.datasets.installed import Datasets
from providers.sources.base import Evidence, Fields, LocalSource, Query, Spec


def find(query: Query, datasets: Datasets) -> Fields:
    """Look the domain up. A missing domain proves nothing."""
    return {"is_disposable": True} if is_disposable(query.value.domain) else {}


def is_disposable(domain: str) -> bool:
    """Return whether the list has the domain, or one above it."""
    labels = domain.split(".")
    return any(".".join(labels[start:]) in _domains() for start in range(len(labels) - 1))


@cache
def _domains() -> frozenset[str]:
    from disposable_email_domains import blocklist

    return frozenset(blocklist)


SOURCE = LocalSource(
    Spec(
        name="disposable",
        kind="email",
        fields=frozenset({"is_disposable"}),
        licence="MIT",
        commercial="yes",
        terms="https://github.com/disposable-email-domains/disposable-email-domains",
        attribution="disposable-email-domains, https://github.com/disposable-email-domains",
        evidence=Evidence(
            "https://github.com/disposable-email-domains/disposable-email-domains",
            date(2026, 11, 22),
        ),
    ),
    find,
)
