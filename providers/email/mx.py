"""Can the domain receive mail? Its MX records, or for want of them its address (RFC 5321, 5.1).

A null MX (RFC 7505) says that it takes none. Asked of the system's name servers, or of the one in
`VEDETTE_PROVIDER_MX_BASE_URL` (`dns://192.0.2.1:53`). Only the domain is sent.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal
from urllib.parse import urlsplit

import dns.asyncresolver
import dns.exception
import dns.name
import dns.resolver
from dns.rdtypes.ANY.MX import MX

from providers.base import Context, Fields, Query, RemoteSource, RemoteSpec, SourceError

Found = Literal["mx", "address", "null_mx", "nothing"]


async def fetch(query: Query, context: Context) -> Found:
    """Ask for the domain's MX records, and if it has none for its addresses.

    Raises:
        SourceError: `timeout` or `error`, if no name server answered.
    """
    resolver, name = _resolver(context.base_url), dns.name.from_text(query.value.domain)
    try:
        exchanges = await _records(resolver, name, "MX", context.timeout)
        if exchanges:
            null = all(isinstance(record, MX) and record.exchange == dns.name.root for record in exchanges)
            return "null_mx" if null else "mx"
        for kind in ("A", "AAAA"):
            if await _records(resolver, name, kind, context.timeout):
                return "address"
    except dns.resolver.NXDOMAIN:
        return "nothing"
    except dns.exception.Timeout:
        raise SourceError("timeout", "dns_timeout") from None
    except dns.exception.DNSException:
        raise SourceError("error", "dns_failed") from None
    return "nothing"


async def _records(
    resolver: dns.asyncresolver.Resolver, name: dns.name.Name, kind: str, timeout: float
) -> list[object]:
    try:
        return list(await resolver.resolve(name, kind, lifetime=timeout, search=False))
    except dns.resolver.NoAnswer:
        return []


def parse(found: Found) -> Fields:
    """Whether mail can be delivered."""
    return {"mx_found": found in ("mx", "address")}


@lru_cache(maxsize=8)
def _resolver(base_url: str) -> dns.asyncresolver.Resolver:
    if not base_url:
        try:
            return dns.asyncresolver.Resolver()
        except dns.resolver.NoResolverConfiguration:
            raise SourceError("error", "no_name_server") from None
    server = urlsplit(base_url)
    resolver = dns.asyncresolver.Resolver(configure=False)
    resolver.nameservers = [server.hostname or ""]
    resolver.port = server.port or 53
    return resolver


SOURCE = RemoteSource(
    RemoteSpec(
        name="mx",
        kind="email",
        fields=frozenset({"mx_found"}),
        licence="none: DNS is public",
        attribution="the domain's owner, through DNS",
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
