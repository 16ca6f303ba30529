"""The network that announces an address: a table of ranges on this machine.

The publisher's table is IPtoASN's; the package of ip-location-db merges RouteViews, the registries and DB-IP.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from pathlib import Path

from providers.datasets.installed import Datasets
from providers.datasets.ranges import RangeTable
from providers.sources.base import Evidence, Fields, LocalSource, Query, SourceError, Spec

DATASET = "asn"


def open_table(files: Mapping[str, Path]) -> RangeTable:
    """Open the table; its labels are a number, a space and a name."""
    return RangeTable(files["table"])


def find(query: Query, datasets: Datasets) -> Fields:
    """Look the address up.

    Raises:
        SourceError: `skipped`, while there is no data.
    """
    table = datasets.get(DATASET, open_table)
    if table is None:
        raise SourceError("skipped", "no_data")
    label = table.find(query.value.packed)
    return parse(label) if label else {}


def parse(label: str) -> Fields:
    """Read a label of the table."""
    number, _, name = label.partition(" ")
    return {"asn.asn": int(number), "asn.name": name}


SOURCE = LocalSource(
    Spec(
        name="asn",
        kind="ip",
        fields=frozenset({"asn.asn", "asn.name"}),
        licence="PDDL 1.0 (IPtoASN) or CC BY 4.0 (RouteViews, NRO, DB-IP)",
        commercial="yes",
        terms="https://iptoasn.com",
        attribution="IPtoASN, https://iptoasn.com; or RouteViews, NRO and IP to ASN by DB-IP, "
        "https://www.routeviews.org, https://www.nro.net, https://db-ip.com",
        evidence=Evidence("https://github.com/sapics/ip-location-db/tree/main/asn", date(2026, 11, 22)),
        dataset=DATASET,
    ),
    find,
)
