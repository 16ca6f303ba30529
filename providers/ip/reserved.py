"""Private, reserved and other special addresses: what they are for is in the standards; nobody is asked.

The ranges are those of IANA's special-purpose registries (RFC 6890 and its updates). That such an address
never leaves the machine is also a guard: it would tell a third party about the inside of a network.
"""

from __future__ import annotations

from datetime import date

from outbound.guard import Address, forbidden_address
from providers.base import Evidence, Fields, LocalSource, Query, SourceError, Spec
from providers.installed import Datasets

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
    if _is_plainly_public(address.packed) or not forbidden_address(address):
        raise SourceError("skipped", "public_address")
    return {"threat.usage_type": "Reserved"}


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
        attribution="IANA special-purpose address registries, https://www.iana.org/numbers",
        evidence=Evidence("https://www.rfc-editor.org/rfc/rfc6890", date(2026, 11, 22)),
        exclusive=True,
    ),
    find,
)
