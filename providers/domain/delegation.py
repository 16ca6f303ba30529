"""The conclusion from a registry's "not found": a domain is unregistered only if name servers agree.

Below suffixes such as `ac.uk`, other bodies than the registry of `uk` register domains, and no list names
these suffixes. And a domain to which the TLD's servers refer is registered, whatever the registry's other
servers report.
"""

from __future__ import annotations

from models.domains import Domain
from providers.sources.base import Fields, SourceError, Unsure
from providers.sources.nameservers import records, resolvers


async def unless_delegated(domain: Domain, seconds: float) -> Fields:
    """Report a domain unknown to its registry as unregistered, unless name servers know it.

    If they do, the two contradict each other. Below a suffix that another body may run, nothing follows.
    """
    try:
        found = await records(resolvers(""), domain.registered, "NS", seconds)
    except SourceError as error:
        return {"whois.registered": Unsure(why=error.detail)}
    if found is None:
        return {"whois.registered": False}
    if domain.registered.count(".") > 1:
        return {}
    return {"whois.registered": Unsure(said=(("registry", False), ("delegation", True)))}
