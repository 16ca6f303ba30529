"""Can the domain receive mail? Its MX records, or for want of them its address (RFC 5321, 5.1).

A null MX (RFC 7505) says that it takes none. Asked of the system's name servers, or of the one in
`VEDETTE_PROVIDER_MX_BASE_URL` (`dns://192.0.2.1:53`). Only the domain is sent.
"""

from __future__ import annotations

from datetime import date
from typing import Literal

import dns.name
from dns.rdtypes.ANY.MX import MX

from providers.base import Context, Evidence, Fields, Query, RemoteSource, RemoteSpec
from providers.nameservers import own_resolvers, records

Found = Literal["mx", "address", "null_mx", "nothing"]


async def fetch(query: Query, context: Context) -> Found:
    """Ask for the domain's MX records, and if it has none for its addresses.

    Raises:
        SourceError: `timeout` or `error`, if no name server answered.
    """
    asked, domain = own_resolvers(context.base_url), query.value.domain
    exchanges = await records(asked, domain, "MX", context.timeout)
    if exchanges:
        null = all(isinstance(record, MX) and record.exchange == dns.name.root for record in exchanges)
        return "null_mx" if null else "mx"
    if exchanges is not None:  # there is such a name
        for kind in ("A", "AAAA"):
            if await records(asked, domain, kind, context.timeout):
                return "address"
    return "nothing"


def parse(found: Found) -> Fields:
    """Whether mail can be delivered."""
    return {"mx_found": found in ("mx", "address")}


SOURCE = RemoteSource(
    RemoteSpec(
        name="mx",
        kind="email",
        fields=frozenset({"mx_found"}),
        licence="none: DNS is public",
        attribution="the domain's owner, through DNS",
        evidence=Evidence("https://www.rfc-editor.org/rfc/rfc5321#section-5.1", date(2026, 11, 22)),
        personal=True,
        timeout=2,
        ttl=3600,
        negative_ttl=3600,
        # A name server answers as fast as Postgres, and keeps answers itself.
        shared=False,
    ),
    fetch,
    parse,
)
