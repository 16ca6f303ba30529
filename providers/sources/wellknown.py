"""Names and addresses of services that everybody uses: `wellknown.csv`, which says what is in it."""

from __future__ import annotations

from functools import cache
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple

from outbound.guard import Address


class WellKnown(NamedTuple):
    """What the table has.

    Attributes:
        addresses: address → whether it is an anycast address.
        domains: names, without `www.`.
    """

    addresses: dict[Address, bool]
    domains: frozenset[str]


@cache
def table() -> WellKnown:
    """Read the table, when it is first needed."""
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
