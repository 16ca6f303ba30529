"""The check that a domain can receive mail: its MX records, or else its address (RFC 5321, 5.1).

A null MX (RFC 7505) means that it accepts none. So does an MX that leads to `localhost`, to another name that
no other machine can reach, or to an address in place of a name. Asked of the system's name servers, or of the
one in `VEDETTE_PROVIDER_MX_BASE_URL` (`dns://192.0.2.1:53`). Only the domain is sent.
"""

from __future__ import annotations

from datetime import date
from typing import Literal

import dns.name
from dns.rdtypes.ANY.MX import MX

from providers.sources.base import Context, Evidence, Fields, Query, RemoteSource, RemoteSpec
from providers.sources.nameservers import own_resolvers, records

Found = Literal["mx", "address", "null_mx", "unreachable_mx", "nothing", "no_domain"]
# Names that lead only to the asking machine (RFC 6761), or into its own network.
_NOWHERE = frozenset({"localhost", "localdomain", "invalid", "local", "test", "example", "onion"})


async def fetch(query: Query, context: Context) -> Found:
    """Fetch the domain's MX records, or if it has none its addresses.

    Raises:
        SourceError: `timeout` or `error`, if no name server answered.
    """
    asked, domain = own_resolvers(context.base_url), query.value.domain
    exchanges = await records(asked, domain, "MX", context.timeout)
    if exchanges:
        names = [record.exchange for record in exchanges if isinstance(record, MX)]
        if all(name == dns.name.root for name in names):
            return "null_mx"
        return "mx" if any(map(_is_reachable, names)) else "unreachable_mx"
    if exchanges is None:
        return "no_domain"
    for kind in ("A", "AAAA"):
        if await records(asked, domain, kind, context.timeout):
            return "address"
    return "nothing"


def _is_reachable(exchange: dns.name.Name) -> bool:
    """Return whether it is the name of a machine that others can reach."""
    last = exchange.to_text(omit_final_dot=True).lower().rpartition(".")[2]
    return bool(last) and last not in _NOWHERE and not last.isdecimal()


def parse(found: Found) -> Fields:
    """Return whether mail can be delivered, and whether the domain exists."""
    return {"mx_found": found in ("mx", "address"), "checks.domain": found != "no_domain"}


SOURCE = RemoteSource(
    RemoteSpec(
        name="mx",
        kind="email",
        fields=frozenset({"mx_found", "checks.domain"}),
        licence="none: DNS is public",
        commercial="yes",
        attribution="the domain's owner, through DNS",
        evidence=Evidence("https://www.rfc-editor.org/rfc/rfc5321#section-5.1", date(2026, 11, 22)),
        personal=True,
        timeout=2,
        ttl=3600,
        negative_ttl=3600,
        parser_version=2,
        # A name server answers as fast as Postgres, and caches answers itself.
        shared=False,
    ),
    fetch,
    parse,
)
