"""WHOIS on port 43 (RFC 3912), for the registries that have no RDAP server.

IANA's server names the registry's. If the operator sets a base URL (`whois://192.0.2.1:43`), that server
replaces IANA's for every domain; the server that it refers to is asked on the same port.
"""

from __future__ import annotations

import asyncio
import time
from datetime import date
from urllib.parse import urlsplit

import logs
from models.domains import Domain
from outbound.errors import OutboundError
from outbound.guard import Networks
from providers.domain import bootstrap, registrations
from providers.domain.delegation import unless_delegated
from providers.sources.base import Context, Evidence, Fields, Query, RemoteSource, RemoteSpec, SourceError
from providers.sources.nameservers import addresses, choose_public, resolvers
from settings import Rate

_log = logs.get(__name__)
_IANA, _PORT = "whois.iana.org", 43
_MOST_BYTES = 64 * 1024
_REFERRAL_SECONDS = 86400.0
# The form of the query that some registries need, according to their own help texts.
_QUESTIONS = {"whois.denic.de": "-T dn,ace {}", "whois.jprs.jp": "{}/e"}


# IANA's server and a TLD → the registry's server (None: it has none), and until when that is valid.
_registries: dict[tuple[str, str], tuple[str | None, float]] = {}


async def server_of(query: Query, context: Context) -> str:
    """Return the registry's server, which IANA's server reports once a day for each TLD.

    Raises:
        SourceError: `skipped`, if the registry has an RDAP server or no WHOIS server.
    """
    tld = query.value.tld
    own = urlsplit(context.base_url)
    if not own.hostname and await _has_rdap(tld, context):
        raise SourceError("skipped", "tld_with_rdap")
    registry, until = _registries.get((context.base_url, tld), (None, 0.0))
    if time.monotonic() >= until:
        address = own.hostname or await _reachable(_IANA, context.allowed, context.timeout)
        registry = registrations.referral(await exchange(address, own.port or _PORT, tld))
        _registries[context.base_url, tld] = registry, time.monotonic() + _REFERRAL_SECONDS
    if registry is None:
        raise SourceError("skipped", "tld_without_whois")
    return registry


async def fetch(query: Query, context: Context) -> str | Fields:
    """Ask the registry's server for the domain; if it is unknown there, draw the conclusion from that.

    Raises:
        SourceError: as `server_of`.
    """
    domain: Domain = query.value
    registry = await server_of(query, context)
    # A received answer must not lead into an internal network.
    address = await _reachable(registry, context.allowed, context.timeout)
    question = _QUESTIONS.get(registry, "{}").format(domain.registered)
    told = await exchange(address, urlsplit(context.base_url).port or _PORT, question)
    if registrations.is_unregistered(told):
        return await unless_delegated(domain, context.timeout / 4)
    return told


async def _has_rdap(tld: str, context: Context) -> bool:
    try:
        return await bootstrap.server(tld, context) is not None
    except (OutboundError, SourceError) as error:
        _log.info("rdap_bootstrap_unavailable", error=type(error).__name__)
        return False


async def _reachable(host: str, allowed: Networks, seconds: float) -> str:
    """Return a public address of a WHOIS server."""
    address = choose_public(await addresses(resolvers(""), host, seconds / 2), allowed)
    if address is None:
        raise SourceError("error", "dns_failed")
    return str(address)


async def exchange(address: str, port: int, question: str) -> str:
    """Ask one server: send one line, and return everything until it closes the connection.

    Raises:
        SourceError: `error` without a connection, `bad_response` for more than 64 KiB.
    """
    try:
        reader, writer = await asyncio.open_connection(address, port, limit=_MOST_BYTES)
    except OSError:
        raise SourceError("error", "connect_failed") from None
    try:
        writer.write(f"{question}\r\n".encode("ascii"))
        await writer.drain()
        told = bytearray()
        while piece := await reader.read(8192):
            told += piece
            if len(told) > _MOST_BYTES:
                raise SourceError("bad_response", "too_large")
    except OSError:
        raise SourceError("error", "connection_lost") from None
    finally:
        writer.transport.abort()
    try:
        return told.decode()
    except UnicodeDecodeError:
        return told.decode("latin-1")


SOURCE = RemoteSource(
    RemoteSpec(
        name="whois",
        kind="domain",
        fields=registrations.FIELDS,
        licence="terms of each registry: no bulk use, no advertising",
        bulk=False,
        attribution="the domain's registry, through WHOIS; IANA, https://www.iana.org/whois",
        evidence=Evidence("https://github.com/weppos/whois-parser", date(2026, 11, 22), second_hand=True),
        timeout=6,
        ttl=registrations.TTL,
        negative_ttl=3600,
        # The smallest rate that a registry publishes: http://www.ripn.net:8082/nic/whois/en/about_whois.html.
        rates=(Rate(12, 60),),
        per_server=True,
        server_rates={
            "whois.nic.uk": registrations.NOMINET,
            "whois.centralnic.com": (Rate(1800, 900),),  # https://centralnicregistry.com/?p=1410
        },
        parser_version=3,
    ),
    fetch,
    lambda told: registrations.parse(told) if isinstance(told, str) else told,
    server_of=server_of,
)
