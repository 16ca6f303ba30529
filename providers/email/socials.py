"""The network of a person's page."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit

_NETWORKS = {
    "facebook.com": "facebook",
    "github.com": "github",
    "instagram.com": "instagram",
    "linkedin.com": "linkedin",
    "twitter.com": "twitter",
    "x.com": "twitter",
}

FIELDS = frozenset(f"socials.{network}" for network in _NETWORKS.values())
"""All fields that `socials` can fill."""


def socials(urls: Iterable[str]) -> dict[str, str]:
    """Return the first of the URLs on each network, as fields of the profile."""
    found: dict[str, str] = {}
    for url in urls:
        parts = urlsplit(url)
        network = _NETWORKS.get(".".join((parts.hostname or "").split(".")[-2:]))
        if network and parts.scheme in ("http", "https") and parts.path.strip("/"):
            found.setdefault(f"socials.{network}", url)
    return found
