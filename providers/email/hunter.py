"""Hunter's verifier: whether mail to the address arrives. It needs a key.

Status 403 means too many requests at once, 429 or 402 that the plan's quota is used up, 202 that the search
is still running, 222 that the mail server failed, and 451 that the answer is withheld. A repeated request
while the search is running counts as the same request.
"""

from __future__ import annotations

from datetime import date
from typing import Any

from providers.sources.base import Evidence, Fields, RemoteSpec
from providers.sources.rest import Get, rest
from settings import Rate

_QUOTA_SECONDS = 3600.0
# `webmail` names the sort of mailbox, not whether it exists; `accept_all` means that the domain accepts mail
# for every name, so the mailbox cannot be verified.
_VALIDITY = {"valid": "valid", "invalid": "invalid", "accept_all": "risky", "disposable": "risky"}


def parse(raw: Any) -> Fields:
    """Read an answer."""
    found = raw["data"]
    return {
        "validity": _VALIDITY.get(found["status"]),
        "mx_found": found["mx_records"],
        "is_disposable": found["disposable"],
        "is_free_provider": found["webmail"],
        "checks.mailbox": True if found["status"] == "valid" and found.get("smtp_check") else None,
    }


SOURCE = rest(
    RemoteSpec(
        name="hunter",
        kind="email",
        fields=frozenset({"validity", "mx_found", "is_disposable", "is_free_provider", "checks.mailbox"}),
        licence="Hunter terms of service",
        terms="https://hunter.io/terms-of-service",
        attribution="Hunter, https://hunter.io",
        evidence=Evidence("https://hunter.io/api-documentation/v2", date(2026, 11, 21)),
        base_url="https://api.hunter.io/v2",
        key="required",
        account="hunter",
        personal=True,
        timeout=22,  # a verification takes up to 20 s; the lookup does not wait, the next one has the answer
        ttl=86400,
        negative_ttl=86400,
        rates=(Rate(10, 1), Rate(300, 60)),  # of the account: those of its verifier, the strictest
        parser_version=2,
    ),
    Get(
        path="/email-verifier",
        params={"email": "{query}"},
        headers={"x-api-key": "{key}"},
        statuses={222: "error"},
        pauses={402: _QUOTA_SECONDS, 403: 1, 429: _QUOTA_SECONDS},
        again={202: 1},
    ),
    parse,
)
