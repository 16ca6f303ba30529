"""Reverse DNS: the name that the address's owner gave it.

Asked of the system's name servers, or of the one in `VEDETTE_PROVIDER_PTR_BASE_URL` (`dns://192.0.2.1:53`).
Half a second is all it gets: no answer may wait for a name server that is away.
"""

from __future__ import annotations

from functools import lru_cache
from urllib.parse import urlsplit

import dns.asyncresolver
import dns.exception
import dns.resolver
import dns.reversename
from dns.rdtypes.ANY.PTR import PTR

from providers.base import Context, Fields, Query, RemoteSource, RemoteSpec, SourceError

_TIMEOUT = 0.5


async def fetch(query: Query, context: Context) -> list[str]:
    """Ask for the names of the address; none is an answer.

    Raises:
        SourceError: `timeout` or `error`, if no name server answered.
    """
    resolver = _resolver(context.base_url)
    name = dns.reversename.from_address(query.text)
    try:
        answer = await resolver.resolve(name, "PTR", lifetime=context.timeout, search=False)
    except (dns.resolver.NXDOMAIN, dns.resolver.NoAnswer):
        return []
    except dns.exception.Timeout:
        raise SourceError("timeout", "dns_timeout") from None
    except dns.exception.DNSException:
        raise SourceError("error", "dns_failed") from None
    return [record.target.to_text(omit_final_dot=True) for record in answer if isinstance(record, PTR)]


def parse(names: list[str]) -> Fields:
    """Take the first name in alphabetical order, so that a rotating answer does not look like a change."""
    return {"hostname": min(names).lower()} if names else {}


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
        name="ptr",
        kind="ip",
        fields=frozenset({"hostname"}),
        licence="none: DNS is public",
        attribution="the address's owner, through DNS",
        timeout=_TIMEOUT,
        ttl=3600,
        negative_ttl=3600,
        # A name server answers as fast as Postgres, and keeps answers itself.
        shared=False,
    ),
    fetch,
    parse,
)
