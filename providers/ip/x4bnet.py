"""Networks of VPN services and of data centres, as the project lists_vpn collects them."""

from __future__ import annotations

from datetime import date

from providers.datasets.lists import Lists, lines, merge_networks
from providers.ip import listed
from providers.sources.base import Evidence, Spec

_FOLDER = "https://raw.githubusercontent.com/X4BNet/lists_vpn/main/output"
_ROLES = ("vpn", "datacenter")


def tables(files: dict[str, bytes]) -> listed.Tables:
    """Read the lists: a network a line, a file for each IP version."""
    return {
        role: merge_networks(
            [line for version in "46" for line in lines(files[f"{role}-ipv{version}"])], role, fewest=100
        )
        for role in _ROLES
    }


DATASET = listed.dataset(
    "x4bnet",
    Lists(
        "X4BNet",
        "x4bnet",
        {f"{role}-ipv{version}": f"{_FOLDER}/{role}/ipv{version}.txt" for role in _ROLES for version in "46"},
        "MIT",
    ),
    tables,
)
SOURCE = listed.source(
    Spec(
        name="x4bnet",
        kind="ip",
        fields=frozenset({"security.is_vpn", "security.is_hosting"}),
        licence="MIT",
        commercial="yes",
        terms="https://github.com/X4BNet/lists_vpn/blob/main/LICENSE",
        attribution="X4BNet lists_vpn, https://github.com/X4BNet/lists_vpn",
        evidence=Evidence("https://github.com/X4BNet/lists_vpn/blob/main/README.md", date(2026, 11, 22)),
        dataset=DATASET.name,
    ),
    {
        "vpn": lambda _: {"security.is_vpn": True},
        "datacenter": lambda _: {"security.is_hosting": True},
    },
)
