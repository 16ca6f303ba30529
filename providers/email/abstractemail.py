"""Abstract Email Reputation: whether mail arrives, the owner of the address, and its breaches."""

from __future__ import annotations

from datetime import date
from typing import Any

from providers.sources import abstract
from providers.sources.base import Evidence, Fields, RemoteSource, RemoteSpec

_VALIDITY = {"deliverable": "valid", "undeliverable": "invalid", "unknown": "unknown"}
_AWAY = "unavailable_server"  # the mail server did not respond, which proves nothing about the address
_FIELDS = frozenset(
    {
        "validity", "mx_found", "is_disposable", "is_role_account", "is_free_provider", "name",
        "first_name", "last_name", "company", "breach.services", "checks.mailbox",
    }
)  # fmt: skip


def parse(raw: Any) -> Fields:
    """Read an answer. A free provider is not the sender's organisation. Every plan includes delivery."""
    if raw is None:
        return {}
    delivery = raw["email_deliverability"]
    quality, sender = abstract.block(raw, "email_quality"), abstract.block(raw, "email_sender")
    breaches: list[dict[str, Any]] = abstract.block(raw, "email_breaches").get("breached_domains") or []
    first, last = sender.get("first_name"), sender.get("last_name")
    return {
        "validity": _validity(delivery, quality),
        "mx_found": delivery["is_mx_valid"],
        "checks.mailbox": _found_mailbox(delivery, quality),
        "is_disposable": quality.get("is_disposable"),
        "is_role_account": quality.get("is_role"),
        "is_free_provider": quality.get("is_free_email"),
        "name": f"{first} {last}" if first and last else None,
        "first_name": first,
        "last_name": last,
        "company": sender.get("organization_name") if quality.get("is_free_email") is False else None,
        "breach.services": [breach["domain"] for breach in breaches] or None,
    }


def _found_mailbox(delivery: dict[str, Any], quality: dict[str, Any]) -> bool | None:
    """Return True if the mail server accepts this very name; None if unknown or if it accepts all."""
    taken = delivery["status"] == "deliverable" and delivery.get("is_smtp_valid")
    return True if taken and not quality.get("is_catchall") else None


def _validity(delivery: dict[str, Any], quality: dict[str, Any]) -> str | None:
    """Return their verdict. If a domain accepts mail for every name, the mailbox may not exist."""
    if delivery.get("status_detail") == _AWAY:
        return "unknown"
    validity = _VALIDITY.get(delivery["status"])
    return "risky" if quality.get("is_catchall") and validity != "invalid" else validity


SOURCE = RemoteSource(
    RemoteSpec(
        name="abstractemail",
        kind="email",
        fields=_FIELDS,
        licence="Abstract API terms of service",
        terms="https://www.abstractapi.com/legal/legal",
        attribution="Abstract API, https://www.abstractapi.com",
        evidence=Evidence(
            "https://github.com/abstractapi/docs/blob/main/api-docs/api/email-reputation.mdx",
            date(2026, 11, 22),
        ),
        base_url="https://emailreputation.abstractapi.com/v1",
        key="required",
        personal=True,
        timeout=6,
        ttl=86400,
        negative_ttl=86400,
        rates=abstract.RATES,
        parser_version=3,
    ),
    abstract.asking("email", lambda query: query.text),
    parse,
)
