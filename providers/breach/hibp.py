"""Have I Been Pwned: the breaches that an address is in. It needs a key.

Left out are breaches that are made up, retired or mere lists of spam recipients, and sensitive ones, which
would tell more of a person than that their data was stolen. Status 404 says that there is none.
"""

from __future__ import annotations

from typing import Any, cast
from urllib.parse import quote

from providers.base import Context, Fields, Query, RemoteSource, RemoteSpec, SourceError, json_answer
from providers.breach.exposed import usual
from settings import Rate

_LEFT_OUT = ("IsFabricated", "IsRetired", "IsSpamList", "IsSensitive")


async def fetch(query: Query, context: Context) -> Any:
    """Ask for the breaches of the address; None if there are none."""
    response = await context.client.get(
        f"{context.base_url}/breachedaccount/{quote(query.text, safe='')}",
        params={"truncateResponse": "false"},
        headers={"hibp-api-key": context.key or ""},
        timeout=context.timeout,
    )
    return json_answer(response, empty=frozenset({404}))


def parse(raw: Any) -> Fields:
    """Read an answer."""
    if raw is None:
        return {}
    if not isinstance(raw, list):
        raise SourceError("bad_response", "not_a_list")
    breaches = cast("list[dict[str, Any]]", raw)
    known = [breach for breach in breaches if not any(breach[flag] for flag in _LEFT_OUT)]
    if not known:
        return {}
    exposed = [name for breach in known for name in breach["DataClasses"]]
    return {
        "services": list(dict.fromkeys(breach["Title"] for breach in known)),
        "exposed_data": usual(exposed),
    }


SOURCE = RemoteSource(
    RemoteSpec(
        name="hibp",
        kind="breach",
        fields=frozenset({"services", "exposed_data"}),
        licence="CC BY 4.0",
        attribution="Have I Been Pwned, https://haveibeenpwned.com",
        base_url="https://haveibeenpwned.com/api/v3",
        key="required",
        personal=True,
        timeout=4,
        ttl=86400,
        negative_ttl=86400,
        rate=Rate(10, 60),  # of the smallest plan
        parser_version=2,
    ),
    fetch,
    parse,
)
