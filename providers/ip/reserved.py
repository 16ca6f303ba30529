"""Private, reserved and other special addresses: what they are for is in the standards; nobody is asked.

The ranges are those of IANA's special-purpose registries (RFC 6890 and its updates) that are not "globally
reachable". That such an address never leaves the machine is also a guard: it would tell a third party about
the inside of a network.
"""

from __future__ import annotations

from datetime import date
from ipaddress import ip_network

from outbound.guard import Address, forbidden_address
from providers.datasets.installed import Datasets
from providers.sources.base import Evidence, Fields, LocalSource, Query, SourceError, Spec

# What lies within special ranges, and is reached from everywhere all the same: anycast addresses of the Port
# Control Protocol, TURN and DNS-SD, AMT, AS112, ORCHIDv2 and drones.
_GLOBAL = tuple(
    ip_network(network)
    for network in (
        "192.0.0.9/32 192.0.0.10/32 2001:1::1/128 2001:1::2/128 2001:1::3/128 2001:3::/32 2001:4:112::/48"
        " 2001:20::/28 2001:30::/28"
    ).split()
)
# The first bytes of IPv4 addresses that special ranges have. No IPv6 range whose first two bytes are from
# the one to the other below is special.
_FIRST_BYTES = frozenset({0, 10, 100, 127, 169, 172, 192, 198, 203, *range(224, 256)})
_LEAST_PLAIN, _GREATEST_PLAIN = b"\x20\x03", b"\x3f\xfe"


def find(query: Query, datasets: Datasets) -> Fields:
    """Say of a special address that it is reserved.

    Raises:
        SourceError: `skipped`, for a public address.
    """
    address: Address = query.value
    if _is_plainly_public(address.packed) or not is_special(address):
        raise SourceError("skipped", "public_address")
    return {"threat.usage_type": "Reserved"}


def is_special(address: Address) -> bool:
    """Whether IANA's registries say that the address is not reached from everywhere."""
    return forbidden_address(address) and not any(address in network for network in _GLOBAL)


def _is_plainly_public(packed: bytes) -> bool:
    """Whether no special range is anywhere near the address: said of most that are public, and quickly."""
    if len(packed) == 4:
        return packed[0] not in _FIRST_BYTES
    return _LEAST_PLAIN <= packed[:2] <= _GREATEST_PLAIN


SOURCE = LocalSource(
    Spec(
        name="reserved",
        kind="ip",
        fields=frozenset({"threat.usage_type"}),
        licence="public domain",
        commercial="yes",
        terms="https://www.iana.org/help/licensing-terms",
        attribution="IANA special-purpose address registries, https://www.iana.org/numbers",
        evidence=Evidence("https://www.rfc-editor.org/rfc/rfc6890", date(2026, 11, 22)),
        exclusive=True,
        parser_version=2,
    ),
    find,
)
