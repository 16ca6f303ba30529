"""The address ranges that cloud and delivery networks publish as their own.

An address in them is hosted there; the tenant is not published.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Any

import orjson

from providers.datasets.lists import Lists, merge_networks
from providers.ip import listed
from providers.sources.base import Evidence, Fields, Spec

_FILES = {
    "aws": "https://ip-ranges.amazonaws.com/ip-ranges.json",
    "gcp": "https://www.gstatic.com/ipranges/cloud.json",
    "cloudflare": "https://api.cloudflare.com/client/v4/ips",
    "fastly": "https://api.fastly.com/public-ip-list",
    "github": "https://api.github.com/meta",
}
_COMPANIES = {
    "aws": ("Amazon Web Services", "aws.amazon.com"),
    "gcp": ("Google Cloud", "cloud.google.com"),
    "cloudflare": ("Cloudflare", "cloudflare.com"),
    "fastly": ("Fastly", "fastly.com"),
    "github": ("GitHub", "github.com"),
}
# GitHub's own addresses. Those of `actions` belong to the cloud that runs them.
_GITHUB = ("hooks", "web", "api", "git", "packages", "pages", "importer")


def tables(files: dict[str, bytes]) -> listed.Tables:
    """Read the publishers' JSON, each in its own shape."""
    try:
        return {
            "ranges": [
                row
                for name in _FILES
                for row in merge_networks(_networks(name, orjson.loads(files[name])), name, fewest=5)
            ]
        }
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"the ranges have another shape ({type(error).__name__})") from None


def _networks(name: str, told: Any) -> Iterator[str]:
    match name:
        case "aws":
            yield from (entry["ip_prefix"] for entry in told["prefixes"])
            yield from (entry["ipv6_prefix"] for entry in told["ipv6_prefixes"])
        case "gcp":
            yield from (entry.get("ipv4Prefix") or entry["ipv6Prefix"] for entry in told["prefixes"])
        case "cloudflare":
            yield from told["result"]["ipv4_cidrs"]
            yield from told["result"]["ipv6_cidrs"]
        case "fastly":
            yield from told["addresses"]
            yield from told["ipv6_addresses"]
        case _:
            yield from (network for service in _GITHUB for network in told.get(service, []))


def meaning(label: str) -> Fields:
    """Return the fields of an address in a range of the cloud `label`."""
    name, domain = _COMPANIES[label]
    return {
        "security.is_hosting": True,
        "company.name": name,
        "company.domain": domain,
        "company.type": "hosting",
    }


DATASET = listed.dataset("cloud", Lists("the clouds", "cloud", _FILES, "published by each operator"), tables)
SOURCE = listed.source(
    Spec(
        name="cloud",
        kind="ip",
        fields=frozenset({"security.is_hosting", "company.name", "company.domain", "company.type"}),
        licence="published by each operator",
        attribution="AWS, Google Cloud, Cloudflare, Fastly and GitHub, " + ", ".join(_FILES.values()),
        evidence=Evidence(
            "https://docs.aws.amazon.com/vpc/latest/userguide/aws-ip-syntax.html", date(2026, 11, 22)
        ),
        dataset=DATASET.name,
    ),
    {"ranges": meaning},
)
