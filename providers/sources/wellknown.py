"""Names and addresses of widely used services, from `wellknown.csv`, which describes its columns."""

from __future__ import annotations

from functools import cache
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple

from outbound.guard import Address


class WellKnown(NamedTuple):
    """The contents of the table.

    Attributes:
        addresses: address → whether it is an anycast address.
        domains: names, without `www.`.
    """

    addresses: dict[Address, bool]
    domains: frozenset[str]


@cache
def table() -> WellKnown:
    """Read the table on first use."""
    addresses: dict[Address, bool] = {}
    domains: set[str] = set()
    for line in Path(__file__).with_suffix(".csv").read_text("utf-8").splitlines():
        if line.startswith("#"):
            continue
        target, _, sort = line.split(",")
        try:
            addresses[ip_address(target)] = sort == "anycast"
        except ValueError:
            domains.add(target)
    return WellKnown(addresses, frozenset(domains))
