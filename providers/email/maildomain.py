"""The company's domain: that of the address, unless everybody can have one there, or may be able to."""

from __future__ import annotations

from providers.base import Fields, LocalSource, Query, Spec
from providers.email.disposable import is_disposable
from providers.email.freemail import is_shared
from providers.installed import Datasets


def find(query: Query, datasets: Datasets) -> Fields:
    """Tell whose domain it is."""
    shared = is_shared(query.value) or is_disposable(query.value)
    return {} if shared else {"company_domain": query.value.domain}


SOURCE = LocalSource(
    Spec(
        name="maildomain",
        kind="email",
        fields=frozenset({"company_domain"}),
        licence="part of vedette",
        attribution="vedette",
    ),
    find,
)
