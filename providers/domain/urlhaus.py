"""URLhaus by abuse.ch: URLs on the domain that spread malware, and what two blocklists say of the domain.

That a host has such URLs does not make it malicious: sites for sharing files have thousands, and many a
site was broken into. Malicious is what the Spamhaus DBL holds for a bad actor's own domain, or SURBL lists.
"""

from __future__ import annotations

from typing import Any

from models.domains import Domain
from providers.base import Context, Fields, Query, RemoteSource, RemoteSpec, SourceError, json_answer

# The DBL's other words are those for domains of others that were abused: `abused_legit_malware` …
_BAD_DOMAIN = "_domain"
_NOT_LISTED = "not listed"


async def fetch(query: Query, context: Context) -> Any:
    """Ask about the host; that it is unknown comes with status 200."""
    domain: Domain = query.value
    response = await context.client.post(
        f"{context.base_url}/host/",
        data={"host": domain.name},
        headers={"auth-key": context.key or ""},
        timeout=context.timeout,
    )
    return json_answer(response)


def parse(raw: Any) -> Fields:
    """Read an answer.

    Raises:
        SourceError: `auth_failed` for a key that URLhaus does not know, `bad_response` for other refusals.
    """
    status = raw["query_status"]
    if status == "no_results":
        return {}
    if status == "unknown_auth_key":
        raise SourceError("auth_failed", "unknown_auth_key")
    if status != "ok":
        raise SourceError("bad_response", "query_refused")
    lists: dict[str, str | None] = raw.get("blacklists") or {}
    spamhaus = lists.get("spamhaus_dbl") or _NOT_LISTED
    malicious = spamhaus.endswith(_BAD_DOMAIN) or lists.get("surbl") == "listed"
    categories = {str(url["threat"]) for url in raw["urls"]} | {spamhaus}
    return {
        "threat.malicious": True if malicious else None,
        "threat.categories": sorted(categories - {_NOT_LISTED}),
    }


SOURCE = RemoteSource(
    RemoteSpec(
        name="urlhaus",
        kind="domain",
        fields=frozenset({"threat.malicious", "threat.categories"}),
        licence="abuse.ch terms of use",
        attribution="URLhaus by abuse.ch, https://urlhaus.abuse.ch",
        base_url="https://urlhaus-api.abuse.ch/v1",
        key="required",
        timeout=5,
        ttl=3600,
        negative_ttl=3600,
    ),
    fetch,
    parse,
)
