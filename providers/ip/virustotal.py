"""VirusTotal: the verdicts of security vendors on an address.

A key of the public API must not be used in commercial products or workflows.
"""

from __future__ import annotations

from datetime import date
from typing import Any

from providers.sources.base import Evidence, Fields, RemoteSpec
from providers.sources.rest import Get, Table, integer, map_fields, number, rest, text
from settings import Rate

_COUNTS: Table = {
    f"malware.{verdict}_count": (f"data.attributes.last_analysis_stats.{verdict}", integer)
    for verdict in ("malicious", "suspicious", "harmless", "undetected")
}
_REST: Table = {
    "malware.reputation": ("data.attributes.reputation?", number),
    "malware.network": ("data.attributes.network?", text),
}


def parse(raw: Any) -> Fields:
    """Read an answer. Only zeros mean that no vendor has looked, or voted; they are left out."""
    counts = map_fields(_COUNTS, raw)
    fields = map_fields(_REST, raw) | (counts if any(counts.values()) else {})
    if not fields["malware.reputation"] and not any(
        raw["data"]["attributes"].get("total_votes", {}).values()
    ):
        del fields["malware.reputation"]
    return fields


SOURCE = rest(
    RemoteSpec(
        name="virustotal",
        kind="ip",
        fields=frozenset({*_COUNTS, *_REST}),
        licence="VirusTotal terms of service; the public API is not for commercial use",
        commercial="no",
        terms="https://docs.virustotal.com/reference/public-vs-premium-api",
        attribution="VirusTotal, https://www.virustotal.com",
        evidence=Evidence("https://docs.virustotal.com/docs/ip-object", date(2026, 11, 22)),
        base_url="https://www.virustotal.com/api/v3",
        key="required",
        account="virustotal",
        timeout=5,
        ttl=86400,
        negative_ttl=86400,
        rates=(Rate(4, 60), Rate(500, 86400)),
        parser_version=2,
    ),
    Get(path="/ip_addresses/{query}", headers={"x-apikey": "{key}"}, statuses={404: "empty"}),
    parse,
)
