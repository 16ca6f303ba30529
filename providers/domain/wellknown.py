"""Well-known names, of widely used services, from a table on this machine."""

from __future__ import annotations

from datetime import date

from models.domains import Domain
from providers.datasets.installed import Datasets
from providers.sources.base import Evidence, Fields, LocalSource, Query, Spec
from providers.sources.wellknown import table


def find(query: Query, datasets: Datasets) -> Fields:
    """Look the name up. Names below it may belong to others, and a missing name may still be well known."""
    domain: Domain = query.value
    known = domain.name.removeprefix("www.") in table().domains
    return {"threat.is_known_service": True} if known else {}


SOURCE = LocalSource(
    Spec(
        name="wellknowndomain",
        kind="domain",
        fields=frozenset({"threat.is_known_service"}),
        licence="part of vedette",
        commercial="yes",
        attribution="vedette",
        evidence=Evidence("https://www.iana.org/domains/root/servers", date(2026, 11, 24)),
        proves_absence=False,
        suffices=False,
    ),
    find,
)
