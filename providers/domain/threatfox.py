"""ThreatFox by abuse.ch: domains from which malware is commanded, or spread."""

from __future__ import annotations

from typing import Any

from providers.ip.threatfoxip import SERVICE, fetch, indicators
from providers.sources.base import Fields, RemoteSource

_UNKNOWN_MALWARE = "Unknown malware"


def parse(told: tuple[str, Any]) -> Fields:
    """Read an answer. The categories are the domain's uses and the malware's family."""
    found = indicators(told)
    if not found:
        return {}
    names = {one[name] for one in found for name in ("threat_type", "malware_printable")}
    return {"threat.malicious": True, "threat.categories": sorted(names - {None, _UNKNOWN_MALWARE})}


SOURCE = RemoteSource(
    SERVICE.spec("threatfox", "domain", "threat.malicious", "threat.categories"),
    fetch,
    parse,
)
