"""Whether a registry that does not know a domain is the one that would.

Below suffixes such as `ac.uk` others register domains than the registry of `uk`, and no list says where.
"""

from __future__ import annotations

from models.domains import Domain
from providers.nameservers import records, resolvers


async def may_be_elsewhere(domain: Domain, seconds: float) -> bool:
    """Whether another registry may know the domain that the registry of its TLD does not.

    Not so for a domain right below the TLD, nor for one that name servers know as little of.

    Raises:
        SourceError: `timeout` or `error`, if no name server answers.
    """
    if domain.registered.count(".") == 1:
        return False
    return await records(resolvers(""), domain.registered, "NS", seconds) is not None
