"""Abstract Email Reputation: whether mail arrives, whose address it is, where it was exposed. It needs a key.

Status 422 says that the plan's quota is used up, 204 that they have no data.
"""

from __future__ import annotations

from typing import Any

from providers.base import Context, Fields, Query, RemoteSource, RemoteSpec, SourceError, json_answer
from settings import Rate

_QUOTA_SECONDS = 3600.0
_VALIDITY = {"deliverable": "valid", "undeliverable": "invalid", "risky": "risky", "unknown": "unknown"}
_FIELDS = frozenset(
    {
        "validity", "mx_found", "is_disposable", "is_role_account", "is_free_provider", "first_name",
        "last_name", "company", "breach.services",
    }
)  # fmt: skip


async def fetch(query: Query, context: Context) -> Any:
    """Ask about the address; None if they have no data on it."""
    response = await context.client.get(
        f"{context.base_url}/",
        params={"api_key": context.key or "", "email": query.text},
        timeout=context.timeout,
    )
    if response.status_code == 204:
        return None
    if response.status_code == 422:
        raise SourceError("rate_limited", "quota", _QUOTA_SECONDS)
    return json_answer(response)


def parse(raw: Any) -> Fields:
    """Read an answer; a free provider is not the sender's organisation."""
    if raw is None:
        return {}
    delivery, quality, sender = raw["email_deliverability"], raw["email_quality"], raw["email_sender"]
    breaches: list[dict[str, Any]] = raw["email_breaches"].get("breached_domains") or []
    return {
        "validity": _VALIDITY.get(delivery["status"]),
        "mx_found": delivery["is_mx_valid"],
        "is_disposable": quality["is_disposable"],
        "is_role_account": quality["is_role"],
        "is_free_provider": quality["is_free_email"],
        "first_name": sender["first_name"],
        "last_name": sender["last_name"],
        "company": None if quality["is_free_email"] else sender["organization_name"],
        "breach.services": [breach["domain"] for breach in breaches] or None,
    }


SOURCE = RemoteSource(
    RemoteSpec(
        name="abstractemail",
        kind="email",
        fields=_FIELDS,
        licence="Abstract API terms of service",
        attribution="Abstract API, https://www.abstractapi.com",
        base_url="https://emailreputation.abstractapi.com/v1",
        key="required",
        personal=True,
        timeout=6,
        ttl=86400,
        negative_ttl=86400,
        rate=Rate(3, 1),
    ),
    fetch,
    parse,
)
