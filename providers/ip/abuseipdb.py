"""AbuseIPDB: what operators of servers have reported about an address in the last ninety days."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from providers.base import Context, Fields, Query, RemoteSource, RemoteSpec, json_answer
from settings import Rate

_DAYS = 90
_FIELDS = {
    "threat.abuse_score": "abuseConfidenceScore",
    "threat.total_reports": "totalReports",
    "threat.usage_type": "usageType",
    "threat.is_tor": "isTor",
    "threat.is_whitelisted": "isWhitelisted",
    "threat.distinct_users": "numDistinctUsers",
    "security.is_tor": "isTor",
}


async def fetch(query: Query, context: Context) -> Any:
    """Ask about the address."""
    response = await context.client.get(
        f"{context.base_url}/check",
        params={"ipAddress": query.text, "maxAgeInDays": str(_DAYS)},
        headers={"accept": "application/json", "key": context.key or ""},
        timeout=context.timeout,
    )
    return json_answer(response)


def parse(raw: Any) -> Fields:
    """Read an answer; times become UTC."""
    data = raw["data"]
    int(data["abuseConfidenceScore"])  # what is no answer of theirs has no score
    last = data.get("lastReportedAt")
    fields: Fields = {path: data.get(name) for path, name in _FIELDS.items()}
    fields["threat.last_reported_at"] = _utc(last) if last else None
    return fields


def _utc(text: str) -> str:
    return datetime.fromisoformat(text).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


SOURCE = RemoteSource(
    RemoteSpec(
        name="abuseipdb",
        kind="ip",
        fields=frozenset({*_FIELDS, "threat.last_reported_at"}),
        licence="AbuseIPDB terms of service",
        attribution="AbuseIPDB, https://www.abuseipdb.com",
        base_url="https://api.abuseipdb.com/api/v2",
        key="required",
        timeout=4,
        ttl=6 * 3600,
        negative_ttl=6 * 3600,
        rate=Rate(1000, 86400),
    ),
    fetch,
    parse,
)
