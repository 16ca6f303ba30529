"""Common parts of the services of abuse.ch: one Auth-Key for all, and the statuses of their answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from providers.sources.base import Evidence, RemoteSpec, SourceError

ACCOUNT = "urlhaus"
"""The source whose key serves all of them."""

_NOTHING = frozenset({"no_results", "no_result"})
_REJECTED = frozenset({"invalid_host", "illegal_search_term"})


@dataclass(frozen=True)
class Service:
    """One of the services: its attribution, its address, and the page that documents it."""

    attribution: str
    base_url: str
    evidence: Evidence

    def spec(self, name: str, kind: str, *fields: str, parser_version: int = 1) -> RemoteSpec:
        """Return the declaration of the service's source `name`."""
        return RemoteSpec(
            name=name,
            kind=kind,
            fields=frozenset(fields),
            licence="abuse.ch terms of use",
            terms="https://abuse.ch/terms-of-use/",
            attribution=self.attribution,
            evidence=self.evidence,
            base_url=self.base_url,
            key="required",
            account=ACCOUNT,
            timeout=5,
            ttl=3600,
            negative_ttl=3600,
            parser_version=parser_version,
        )


def has_data(raw: Any) -> bool:
    """Return whether an answer, which always comes with status 200, has data in it.

    Raises:
        SourceError: `auth_failed` for a key unknown to abuse.ch, `rejected` for a query it does not accept,
            `bad_response` for other refusals.
    """
    status = raw["query_status"]
    if status == "unknown_auth_key":
        raise SourceError("auth_failed", status)
    if status in _REJECTED:
        raise SourceError("rejected", status)
    if status != "ok" and status not in _NOTHING:
        raise SourceError("bad_response", "query_refused")
    return status == "ok"
