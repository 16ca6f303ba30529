"""LeakCheck's public API: the names of the leaks that an address is in, and what kinds of data are in them.

No key. It never hands out the data itself.
"""

from __future__ import annotations

from datetime import date
from typing import Any

from providers.base import Evidence, Fields, RemoteSpec, SourceError
from providers.breach.exposed import usual
from providers.rest import Get, rest
from settings import Rate


def parse(raw: Any) -> Fields:
    """Read an answer. "Not found" comes as a failure, with status 200."""
    if raw["success"] is not True:
        reason = str(raw.get("error") or raw.get("message") or "")
        if reason.strip().lower() == "not found":
            return {}
        raise SourceError("bad_response", "not_successful")
    if not raw["found"]:
        return {}
    return {
        "services": list(dict.fromkeys(leak["name"] for leak in raw["sources"])),
        "exposed_data": usual(raw["fields"]),
    }


SOURCE = rest(
    RemoteSpec(
        name="leakcheck",
        kind="breach",
        fields=frozenset({"services", "exposed_data"}),
        licence="LeakCheck terms: free with attribution",
        attribution="Powered by LeakCheck, https://leakcheck.io",
        evidence=Evidence(
            "https://github.com/LeakCheck/leakcheck-api/blob/master/leakcheck", date(2026, 11, 21)
        ),
        base_url="https://leakcheck.io",
        personal=True,
        timeout=4,
        ttl=86400,
        negative_ttl=86400,
        rate=Rate(1, 1),
        parser_version=2,
    ),
    Get(path="/api/public", params={"check": "{query}"}),
    parse,
)
