"""What follows from a registry's no: it takes the name servers' no, too, for a domain not to be registered.

Below suffixes such as `ac.uk` others register domains than the registry of `uk`, and no list says where. And
a domain to which the servers of its TLD refer is somebody's, whatever the registry's other servers say.
"""

from __future__ import annotations

from models.domains import Domain
from providers.sources.base import Fields, SourceError, Unsure
from providers.sources.nameservers import records, resolvers


async def unless_delegated(domain: Domain, seconds: float) -> Fields:
    """Say that a domain is not registered of which its registry knows nothing, unless name servers know it.

    Where they do, the two contradict each other; but below a suffix that others may run, nothing follows.
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
