"""Private, reserved and other special addresses: the standards define their use, so no source is asked.

The ranges are those of IANA's special-purpose registries (RFC 6890 and its updates) that are not "globally
reachable". This is also a guard: such an address never leaves the machine, where it would reveal the inside
of a network to a third party.
"""

from __future__ import annotations

from datetime import date
from ipaddress import ip_network

from outbound.guard import Address, forbidden_address
from providers.datasets.installed import Datasets
from providers.sources.base import Evidence, Fields, LocalSource, Query, SourceError, Spec

# Parts of special ranges that are globally reachable all the same: anycast addresses of the Port Control
# Protocol, TURN and DNS-SD, AMT, AS112, ORCHIDv2 and drones.
_GLOBAL = tuple(
    ip_network(network)
    for network in (
        "192.0.0.9/32 192.0.0.10/32 2001:1::1/128 2001:1::2/128 2001:1::3/128 2001:3::/32 2001:4:112::/48"
        " 2001:20::/28 2001:30::/28"
    ).split()
)
# The first bytes of special IPv4 addresses. No IPv6 range is special whose first two bytes lie between the
# two values below.
_FIRST_BYTES = frozenset({0, 10, 100, 127, 169, 172, 192, 198, 203, *range(224, 256)})
_LEAST_PLAIN, _GREATEST_PLAIN = b"\x20\x03", b"\x3f\xfe"


def find(query: Query, datasets: Datasets) -> Fields:
    """Report a special address as reserved.

    Raises:
        SourceError: `skipped`, for a public address.
    """
    address: Address = query.value
    if _is_plainly_public(address.packed) or not is_special(address):
        raise SourceError("skipped", "public_address")
    return {"threat.usage_type": "Reserved"}


def is_special(address: Address) -> bool:
    """Return whether IANA's registries list the address as not globally reachable."""
    return forbidden_address(address) and not any(address in network for network in _GLOBAL)


def _is_plainly_public(packed: bytes) -> bool:
    """Return whether no special range is near the address. This is a quick test for most public ones."""
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
