"""Reverse DNS: the name that the address's owner gave it.

Asked of the system's name servers, or of the one in `VEDETTE_PROVIDER_PTR_BASE_URL` (`dns://192.0.2.1:53`).
The timeout is half a second, so that no answer waits for an unreachable name server.
"""

from __future__ import annotations

from datetime import date

import dns.reversename
from dns.rdtypes.ANY.PTR import PTR

from providers.sources.base import Context, Evidence, Fields, Query, RemoteSource, RemoteSpec
from providers.sources.nameservers import own_resolvers, records

_TIMEOUT = 0.5


async def fetch(query: Query, context: Context) -> list[str]:
    """Fetch the names of the address; an empty list is an answer.

    Raises:
        SourceError: `timeout` or `error`, if no name server answered.
    """
    name = dns.reversename.from_address(query.text).to_text(omit_final_dot=True)
    found = await records(own_resolvers(context.base_url), name, "PTR", context.timeout) or []
    return [record.target.to_text(omit_final_dot=True) for record in found if isinstance(record, PTR)]


def parse(names: list[str]) -> Fields:
    """Return the first name in alphabetical order, so that a rotating answer does not look like a change."""
    return {"hostname": min(names).lower()} if names else {}


SOURCE = RemoteSource(
    RemoteSpec(
        name="ptr",
        kind="ip",
        fields=frozenset({"hostname"}),
        licence="none: DNS is public",
        commercial="yes",
        attribution="the address's owner, through DNS",
        evidence=Evidence("https://www.rfc-editor.org/rfc/rfc1035", date(2026, 11, 22)),
        timeout=_TIMEOUT,
        ttl=3600,
        negative_ttl=3600,
        # A name server answers as fast as Postgres, and caches answers itself.
        shared=False,
    ),
    fetch,
    parse,
)
