"""Hudson Rock: whether an infostealer infected a computer on which the address was in use. No key.

Its answers hold partly masked logins and passwords, and names and addresses of computers. Only the fact of
the infection is read; the rest is dropped here, before anything is stored.
"""

from __future__ import annotations

from datetime import date
from typing import Any

from providers.sources.base import Evidence, Fields, RemoteSpec, SourceError
from providers.sources.rest import Get, rest
from settings import Rate

_SERVICE = "Infostealer malware"
_EXPOSED = "Credentials saved on an infected computer"


def parse(raw: Any) -> Fields:
    """Read an answer: one entry for each infected computer."""
    stealers = raw["stealers"]
    if not isinstance(stealers, list):
        raise SourceError("bad_response", "unexpected_shape")
    return {"services": [_SERVICE], "exposed_data": [_EXPOSED]} if stealers else {}


SOURCE = rest(
    RemoteSpec(
        name="hudsonrock",
        kind="breach",
        fields=frozenset({"services", "exposed_data"}),
        licence="Hudson Rock terms: free community API",
        attribution="Hudson Rock, https://www.hudsonrock.com",
        evidence=Evidence(
            "https://github.com/turbot/steampipe-plugin-hudsonrock/blob/main/api/search_by_email.go",
            date(2026, 11, 21),
            second_hand=True,
        ),
        proves_absence=False,  # it knows infected computers, and no other breaches
        base_url="https://cavalier.hudsonrock.com",
        personal=True,
        timeout=4,
        ttl=86400,
        negative_ttl=86400,
        rates=(Rate(5, 5),),  # the vendor publishes none
    ),
    Get(path="/api/json/v2/osint-tools/search-by-email", params={"email": "{query}"}),
    parse,
)
