"""The host of a domain: the data on this machine about its first IPv4 address.

The name servers are the machine's and then a public resolver's, or those in
`VEDETTE_PROVIDER_HOSTING_BASE_URL` (`dns://192.0.2.1:53`).
"""

from __future__ import annotations

from datetime import date
from typing import Any

from models.domains import Domain
from outbound.guard import Address
from providers.datasets.installed import Datasets
from providers.ip.kind import KIND as IP
from providers.sources.aggregate import merge
from providers.sources.base import (
    Context,
    Evidence,
    Fields,
    LocalSource,
    Query,
    RemoteSource,
    RemoteSpec,
    SourceError,
    Unsure,
)
from providers.sources.nameservers import addresses, resolvers

_PLACES = {
    "asn.asn": "hosting.asn",
    "asn.name": "hosting.asn_name",
    "company.name": "hosting.company",
    "location.country_code": "hosting.country_code",
}
_HERE = tuple(one for one in IP.sources if isinstance(one, LocalSource) and one.spec.enabled)


async def fetch(query: Query, context: Context) -> dict[str, Any] | None:
    """Find the address and the data about it; None if the name has none.

    Raises:
        SourceError: `timeout` or `error`, if no name server answers.
    """
    domain: Domain = query.value
    found = await addresses(resolvers(context.base_url), domain.name, context.timeout * 0.9)
    if not found:
        return None
    known = look_up(found[0], context.datasets, context.disabled) if context.datasets else {}
    return {"ip": str(found[0]), "known": known}


def look_up(address: Address, datasets: Datasets, disabled: frozenset[str]) -> Fields:
    """Return the fields of an address from the local sources that are not `disabled`, named as in `ip`.

    Fields of disabled sources, and of sources without data, are unsure.
    """
    query = Query("ip", str(address), address)
    answers: list[tuple[str, Fields]] = []
    unsure: set[str] = set()
    for source in _HERE:
        try:
            if source.spec.name in disabled:
                raise SourceError("skipped", "disabled")
            answers.append((source.spec.name, source.find(query, datasets)))
        except SourceError:
            unsure |= source.spec.fields
    given = [(name, {path: value for path, value in fields.items() if value}) for name, fields in answers]
    found = merge(given, IP.rules).fields
    return found | {path: Unsure(found.get(path)) for path in unsure}


def parse(raw: dict[str, Any] | None) -> Fields:
    """Return the fields of the hosting block."""
    if raw is None:
        return {}
    return {"hosting.ip": raw["ip"]} | {place: raw["known"].get(path) for path, place in _PLACES.items()}


SOURCE = RemoteSource(
    RemoteSpec(
        name="hosting",
        kind="domain",
        fields=frozenset({"hosting.ip", *_PLACES.values()}),
        licence="that of the IP data on this machine",
        commercial="yes",
        attribution="DNS; and the data on this machine, as under the kind ip",
        evidence=Evidence("https://www.rfc-editor.org/rfc/rfc1035", date(2026, 11, 22)),
        timeout=4,
        ttl=600,
        negative_ttl=300,
        parser_version=2,
        shared=False,
        # One source here fills each field, and its licence may require attribution.
        credited={
            place: one.spec.name
            for path, place in _PLACES.items()
            for one in _HERE
            if path in one.spec.fields
        },
    ),
    fetch,
    parse,
)
