"""Quad9: names of malware, phishing and botnets are withheld.

`VEDETTE_PROVIDER_QUAD9_BASE_URL` names two others in their place: `dns://192.0.2.1,dns://192.0.2.2`, the
one that filters and its twin that does not.
"""

from __future__ import annotations

from providers.base import Fields, RemoteSource, RemoteSpec
from providers.domain import filtered


def parse(withheld: bool) -> Fields:
    """What it means when a name is withheld."""
    return {"threat.malicious": True, "threat.categories": ["blocked by Quad9"]} if withheld else {}


SOURCE = RemoteSource(
    RemoteSpec(
        name="quad9",
        kind="domain",
        fields=frozenset({"threat.malicious", "threat.categories"}),
        licence="a public service, under its operator's terms",
        attribution="Quad9, https://quad9.net",
        base_url="dns://9.9.9.9,dns://9.9.9.10",
        timeout=3,
        ttl=3600,
        negative_ttl=3600,
        shared=False,
    ),
    filtered.fetch,
    parse,
)
