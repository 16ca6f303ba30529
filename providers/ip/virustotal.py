"""VirusTotal: the verdicts of security vendors on an address.

A key of the public API must not be used in commercial products or workflows.
"""

from __future__ import annotations

from typing import Any

from providers.sources.base import Fields
from providers.sources.rest import Table, integer, map_fields, number, rest, text
from providers.sources.virustotal import declare_source, request_object

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
    declare_source("virustotal", "ip", {*_COUNTS, *_REST}, page="ip-object", parser_version=2),
    request_object("ip_addresses"),
    parse,
)
