"""Gravatar: the public profile that a person publishes under the hash of their address.

Works without a key, for 100 requests an hour; with a key the profile has more fields.
"""

from __future__ import annotations

from datetime import date
from hashlib import sha256
from typing import Any, cast

from providers.email import socials
from providers.sources.base import (
    Context,
    Evidence,
    Fields,
    Query,
    RemoteSource,
    RemoteSpec,
    SourceError,
    json_answer,
)
from settings import Rate

# Our field → theirs. Names are a person's, unless the profile is an organisation's.
_NAMES = {"name": "display_name", "first_name": "first_name", "last_name": "last_name"}
_TEXTS = {
    "location": "location",
    "bio": "description",
    "job_role": "job_title",
    "company": "company",
    "photo": "avatar_url",
}


async def fetch(query: Query, context: Context) -> Any:
    """Fetch the profile; None if there is none."""
    response = await context.client.get(
        f"{context.base_url}/profiles/{sha256(query.text.encode()).hexdigest()}",
        headers={"authorization": f"Bearer {context.key}"} if context.key else {},
        timeout=context.timeout,
    )
    return json_answer(response, empty=frozenset({404}))


def parse(raw: Any) -> Fields:
    """Read a profile."""
    if raw is None:
        return {}
    if not isinstance(raw, dict) or "hash" not in raw:
        raise SourceError("bad_response", "not_a_profile")
    profile = cast("dict[str, Any]", raw)
    verified: list[dict[str, Any]] = profile.get("verified_accounts") or []
    accounts = [account for account in verified if not account.get("is_hidden")]
    contact: dict[str, Any] = profile.get("contact_info") or {}
    links: list[dict[str, Any]] = profile.get("links") or []
    languages: list[dict[str, Any]] = profile.get("languages") or []
    texts = _TEXTS if profile.get("is_organization") else _NAMES | _TEXTS
    return {
        **{field: profile.get(theirs) for field, theirs in texts.items()},
        **socials.socials(page["url"] for page in (*accounts, *links)),
        "languages": [language["name"] for language in languages] or None,
        "phone": contact.get("cell_phone") or contact.get("work_phone") or contact.get("home_phone"),
        "registered_services.services": ["Gravatar", *(account["service_label"] for account in accounts)],
    }


SOURCE = RemoteSource(
    RemoteSpec(
        name="gravatar",
        kind="email",
        fields=socials.FIELDS.union(_NAMES, _TEXTS, {"phone", "languages", "registered_services.services"}),
        licence="Gravatar terms: what people publish themselves",
        commercial="yes",
        terms="https://docs.gravatar.com/general/pricing/",
        attribution="Gravatar, https://gravatar.com",
        evidence=Evidence(
            "https://github.com/Automattic/Gravatar-SDK-iOS/blob/trunk/openapi/openapi.yaml",
            date(2026, 11, 22),
        ),
        base_url="https://api.gravatar.com/v3",
        key="optional",
        personal=True,
        timeout=4,
        ttl=86400,
        negative_ttl=86400,
        rates=(Rate(100, 3600),),
        parser_version=2,
    ),
    fetch,
    parse,
)
