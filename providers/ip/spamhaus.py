"""Spamhaus DROP: networks that are hijacked or run by criminals, with which no traffic should be exchanged.

Free for any use, with attribution to Spamhaus; it must not be fetched more than once an hour.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

import orjson

from providers.datasets.lists import Lists, lines, merge_networks
from providers.ip import listed
from providers.sources.base import Evidence, Spec


def tables(files: dict[str, bytes]) -> listed.Tables:
    """Read the lists: a JSON object a line, the last one about the list itself."""
    return {"drop": merge_networks((*_networks(files["v4"]), *_networks(files["v6"])), "drop", fewest=50)}


def _networks(content: bytes) -> Iterator[str]:
    for line in lines(content):
        entry = orjson.loads(line)
        if not isinstance(entry, dict):
            raise ValueError("a line is not an object")
        if "cidr" in entry:
            yield str(entry["cidr"])  # pyright: ignore[reportUnknownArgumentType]


DATASET = listed.dataset(
    "spamhaus",
    Lists(
        "Spamhaus",
        "spamhaus",
        {version: f"https://www.spamhaus.org/drop/drop_{version}.json" for version in ("v4", "v6")},
        "free for any use, naming Spamhaus",
    ),
    tables,
)
SOURCE = listed.source(
    Spec(
        name="spamhaus",
        kind="ip",
        fields=frozenset({"security.is_abuse"}),
        licence="free for any use, naming Spamhaus",
        commercial="yes",
        terms="https://www.spamhaus.org/faqs/do-not-route-or-peer-drop/",
        attribution="The Spamhaus Project, https://www.spamhaus.org/drop",
        evidence=Evidence("https://www.spamhaus.org/faqs/do-not-route-or-peer-drop/", date(2026, 11, 22)),
        dataset=DATASET.name,
    ),
    {"drop": lambda _: {"security.is_abuse": True}},
)
