"""RDAP: the registrant of a network, from the registry in charge of it.

IANA's bootstrap files name the registry (RFC 9224). If the operator sets a base URL, that server is asked for
every address.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import date
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network, summarize_address_range
from typing import Any, NamedTuple, cast
from urllib.parse import urlsplit

import httpx

from outbound.guard import Address
from providers.sources.base import (
    Context,
    Evidence,
    Fields,
    Query,
    RemoteSource,
    RemoteSpec,
    SourceError,
    json_answer,
)
from settings import Rate

_IANA = "https://data.iana.org/rdap"
_BOOTSTRAP_SECONDS = 86400.0
_MAX_REDIRECTS = 2  # a registry redirects to the one that a network was transferred to
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_ACCEPT = {"accept": "application/rdap+json, application/json"}


class Service(NamedTuple):
    """The server for the addresses from `first` to `last`, both as numbers and included."""

    first: int
    last: int
    server: str


@dataclass
class _Bootstrap:
    """The registries of one IP version, and until when (monotonic) they are valid."""

    services: list[Service] = field(default_factory=list["Service"])
    until: float = 0.0


_bootstraps = {4: _Bootstrap(), 6: _Bootstrap()}


async def server_of(query: Query, context: Context) -> str:
    """Return the name of the server of the registry in charge."""
    base_url = await _base_url(query, context)
    return "" if base_url is None else urlsplit(base_url).netloc


async def fetch(query: Query, context: Context) -> tuple[Address, Any]:
    """Ask the registry in charge; the answer is None if it knows no such network."""
    base_url = await _base_url(query, context)
    if base_url is None:
        return query.value, None
    response = await _get(httpx.URL(f"{base_url}/ip/{query.text}"), context)
    return query.value, json_answer(response, empty=frozenset({404}))


async def _base_url(query: Query, context: Context) -> str | None:
    """Return the server in charge, or None if IANA names none."""
    return await _server(query.value, context) if context.base_url == _IANA else context.base_url


async def _get(url: httpx.URL, context: Context) -> httpx.Response:
    response = await context.client.get(url, headers=_ACCEPT, timeout=context.timeout)
    for _ in range(_MAX_REDIRECTS):
        location = response.headers.get("location")
        if response.status_code not in _REDIRECTS or location is None:
            break
        url = url.join(location)
        response = await context.client.get(url, headers=_ACCEPT, timeout=context.timeout)
    return response


async def _server(address: Address, context: Context) -> str | None:
    known = _bootstraps[address.version]
    if time.monotonic() >= known.until:
        url = f"{_IANA}/ipv{address.version}.json"
        known.services = services(json_answer(await context.client.get(url, timeout=context.timeout)))
        known.until = time.monotonic() + _BOOTSTRAP_SECONDS
    number = int(address)
    return next((one.server for one in known.services if one.first <= number <= one.last), None)


def services(told: Any) -> list[Service]:
    """Read a bootstrap file: the services, the narrowest ranges first.

    Raises:
        SourceError: `bad_response`, if it is no bootstrap file.
    """
    try:
        found: list[Service] = []
        for networks, servers in told["services"]:
            server = next(url for url in servers if url.startswith("https://")).rstrip("/")
            for network in map(ip_network, networks):
                found.append(Service(int(network[0]), int(network[-1]), server))
    except (KeyError, TypeError, ValueError, AttributeError, StopIteration):
        raise SourceError("bad_response", "bootstrap") from None
    return sorted(found, key=lambda one: one.last - one.first)


def parse(raw: tuple[Address, Any]) -> Fields:
    """Read an answer (RFC 9083): the organisation that the network is registered to, and its CIDR range."""
    address, told = raw
    if told is None:
        return {}
    if not isinstance(told, dict) or told.get("objectClassName") != "ip network":  # pyright: ignore[reportUnknownMemberType]
        raise SourceError("bad_response", "not_a_network")
    network = cast("dict[str, Any]", told)
    return {"company.name": _registrant(network), "malware.network": _cidr(network, address)}


def _registrant(network: dict[str, Any]) -> str | None:
    """Return the name of the registrant, if that is an organisation and not a person."""
    for entity in network.get("entities", []):
        if "registrant" in entity.get("roles", []):
            card: dict[str, Any] = {entry[0]: entry[3] for entry in entity.get("vcardArray", [None, []])[1]}
            if card.get("kind") in ("org", "group"):
                return card.get("fn")
    return None


def _cidr(network: dict[str, Any], address: Address) -> str | None:
    """Return the CIDR range of the network that contains the address."""
    first, last = ip_address(network["startAddress"]), ip_address(network["endAddress"])
    if isinstance(first, IPv4Address) and isinstance(last, IPv4Address):
        ranges: Any = summarize_address_range(first, last)
    else:
        ranges = summarize_address_range(cast(IPv6Address, first), cast(IPv6Address, last))
    return next((str(one) for one in ranges if address in one), None)


SOURCE = RemoteSource(
    RemoteSpec(
        name="rdap",
        kind="ip",
        fields=frozenset({"company.name", "malware.network"}),
        licence="terms of each registry: for network operation, no bulk use",
        bulk=False,
        attribution="AFRINIC, APNIC, ARIN, LACNIC and RIPE NCC, through RDAP, https://rdap.org",
        evidence=Evidence("https://datatracker.ietf.org/doc/rfc9083/", date(2026, 11, 22)),
        base_url=_IANA,
        timeout=4,
        ttl=7 * 86400,
        negative_ttl=86400,
        rates=(Rate(60, 60),),
        per_server=True,
    ),
    fetch,
    parse,
    server_of=server_of,
)
