"""Queries to name servers: the operator's, or the machine's own with a public one as fallback."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from functools import lru_cache
from ipaddress import ip_address
from typing import cast
from urllib.parse import SplitResult, urlsplit

import dns.asyncresolver
import dns.exception
import dns.message
import dns.name
import dns.rcode
import dns.rdata
import dns.resolver
from dns.rdtypes.IN.A import A
from dns.rdtypes.IN.AAAA import AAAA

from outbound.guard import Address, Networks, forbidden_address, is_onion
from providers.sources.base import SourceError

# Quad9's servers that filter nothing and do not judge what is malicious.
_PUBLIC = ("9.9.9.10", "149.112.112.10")
Resolver = dns.asyncresolver.Resolver


@lru_cache(maxsize=32)
def resolvers(base_url: str) -> tuple[Resolver, ...]:
    """Return the resolvers to ask; the next is asked when one fails.

    Args:
        base_url: `dns://192.0.2.1:53`, or several of these with commas between them; empty for the machine's
            own name servers with a public resolver behind them.
    """
    if base_url:
        return tuple(_resolver(urlsplit(one.strip())) for one in base_url.split(","))
    public = Resolver(configure=False)
    public.nameservers = list(_PUBLIC)
    return (*own_resolvers(""), public)


@lru_cache(maxsize=8)
def own_resolvers(base_url: str) -> tuple[Resolver, ...]:
    """Return those resolvers without the public one; none on a machine without a configured name server."""
    if base_url:
        return resolvers(base_url)
    try:
        return (Resolver(),)
    except dns.resolver.NoResolverConfiguration:
        return ()


def _resolver(server: SplitResult) -> Resolver:
    resolver = Resolver(configure=False)
    resolver.nameservers = [server.hostname or ""]
    resolver.port = server.port or 53
    return resolver


async def records(
    asked: Sequence[Resolver], name: str, kind: str, seconds: float
) -> list[dns.rdata.Rdata] | None:
    """Return the records of one type, or None if the name does not exist.

    Args:
        asked: the resolvers; the next is asked when one fails.
        name: without a last dot.
        kind: the type, such as `MX`.
        seconds: the time for all of them together.

    Raises:
        SourceError: `timeout` or `error`, if none of them answers.
    """
    failure = SourceError("error", "no_name_server")
    for resolver in asked:
        try:
            answer = await response(resolver, name, kind, seconds / len(asked))
        except SourceError as error:
            failure = error
            continue
        if answer.rcode() == dns.rcode.NXDOMAIN:
            return None
        found = answer.resolve_chaining().answer
        return list(found) if found is not None else []
    raise failure


async def response(resolver: Resolver, name: str, kind: str, seconds: float) -> dns.message.QueryMessage:
    """Return one resolver's response on the records of one type. A missing name is a response too.

    Args:
        resolver: the resolver to ask.
        name: without a last dot.
        kind: the type, such as `MX`.
        seconds: the time for all its tries.

    Raises:
        SourceError: `timeout` or `error`, if it does not answer; `skipped`, for an onion name.
    """
    if is_onion(name):
        raise SourceError("skipped", "onion_name")
    try:
        answer = await resolver.resolve(
            f"{name}.", kind, lifetime=seconds, search=False, raise_on_no_answer=False
        )
    except dns.resolver.NXDOMAIN as unknown:
        # The type stubs of the library are incomplete.
        told = cast("dict[dns.name.Name, dns.message.QueryMessage]", unknown.responses())  # pyright: ignore[reportUnknownMemberType]
        return next(iter(told.values()))
    except dns.exception.Timeout:
        raise SourceError("timeout", "dns_timeout") from None
    except (dns.exception.DNSException, OSError):
        raise SourceError("error", "dns_failed") from None
    return answer.response


async def addresses(asked: Sequence[Resolver], name: str, seconds: float) -> list[Address]:
    """Return the IPv4 addresses of a name in order, else its IPv6 addresses; empty if it has none.

    An IP address is returned as it is.

    Raises:
        SourceError: `timeout` or `error`, if no resolver answers.
    """
    with contextlib.suppress(ValueError):
        return [ip_address(name)]
    for kind in ("A", "AAAA"):
        found = await records(asked, name, kind, seconds / 2)
        if found:
            return sorted(ip_address(one.address) for one in found if isinstance(one, A | AAAA))
    return []


def choose_public(found: Sequence[Address], allowed: Networks) -> Address | None:
    """Return the first address if all are public, or None if there is none.

    Raises:
        SourceError: `skipped`, if one of them leads into an internal network.
    """
    if any(forbidden_address(address, allowed) for address in found):
        raise SourceError("skipped", "forbidden_address")
    return found[0] if found else None
