"""Rate limits on routes: `dependencies=[limited("ip")]`."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from ipaddress import IPv4Address, IPv6Network, ip_address
from typing import Any

from fastapi import Depends, Request

from api.context import context_of
from api.deps import Services, caller_of, services_of
from models import limits
from models.limits import Subject
from services.rate_limiter import Decision


def limit_requests(name: str) -> Any:
    """Return a dependency that counts a request of the caller's account under the limit `name`.

    Args:
        name: of a setting `VEDETTE_LIMIT_<NAME>`, in lower case.
    """

    async def limit(request: Request) -> None:
        caller = await caller_of(request)
        await check(services_of(request), name, str(caller.account_id), request=request)

    return Depends(limit)


async def check(services: Services, name: str, subject: str, *, request: Request | None = None) -> None:
    """Count a request of `subject` under the limit `name`.

    Args:
        services: of the application.
        name: of a setting `VEDETTE_LIMIT_<NAME>`, in lower case.
        subject: the counted subject: an account, an address, a workflow.
        request: the request whose answer gets the `RateLimit` headers.

    Raises:
        RateLimited: the window is full.
    """
    decision = await services.limiter.check(name, subject)
    if decision is not None and request is not None:
        _announce(request, decision)


async def charge(services: Services, name: str, subject: str, requests: int, *, request: Request) -> None:
    """Count further requests of `subject` as the cost of `request`; its answer reports the rest."""
    decision = await services.limiter.charge(name, subject, requests)
    if decision is not None:
        _announce(request, decision)


@dataclass
class Attempt:
    """An attempt at a password: it is counted before it is checked, and uncounted if it was right."""

    services: Services
    counted: list[tuple[Subject, datetime]] = field(default_factory=list[tuple[Subject, datetime]])

    async def count(self, name: str, subject: str, *, request: Request | None = None) -> None:
        """Count an attempt of `subject` under the limit `name`.

        Raises:
            RateLimited: it has failed too often.
        """
        decision = await self.services.limiter.check(name, subject, remember=False)
        if decision is not None:
            self.counted.append(((name, subject), decision.admission.moment))
            if request is not None:
                _announce(request, decision)

    async def uncount(self) -> None:
        """Uncount the attempt."""
        async with self.services.database.connection() as connection:
            for subject, moment in self.counted:
                await limits.give_back(connection, subject, moment)


def network_of(client: str | None) -> str:
    """Return the network that a client is counted under: for IPv6 the /64, the least a subscriber has."""
    try:
        address = ip_address(client or "")
    except ValueError:
        return ""  # a Unix socket
    if isinstance(address, IPv4Address):
        return str(address)
    return str(address.ipv4_mapped or IPv6Network((int(address) >> 64 << 64, 64)))


def _announce(request: Request, decision: Decision) -> None:
    context = context_of(request.scope)
    said = {name.lower().encode(): value.encode() for name, value in decision.headers().items()}
    context.headers = [*((name, value) for name, value in context.headers if name not in said), *said.items()]
