"""Public resolvers that withhold names which their operator considers malicious.

Each signals a withheld name in its own way, and only that signal counts: another resolver's answer may differ
for many reasons. A name that is not withheld may still be malicious, because such lists are incomplete.
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
    """Make the source that asks one such resolver, and the operator's other one that withholds nothing.

    Args:
        name: of the source.
        operator: the operator's common name, and the page about the resolver.
        withholds: whether an answer signals that the name is withheld. The other resolver must not signal it:
            a network that answers in place of both, or a name whose address is 0.0.0.0, would.
        evidence: the page where the operator documents this.
        terms: the page with the operator's terms, if known.
        base_url: the one that filters, then the other; the operator of this service may name two others.
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
