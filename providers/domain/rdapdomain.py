"""RDAP: the registration of a domain, from the registry that is in charge of it.

Which one that is, IANA's bootstrap file says; that it answers 404 therefore means that the domain is not
registered. With a base URL of the operator's own, that server is asked for every domain.
"""

from __future__ import annotations

from typing import Any, cast

from models.domains import Domain
from providers.base import Context, Fields, Query, RemoteSource, RemoteSpec, SourceError, json_answer
from providers.domain import bootstrap
from settings import Rate

_ACCEPT = {"accept": "application/rdap+json, application/json"}


async def fetch(query: Query, context: Context) -> Any:
    """Ask the registry; None if the domain is not registered.

    Raises:
        SourceError: `skipped`, if the registry has no RDAP server.
    """
    domain: Domain = query.value
    base_url: str | None = context.base_url
    if base_url == bootstrap.IANA:
        base_url = await bootstrap.server(domain.tld, context)
        if base_url is None:
            raise SourceError("skipped", "tld_without_rdap")
    response = await context.client.get(
        f"{base_url}/domain/{domain.registered}", headers=_ACCEPT, timeout=context.timeout
    )
    return json_answer(response, empty=frozenset({404}))


def parse(raw: Any) -> Fields:
    """Read an answer (RFC 9083)."""
    if raw is None:
        return {}
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


def _registrar(entities: list[dict[str, Any]]) -> str | None:
    for entity in entities:
        if "registrar" in entity.get("roles", []):
            card: list[list[Any]] = entity.get("vcardArray", [None, []])[1]
            return next((entry[3] for entry in card if entry[0] == "fn"), None)
    return None


def _date(moment: str | None) -> str | None:
    """The day of an RFC 3339 time, which is in UTC."""
    return moment.partition("T")[0] if moment else None


SOURCE = RemoteSource(
    RemoteSpec(
        name="rdapdomain",
        kind="domain",
        fields=frozenset({"whois.registrar", "whois.created", "whois.expires", "whois.name_servers"}),
        licence="terms of each registry: no bulk use, no advertising",
        attribution="the domain's registry, through RDAP; IANA, https://data.iana.org/rdap",
        base_url=bootstrap.IANA,
        timeout=5,
        ttl=86400,
        negative_ttl=3600,
        rate=Rate(120, 60),
    ),
    fetch,
    parse,
)
