"""AbuseIPDB: reports by server operators about an address in the last ninety days."""

from __future__ import annotations

from datetime import date

from providers.sources.base import Evidence, RemoteSpec
from providers.sources.rest import Get, Table, flag, integer, moment, number, rest, text
from settings import Rate

_DAYS = 90
_FIELDS: Table = {
    "threat.abuse_score": ("data.abuseConfidenceScore", number),
    "threat.total_reports": ("data.totalReports?", integer),
    "threat.last_reported_at": ("data.lastReportedAt?", moment),
    "threat.usage_type": ("data.usageType?", text),
    "threat.is_tor": ("data.isTor?", flag),
    "threat.is_whitelisted": ("data.isWhitelisted?", flag),
    "threat.distinct_users": ("data.numDistinctUsers?", integer),
    "security.is_tor": ("data.isTor?", flag),
}

SOURCE = rest(
    RemoteSpec(
        name="abuseipdb",
        kind="ip",
        fields=frozenset(_FIELDS),
        licence="AbuseIPDB terms of service",
        terms="https://www.abuseipdb.com/legal",
        attribution="AbuseIPDB, https://www.abuseipdb.com",
        evidence=Evidence(
            "https://github.com/AbuseIPDB/laravel/blob/1.x/src/ResponseObjects/CheckResponse.php",
            date(2026, 11, 21),
        ),
        base_url="https://api.abuseipdb.com/api/v2",
        key="required",
        timeout=4,
        ttl=6 * 3600,
        negative_ttl=6 * 3600,
        rates=(Rate(1000, 86400),),
    ),
    Get(
        path="/check",
        params={"ipAddress": "{query}", "maxAgeInDays": str(_DAYS)},
        headers={"key": "{key}"},
    ),
    _FIELDS,
)
