"""The network and country of an IP address, from the data on this machine alone."""

from __future__ import annotations

from models.errors import Invalid
from providers.lookup.local import LocalSources
from providers.sources.aggregate import merge
from providers.sources.kind import Kind

_WANTED = frozenset({"asn.asn", "location.country_code"})


def network_of(kind: Kind, local: LocalSources, address: str) -> str:
    """Return the network and country of an address: `AS15169 US`, without the country if it is unknown.

    Args:
        kind: `ip`.
        local: the sources on this machine.
        address: in any form. Text that is no address, or is in no known network, is returned unchanged.
    """
    try:
        query = kind.normalise(address, "")
    except Invalid:
        return address
    [outcomes] = local.ask(local.plan(kind.name, _WANTED), [query])
    answers = [(source.spec.name, outcome.fields) for source, outcome in outcomes if outcome.fields]
    found = merge(answers, kind.rules, kind.together).fields
    if found.get("asn.asn") is None:
        return address
    return f"AS{found['asn.asn']} {found.get('location.country_code') or ''}".rstrip()
