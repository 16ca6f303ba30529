"""VirusTotal: the verdicts of security vendors on a domain.

A key of the public API (`VEDETTE_PROVIDER_VIRUSTOTAL_KEY`, the same as for addresses) must not be used in
commercial products or workflows.
"""

from __future__ import annotations

from typing import Any

from providers.sources.base import Fields
from providers.sources.rest import rest
from providers.sources.virustotal import declare_source, request_object

# One vendor of ninety is often wrong; two rarely.
_FEWEST_VERDICTS = 2
_COUNTS = {f"threat.{name}_count": name for name in ("malicious", "suspicious", "harmless", "undetected")}


def parse(raw: Any) -> Fields:
    """Read an answer: malicious if two vendors object, not malicious if none does and some deny it.

    The categories are the vendors' names for a malicious domain. The categories of its content, such as
    "search engines", are no threats.
    """
    told = raw["data"]["attributes"]
    counts = told["last_analysis_stats"]
    fields: Fields = {path: counts[name] for path, name in _COUNTS.items()}
    if not counts["malicious"] and not counts["suspicious"] and not counts["harmless"]:
        return {}  # no vendor has looked
    if counts["malicious"] >= _FEWEST_VERDICTS:
        return fields | {"threat.malicious": True, "threat.categories": _list_labels(told)}
    denied = counts["malicious"] == 0 and counts["suspicious"] == 0
    return fields | {"threat.malicious": False if denied else None}


def _list_labels(told: Any) -> list[str]:
    verdicts = told.get("last_analysis_results", {}).values()
    names = {str(one["result"]).lower() for one in verdicts if one["category"] == "malicious"}
    return sorted(names - {"malicious"})


SOURCE = rest(
    declare_source(
        "virustotaldomain",
        "domain",
        {"threat.malicious", "threat.categories", *_COUNTS},
        page="domains-object",
        parser_version=3,
    ),
    request_object("domains"),
    parse,
)
