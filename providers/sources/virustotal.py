"""Common parts of VirusTotal's sources: the requests, and the terms, key and rates of one account."""

from __future__ import annotations

from collections.abc import Collection
from datetime import date

from providers.sources.base import Evidence, RemoteSpec
from providers.sources.rest import Get
from settings import Rate


def request_object(path: str) -> Get:
    """Return the request for one of the objects under a path of VirusTotal's API."""
    return Get(path=f"/{path}/{{query}}", headers={"x-apikey": "{key}"}, statuses={404: "empty"})


def declare_source(
    name: str, kind: str, fields: Collection[str], *, page: str, parser_version: int
) -> RemoteSpec:
    """Return the spec of a source of VirusTotal's.

    Args:
        name: of the source.
        kind: the kind of lookup.
        fields: that it can know.
        page: of VirusTotal's reference that describes the object.
        parser_version: of its parser.
    """
    return RemoteSpec(
        name=name,
        kind=kind,
        fields=frozenset(fields),
        licence="VirusTotal terms of service; the public API is not for commercial use",
        commercial="no",
        terms="https://docs.virustotal.com/reference/public-vs-premium-api",
        attribution="VirusTotal, https://www.virustotal.com",
        evidence=Evidence(f"https://docs.virustotal.com/docs/{page}", date(2026, 11, 22)),
        base_url="https://www.virustotal.com/api/v3",
        key="required",
        account="virustotal",
        timeout=5,
        ttl=86400,
        negative_ttl=86400,
        rates=(Rate(4, 60), Rate(500, 86400)),
        parser_version=parser_version,
    )
