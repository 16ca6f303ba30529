"""Exact comparison for monitors that name their tracked fields: default tolerances are new."""

import json

from alembic import op

revision = "0035"
down_revision = "0034"
branch_labels = None
depends_on = None

# Not `ssl.issuer`, where alternating authorities were no change before.
_MOVED_BY_DEFAULT = {
    "email": ["publications.cited_by"],
    "phone": ["validation.minimum_age"],
    "domain": ["dns.a", "dns.aaaa", "dns.soa", "hosting.ip", "hosting.country_code"],
    "ip": [
        "location.longitude", "location.latitude", "threat.abuse_score", "threat.total_reports",
        "threat.last_reported_at", "threat.distinct_users", "threat.last_seen", "malware.malicious_count",
        "malware.suspicious_count", "malware.harmless_count", "malware.undetected_count",
        "malware.reputation",
    ],
    "company": ["candidates.score"],
    "darkweb": ["results.body", "results.hackishness", "results.crawl_date"],
}  # fmt: skip


def upgrade() -> None:
    for type, paths in _MOVED_BY_DEFAULT.items():
        exact = json.dumps(dict.fromkeys(paths, 0))
        op.execute(
            f"update monitors set tolerance = ('{exact}'::jsonb || tolerance::jsonb)::json"
            f" where monitor_type = '{type}' and cardinality(tracked_fields) > 0"
        )


def downgrade() -> None:
    pass
