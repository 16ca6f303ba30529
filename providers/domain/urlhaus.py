"""URLhaus by abuse.ch: URLs on the domain that spread malware, and two blocklists' entries of the domain.

Such URLs alone do not make a host malicious: file-sharing sites have thousands, and many sites were broken
into. A domain is malicious if the Spamhaus DBL lists it as a bad actor's own, or SURBL lists it.
"""

from __future__ import annotations

from typing import Any

from providers.ip import abusech
from providers.ip.urlhausip import SERVICE, fetch, threats
from providers.sources.base import Fields, RemoteSource

# The DBL's other words are those for domains of others that were abused: `abused_legit_malware` …
_BAD_DOMAIN = "_domain"
_NOT_LISTED = "not listed"


def parse(raw: Any) -> Fields:
    """Read an answer."""
    if not abusech.has_data(raw):
        return {}
    lists: dict[str, str | None] = raw.get("blacklists") or {}
    spamhaus = lists.get("spamhaus_dbl") or _NOT_LISTED
    malicious = spamhaus.endswith(_BAD_DOMAIN) or lists.get("surbl") == "listed"
    categories = (threats(raw) | {spamhaus}) - {_NOT_LISTED}
    return {
        "threat.malicious": True if malicious else None,
        "threat.categories": sorted(categories) or None,
    }


SOURCE = RemoteSource(
    SERVICE.spec("urlhaus", "domain", "threat.malicious", "threat.categories", parser_version=2),
    fetch,
    parse,
)
