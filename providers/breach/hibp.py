"""Have I Been Pwned: the breaches that an address is in. It needs a key.

Fabricated breaches are left out, and so are sensitive ones, which would reveal more about a person than the
theft of their data. Spam lists and retired breaches are marked as such. Status 404 means no breach.
"""

from __future__ import annotations

from datetime import date
from typing import Any, cast

from providers.breach.exposed import usual
from providers.sources.base import Evidence, Fields, RemoteSpec, SourceError
from providers.sources.rest import Get, rest
from settings import Rate

_LEFT_OUT = ("IsFabricated", "IsSensitive")


def parse(raw: Any) -> Fields:
    """Read an answer."""
    if not isinstance(raw, list):
        raise SourceError("bad_response", "not_a_list")
    breaches = cast("list[dict[str, Any]]", raw)
    known = [breach for breach in breaches if not any(breach[flag] for flag in _LEFT_OUT)]
    if not known:
        return {}
    return {
        "services": list(dict.fromkeys(breach["Title"] for breach in known)),
        "spam_lists": [breach["Title"] for breach in known if breach["IsSpamList"]] or None,
        "retired": [breach["Title"] for breach in known if breach["IsRetired"]] or None,
        "exposed_data": usual(name for breach in known for name in breach["DataClasses"]),
    }


SOURCE = rest(
    RemoteSpec(
        name="hibp",
        kind="breach",
        fields=frozenset({"services", "spam_lists", "retired", "exposed_data"}),
        licence="CC BY 4.0",
        commercial="yes",
        terms="https://haveibeenpwned.com/API/v3#License",
        attribution="Have I Been Pwned, https://haveibeenpwned.com",
        evidence=Evidence("https://haveibeenpwned.com/API/v3", date(2026, 11, 22)),
        base_url="https://haveibeenpwned.com/api/v3",
        key="required",
        personal=True,
        timeout=4,
        ttl=86400,
        negative_ttl=86400,
        rates=(Rate(10, 60),),  # of the smallest plan
        parser_version=3,
    ),
    Get(
        path="/breachedaccount/{query}",
        params={"truncateResponse": "false"},
        headers={"hibp-api-key": "{key}"},
        statuses={404: "empty"},
    ),
    parse,
)
