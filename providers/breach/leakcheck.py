"""LeakCheck's public API: the names of the leaks that an address is in, and the kinds of data in them.

No key. It never returns the data itself.
"""

from __future__ import annotations

from datetime import date
from typing import Any

from providers.breach.exposed import usual
from providers.sources.base import Evidence, Fields, RemoteSpec, SourceError
from providers.sources.rest import Get, integer, rest
from settings import Rate


def parse(raw: Any) -> Fields:
    """Read an answer. "Not found" comes as a failure with status 200. Some leaks are counted, not named."""
    if raw["success"] is not True:
        reason = str(raw.get("error") or raw.get("message") or "")
        if reason.strip().lower() == "not found":
            return {}
        raise SourceError("bad_response", "not_successful")
    leaks: list[dict[str, Any]] = raw["sources"]
    found = integer(raw["found"])
    if not leaks and not found:
        return {}
    names = [leak["name"] for leak in leaks if leak["name"].strip()]
    unnamed = len(leaks) - len(names) if leaks else found
    services = list(dict.fromkeys(names))
    return {
        "services": services or None,
        "breaches": len(services) + unnamed if unnamed else None,
        "exposed_data": usual(raw["fields"]),
    }


SOURCE = rest(
    RemoteSpec(
        name="leakcheck",
        kind="breach",
        fields=frozenset({"breaches", "services", "exposed_data"}),
        licence="LeakCheck terms: free with attribution",
        terms="https://wiki.leakcheck.io/en/tos",
        attribution="Powered by LeakCheck, https://leakcheck.io",
        evidence=Evidence(
            "https://github.com/LeakCheck/leakcheck-api/blob/master/leakcheck", date(2026, 11, 21)
        ),
        base_url="https://leakcheck.io",
        personal=True,
        timeout=4,
        ttl=86400,
        negative_ttl=86400,
        rates=(Rate(1, 1),),
        parser_version=3,
    ),
    Get(path="/api/public", params={"check": "{query}"}),
    parse,
)
