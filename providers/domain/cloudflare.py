"""Cloudflare 1.1.1.1 for Families: names of malware are withheld."""

from __future__ import annotations

from providers.domain import filtered

SOURCE = filtered.source(
    "cloudflare",
    "Cloudflare",
    page="https://developers.cloudflare.com/1.1.1.1/setup/",
    base_url="dns://1.1.1.2,dns://1.1.1.1",
)
