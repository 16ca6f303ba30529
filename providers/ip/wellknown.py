"""Well-known addresses: public resolvers and the root servers of DNS, from a table on this machine."""

from __future__ import annotations

from datetime import date

from providers.datasets.installed import Datasets
from providers.sources.base import Evidence, Fields, LocalSource, Query, Spec
from providers.sources.wellknown import table


def find(query: Query, datasets: Datasets) -> Fields:
    """Look the address up. A missing address proves nothing."""
    anycast = table().addresses.get(query.value)
    if anycast is None:
        return {}
    return {"threat.is_known_service": True, "location.is_anycast": True if anycast else None}


SOURCE = LocalSource(
    Spec(
        name="wellknown",
        kind="ip",
        fields=frozenset({"threat.is_known_service", "location.is_anycast"}),
        licence="part of vedette",
        commercial="yes",
        attribution="vedette, by what operators publish, such as https://www.iana.org/domains/root/servers",
        evidence=Evidence("https://www.iana.org/domains/root/servers", date(2026, 11, 24)),
        proves_absence=False,
        suffices=False,
    ),
    find,
)
