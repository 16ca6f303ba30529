"""Public resolvers that withhold the names which their operator holds to be malicious.

Such a resolver answers with nothing, or with 0.0.0.0, where its twin that filters nothing answers with
addresses. Not being withheld says nothing: such lists know but a part of what is malicious.
"""

from __future__ import annotations

import asyncio
from ipaddress import ip_address

from dns.rdtypes.IN.A import A

from models.domains import Domain
from providers.base import Context, Fields, Query, RemoteSource, RemoteSpec, SourceError
from providers.nameservers import Resolver, records, resolvers


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


def source(name: str, operator: str, *, page: str, base_url: str) -> RemoteSource:
    """The source that asks one such resolver and its twin.

    Args:
        name: of the source.
        operator: whose resolver it is, as people say it.
        page: where the operator tells about it.
        base_url: the one that filters, then its twin, unless the operator of this service names two others.
    """

    def parse(withheld: bool) -> Fields:
        found = {"threat.malicious": True, "threat.categories": [f"blocked by {operator}"]}
        return found if withheld else {}

    spec = RemoteSpec(
        name=name,
        kind="domain",
        fields=frozenset({"threat.malicious", "threat.categories"}),
        licence="a public service, under its operator's terms",
        attribution=f"{operator}, {page}",
        base_url=base_url,
        timeout=3,
        ttl=3600,
        negative_ttl=3600,
        shared=False,
    )
    return RemoteSource(spec, fetch, parse)
