"""Public resolvers that withhold the names which their operator holds to be malicious.

Each has a way of its own to say that it withholds a name, and only that counts: that another resolver answers
differently may have a hundred reasons. Not being withheld says nothing, for such lists know but a part of
what is malicious.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from dns.message import QueryMessage

from models.domains import Domain
from providers.sources.base import Context, Evidence, Fields, Query, RemoteSource, RemoteSpec, SourceError
from providers.sources.nameservers import resolvers, response


def source(
    name: str,
    operator: str,
    withholds: Callable[[QueryMessage], bool],
    *,
    evidence: Evidence,
    base_url: str,
    terms: str | None = None,
) -> RemoteSource:
    """The source that asks one such resolver, and the operator's other one that withholds nothing.

    Args:
        name: of the source.
        operator: whose resolver it is, as people say it, and where they tell about it.
        withholds: whether an answer says that the name is withheld. The other resolver must not say so: a
            network that answers in the place of both, or a name whose address is 0.0.0.0, would.
        evidence: where the operator says so.
        terms: the page with the operator's terms, if it is known.
        base_url: the one that filters, then the other, unless the operator of this service names two others.
    """

    async def fetch(query: Query, context: Context) -> bool:
        domain: Domain = query.value
        asked = resolvers(context.base_url)
        if len(asked) != 2:
            raise SourceError("error", "two_resolvers_needed")
        seconds = context.timeout * 0.9
        answers = await asyncio.gather(*(response(one, domain.name, "A", seconds) for one in asked))
        filtering, twin = map(withholds, answers)
        return filtering and not twin

    def parse(withheld: bool) -> Fields:
        return {"threat.malicious": True} if withheld else {}

    spec = RemoteSpec(
        name=name,
        kind="domain",
        fields=frozenset({"threat.malicious"}),
        licence="a public service, under its operator's terms",
        terms=terms,
        attribution=operator,
        evidence=evidence,
        base_url=base_url,
        timeout=3,
        ttl=3600,
        negative_ttl=3600,
        shared=False,
    )
    return RemoteSource(spec, fetch, parse)
