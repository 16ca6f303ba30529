"""The syntax check. Text that is no e-mail address needs no further check."""

from __future__ import annotations

from datetime import date

from providers.datasets.installed import Datasets
from providers.sources.base import Evidence, Fields, LocalSource, Query, SourceError, Spec


def find(query: Query, datasets: Datasets) -> Fields:
    """Report text that is no address as such.

    Raises:
        SourceError: `skipped`, for an address.
    """
    if query.value is not None:
        raise SourceError("skipped", "well_formed")
    return {"checks.syntax": False}


SOURCE = LocalSource(
    Spec(
        name="syntax",
        kind="validate",
        fields=frozenset({"checks.syntax"}),
        licence="public domain",
        commercial="yes",
        attribution="RFC 5321 and 5322, by email-validator",
        evidence=Evidence("https://github.com/JoshData/python-email-validator", date(2026, 11, 22)),
        exclusive=True,
    ),
    find,
)
