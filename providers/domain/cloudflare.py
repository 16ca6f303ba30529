"""Cloudflare 1.1.1.1 for Families: names of malware are withheld.

`VEDETTE_PROVIDER_CLOUDFLARE_BASE_URL` names two others in their place: `dns://192.0.2.1,dns://192.0.2.2`, the
one that filters and its twin that does not.
"""

from __future__ import annotations

from providers.base import Fields, RemoteSource, RemoteSpec
from providers.domain import filtered


def parse(withheld: bool) -> Fields:
    """What it means when a name is withheld."""
    return {"threat.malicious": True, "threat.categories": ["blocked by Cloudflare"]} if withheld else {}


SOURCE = RemoteSource(
    RemoteSpec(
        name="cloudflare",
        kind="domain",
        fields=frozenset({"threat.malicious", "threat.categories"}),
        licence="a public service, under its operator's terms",
        attribution="Cloudflare, https://developers.cloudflare.com/1.1.1.1/setup/",
        base_url="dns://1.1.1.2,dns://1.1.1.1",
        timeout=3,
        ttl=3600,
        negative_ttl=3600,
        shared=False,
    ),
    filtered.fetch,
    parse,
)
