"""Public resolvers that withhold the names which their operator holds to be malicious.

Such a resolver answers with nothing, or with 0.0.0.0, where its twin that filters nothing answers with
addresses. Not being withheld says nothing: such lists know but a part of what is malicious.
"""

from __future__ import annotations

import asyncio
from ipaddress import ip_address

from dns.rdtypes.IN.A import A

from providers.base import Context, Query, SourceError
from providers.domain.names import Domain
from providers.domain.nameservers import Resolver, records, resolvers


async def fetch(query: Query, context: Context) -> bool:
    """Whether the resolver withholds the name.

    `context.base_url` names the one that filters and its twin: `dns://192.0.2.1,dns://192.0.2.2`.

    Raises:
        SourceError: `timeout` or `error`, if one of them does not answer.
    """
    domain: Domain = query.value
    asked = resolvers(context.base_url)
    if len(asked) != 2:
        raise SourceError("error", "two_resolvers_needed")
    seconds = context.timeout * 0.9
    filtering, twin = await asyncio.gather(*(_found(one, domain.name, seconds) for one in asked))
    return twin and not filtering


async def _found(resolver: Resolver, name: str, seconds: float) -> bool:
    """Whether there is an address that leads somewhere."""
    answer = await records((resolver,), name, "A", seconds) or []
    return any(not ip_address(one.address).is_unspecified for one in answer if isinstance(one, A))
