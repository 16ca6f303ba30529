"""VirusTotal: what security vendors call a domain, and under which categories they file it.

A key of the public API (`VEDETTE_PROVIDER_VIRUSTOTAL_KEY`, the same as for addresses) must not be used in
commercial products or workflows.
"""

from __future__ import annotations

from typing import Any

from models.domains import Domain
from providers.base import Context, Fields, Query, RemoteSource, RemoteSpec, json_answer
from settings import Rate

# One vendor of ninety is often wrong; two rarely.
_FEWEST_VERDICTS = 2


async def fetch(query: Query, context: Context) -> Any:
    """Ask about the domain; None if it was never looked at."""
    domain: Domain = query.value
    response = await context.client.get(
        f"{context.base_url}/domains/{domain.name}",
        headers={"accept": "application/json", "x-apikey": context.key or ""},
        timeout=context.timeout,
    )
    return json_answer(response, empty=frozenset({404}))


def parse(raw: Any) -> Fields:
    """Read an answer. Malicious is what two vendors say is; not malicious, what none does and some deny."""
    if raw is None:
        return {}
    told = raw["data"]["attributes"]
    counts = told["last_analysis_stats"]
    malicious = None
    if counts["malicious"] >= _FEWEST_VERDICTS:
        malicious = True
    elif counts["malicious"] == 0 and counts["suspicious"] == 0 and counts["harmless"] > 0:
        malicious = False
    categories = {str(category).strip().lower() for category in told.get("categories", {}).values()}
    return {"threat.malicious": malicious, "threat.categories": sorted(categories)}


SOURCE = RemoteSource(
    RemoteSpec(
        name="virustotaldomain",
        kind="domain",
        fields=frozenset({"threat.malicious", "threat.categories"}),
        licence="VirusTotal terms of service; the public API is not for commercial use",
        attribution="VirusTotal, https://www.virustotal.com",
        base_url="https://www.virustotal.com/api/v3",
        key="required",
        account="virustotal",
        timeout=5,
        ttl=86400,
        negative_ttl=86400,
        # Half of what the public API allows for one key; the addresses have the other half.
        rate=Rate(2, 60),
    ),
    fetch,
    parse,
)
