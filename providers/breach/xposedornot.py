"""XposedOrNot: the breaches that an address is in. No key; 25 requests an hour, 100 a day.

`ExposedBreaches: null` means that it knows no breach. Status 404 means nothing about breaches: it stands for
an address that its owner has hidden, for text it takes for no address, and for internal errors. A caller that
exceeds the limits repeatedly is blocked for a day, with status 403.
"""

from __future__ import annotations

from datetime import date
from typing import Any

from providers.breach.exposed import usual
from providers.sources.base import Evidence, Fields, RemoteSpec
from providers.sources.rest import Get, rest
from settings import Rate


def parse(raw: Any) -> Fields:
    """Read an answer; the kinds of data come as one text, separated by semicolons."""
    if raw["ExposedBreaches"] is None:
        return {}
    details = raw["ExposedBreaches"]["breaches_details"]
    if not details:
        return {}
    exposed = ";".join(breach.get("xposed_data") or "" for breach in details)
    return {
        "services": list(dict.fromkeys(breach["breach"] for breach in details)),
        "exposed_data": usual(exposed.split(";")),
    }


SOURCE = rest(
    RemoteSpec(
        name="xposedornot",
        kind="breach",
        fields=frozenset({"services", "exposed_data"}),
        licence="XposedOrNot terms: free for personal and low-volume use",
        commercial="no",
        terms="https://xposedornot.com/api_doc",
        attribution="XposedOrNot, https://xposedornot.com",
        evidence=Evidence(
            "https://github.com/XposedOrNot/XposedOrNot-API/blob/master/api/v1/breaches.py",
            date(2026, 11, 22),
        ),
        base_url="https://api.xposedornot.com",
        personal=True,
        timeout=4,
        ttl=86400,
        negative_ttl=86400,
        rates=(Rate(2, 1), Rate(25, 3600), Rate(100, 86400)),
        parser_version=2,
    ),
    Get(
        path="/v1/breach-analytics",
        params={"email": "{query}"},
        pauses={403: 86400},
    ),
    parse,
)
