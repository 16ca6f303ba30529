"""The common form of an account that a site found. Pure."""

from __future__ import annotations

from typing import Literal

from providers.sources.base import Fields

Category = Literal["coding", "news", "social", "tech"]


def account(site: str, url: str, category: Category, *, name: str, created: str | None = None) -> Fields:
    """Return the fields for one account.

    Args:
        site: the common name of the site.
        url: of the profile.
        category: the purpose of the site.
        name: the account's name as the site writes it.
        created: an ISO 8601 time, if the site reports it.
    """
    since = f", created {created[:10]}" if created else ""
    evidence = f"the site's API has the profile {name}{since}"
    return {"found": [{"site": site, "url": url, "category": category, "evidence": evidence}]}
