"""The exits of the Tor network, as its own project measures them. IPv4 addresses only."""

from __future__ import annotations

from datetime import date

from providers.datasets.lists import Lists, lines, merge_networks
from providers.ip import listed
from providers.sources.base import Evidence, Spec

_ON_IT = {"security.is_tor": True, "threat.is_tor": True}


def tables(files: dict[str, bytes]) -> listed.Tables:
    """Read the list: an address a line."""
    return {"exits": merge_networks(lines(files["exits"]), "exit", fewest=100)}


DATASET = listed.dataset(
    "tor",
    Lists("torproject.org", "tor", {"exits": "https://check.torproject.org/torbulkexitlist"}, "CC0 1.0"),
    tables,
)
SOURCE = listed.source(
    Spec(
        name="tor",
        kind="ip",
        fields=frozenset(_ON_IT),
        licence="CC0 1.0",
        commercial="yes",
        terms="https://gitlab.torproject.org/tpo/tpa/wiki-replica/-/commit/4841b7e7a05971d62c959dd326bbbe96ae61a261",
        attribution="The Tor Project, https://www.torproject.org",
        evidence=Evidence(
            "https://gitlab.torproject.org/tpo/tpa/wiki-replica/-/commit/4841b7e7a05971d62c959dd326bbbe96ae61a261",
            date(2026, 11, 22),
        ),
        dataset=DATASET.name,
    ),
    {"exits": lambda _: dict(_ON_IT)},
)
