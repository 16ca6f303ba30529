"""The exits of Apple's iCloud Private Relay, as Apple publishes them for site operators."""

from __future__ import annotations

from datetime import date

from providers.datasets.lists import Lists, lines, merge_networks
from providers.ip import listed
from providers.sources.base import Evidence, Spec


def tables(files: dict[str, bytes]) -> listed.Tables:
    """Read the list: network, country, region and city a line."""
    networks = (line.partition(",")[0] for line in lines(files["egress"]))
    return {"egress": merge_networks(networks, "relay", fewest=100)}


DATASET = listed.dataset(
    "applerelay",
    Lists(
        "Apple",
        "applerelay",
        {"egress": "https://mask-api.icloud.com/egress-ip-ranges.csv"},
        "published by Apple for use by network operators",
    ),
    tables,
)
SOURCE = listed.source(
    Spec(
        name="applerelay",
        kind="ip",
        fields=frozenset({"security.is_relay"}),
        licence="published by Apple for use by network operators",
        terms="https://www.apple.com/legal/internet-services/terms/site.html",
        attribution="Apple iCloud Private Relay, https://developer.apple.com/icloud/prepare-your-network-for-icloud-private-relay",
        evidence=Evidence(
            "https://developer.apple.com/support/prepare-your-network-for-icloud-private-relay/",
            date(2026, 11, 22),
        ),
        dataset=DATASET.name,
    ),
    {"egress": lambda _: {"security.is_relay": True}},
)
