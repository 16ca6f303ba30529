"""RDAP: the registration of a domain, from the registry in charge and the registrar it names.

IANA's bootstrap file names the registry. If the registry answers 404 and no name server knows the domain, the
domain is not registered. If the operator sets a base URL, that server replaces all registries. It must not be
a public redirector, which also answers 404 for a registry without an RDAP server.
"""

from __future__ import annotations

import contextlib
import time
from datetime import date
from typing import Any, NamedTuple, cast
from urllib.parse import urlsplit

import httpx

import logs
from models.domains import Domain
from outbound.errors import OutboundError
from providers.domain import bootstrap, registrations
from providers.domain.delegation import unless_delegated
from providers.sources.base import (
    Context,
    Evidence,
    Fields,
    Query,
    RemoteSource,
    RemoteSpec,
    SourceError,
    Unsure,
    json_answer,
)
from settings import Rate

_log = logs.get(__name__)
_ACCEPT = {"accept": "application/rdap+json, application/json"}
_LEAST_SECONDS = 0.5
_REDIRECTORS = frozenset({"rdap.org", "www.rdap.org", "rdap.net", "www.rdap.net"})
_UNREADABLE = (SourceError, KeyError, TypeError, ValueError, AttributeError, IndexError)


class RegistryAnswers(NamedTuple):
    """The answers of the registry and the registrar.

    Attributes:
        registry: None for its 404.
        registrar: None also if there is no registrar to ask, or it does not know the domain.
        missing: whether the registrar failed to answer.
        unregistered: the fields that follow from the 404 of a registry in charge.
    """

    registry: Any
    registrar: Any = None
    missing: bool = False
    unregistered: Fields | None = None


async def server_of(query: Query, context: Context) -> str:
    """Return the name of the server of the registry in charge.

    Raises:
        SourceError: `skipped`, if the registry has no RDAP server.
    """
    return urlsplit(await _base_url(query, context)).netloc


async def _base_url(query: Query, context: Context) -> str:
    if context.base_url != bootstrap.IANA:
        return context.base_url
    found = await bootstrap.server(query.value.tld, context)
    if found is None:
        raise SourceError("skipped", "tld_without_rdap")
    return found


async def fetch(query: Query, context: Context) -> RegistryAnswers:
    """Ask the registry, and the registrar if the registry's answer lacks something.

    Raises:
        SourceError: `skipped`, if the registry has no RDAP server; `rejected`, if it answers with a page.
    """
    domain: Domain = query.value
    started = time.monotonic()
    base_url = await _base_url(query, context)
    in_charge = urlsplit(context.base_url).hostname not in _REDIRECTORS
    response = await _get(f"{base_url}/domain/{domain.registered}", context, context.timeout * 0.7)
    registry = json_answer(response, empty=frozenset({404}))
    left = context.timeout * 0.9 - (time.monotonic() - started)
    if registry is None and "html" in response.headers.get("content-type", ""):
        # A page for people is not a registry's answer.
        raise SourceError("rejected", "http_404")
    if registry is None and in_charge:
        return RegistryAnswers(None, unregistered=await unless_delegated(domain, left))
    if registry is None:
        return RegistryAnswers(None)
    known = _readable(registry)
    url = None if not known or all(known.values()) else _referral(registry)
    if url is None:
        return RegistryAnswers(registry)
    try:
        return RegistryAnswers(registry, await _refer(url, domain, context, left))
    except (OutboundError, SourceError, httpx.InvalidURL) as error:
        _log.info("rdap_referral_failed", error=type(error).__name__)
        return RegistryAnswers(registry, missing=True)


async def _get(url: str, context: Context, seconds: float) -> httpx.Response:
    return await context.client.get(url, headers=_ACCEPT, timeout=seconds)


async def _refer(url: str, domain: Domain, context: Context, seconds: float) -> Any:
    """Return the registrar's answer about the domain; None if it does not know the domain.

    The client is guarded, because the address comes from received data.

    Raises:
        OutboundError, SourceError, httpx.InvalidURL: if it does not answer about this domain.
    """
    if seconds < _LEAST_SECONDS:
        raise SourceError("timeout", "timeout")
    await context.enter(httpx.URL(url).netloc.decode("ascii"))
    client = context.guarded or context.client
    response = await client.get(url, headers=_ACCEPT, timeout=seconds)
    told = json_answer(response, empty=frozenset({404}))
    if told is None:
        return None
    same = isinstance(told, dict) and str(cast("dict[str, Any]", told).get("ldhName")).lower().rstrip(".")
    if same != domain.registered or not _readable(told):
        raise SourceError("bad_response", "unexpected_shape")
    return cast("Any", told)


def parse(told: RegistryAnswers) -> Fields:
    """Read the answers (RFC 9083)."""
    if told.registry is None:
        return told.unregistered or {}
    fields = _registration(told.registry)
    if told.missing:
        fields = {path: value or Unsure(value) for path, value in fields.items()}
    more = _readable(told.registrar)
    return {"whois.registered": True} | {path: value or more.get(path) for path, value in fields.items()}


def _readable(raw: Any) -> Fields:
    """Return the registration, or no fields if it is unreadable, which the caller may treat as a failure."""
    with contextlib.suppress(*_UNREADABLE):
        return _registration(raw)
    return {}


def _registration(raw: Any) -> Fields:
    if not isinstance(raw, dict) or cast("dict[str, Any]", raw).get("objectClassName") != "domain":
        raise SourceError("bad_response", "not_a_domain")
    told = cast("dict[str, Any]", raw)
    events = {event["eventAction"]: event.get("eventDate") for event in told.get("events", [])}
    names = [server.get("ldhName") for server in told.get("nameservers", [])]
    return {
        "whois.registrar": _registrar(told.get("entities", [])),
        "whois.created": _date(events.get("registration")),
        "whois.expires": _date(events.get("expiration")),
        "whois.name_servers": sorted({name.lower().rstrip(".") for name in names if name}),
    }


def _referral(told: dict[str, Any]) -> str | None:
    """Return the address of the domain at the registrar's RDAP server, or None."""
    wanted = ("related", "application/rdap+json")
    with contextlib.suppress(*_UNREADABLE):
        links = (one["href"] for one in told["links"] if (one.get("rel"), one.get("type")) == wanted)
        return next(links, None)
    return None


def _registrar(entities: list[dict[str, Any]]) -> str | None:
    for entity in entities:
        if "registrar" in entity.get("roles", []):
            card: list[list[Any]] = entity.get("vcardArray", [None, []])[1]
            return next((entry[3] for entry in card if entry[0] == "fn"), None)
    return None


def _date(moment: str | None) -> str | None:
    """Return the day of an RFC 3339 time, which is in UTC."""
    return moment.partition("T")[0] if moment else None


SOURCE = RemoteSource(
    RemoteSpec(
        name="rdapdomain",
        kind="domain",
        fields=registrations.FIELDS,
        licence="terms of each registry: no bulk use, no advertising",
        bulk=False,
        attribution="the domain's registry and registrar, through RDAP; IANA, https://data.iana.org/rdap",
        evidence=Evidence("https://datatracker.ietf.org/doc/rfc9083/", date(2026, 11, 22)),
        base_url=bootstrap.IANA,
        timeout=6,
        ttl=registrations.TTL,
        negative_ttl=3600,
        rates=(Rate(60, 60),),
        per_server=True,
        server_rates={"rdap.nominet.uk": registrations.NOMINET},
        parser_version=4,
    ),
    fetch,
    parse,
    server_of=server_of,
)
