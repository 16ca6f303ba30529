"""WhatsMyName: hundreds of sites, each asked whether it has an account of the name.

Disabled unless `VEDETTE_PROVIDER_WHATSMYNAME_ENABLED=1`: it sends the name to all these sites, from this
machine's address. Third parties write the list of sites, so every request goes through the guard, whatever
the base URL is, which only names a mirror of the list.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from datetime import date

import httpx

from outbound.errors import OutboundError
from providers.sources.base import Context, Evidence, Fields, Query, RemoteSource, RemoteSpec, SourceError
from providers.username.sites import DATASET, Site, open_sites
from settings import Rate

_AT_ONCE = 40
_SITE_SECONDS = 4.0
_MOST_BYTES = 1024 * 1024
_EVIDENCE_LENGTH = 80


@dataclass(frozen=True)
class Visit:
    """The answer of one site that reported whether it has the account."""

    site: Site
    account: str
    found: bool


async def fetch(query: Query, context: Context) -> list[Visit]:
    """Ask all sites that allow such a name; those that do not answer in time are left out.

    Raises:
        SourceError: `skipped` without the list; `error` if no site answers.
    """
    sites = context.datasets.get(DATASET.name, open_sites) if context.datasets else None
    if sites is None:
        raise SourceError("skipped", "no_data")
    answers: dict[Site, bool] = {}
    places = asyncio.Semaphore(_AT_ONCE)

    async def visit(site: Site) -> None:
        async with places:
            found = await _has(site, query.text, context.client)
        if found is not None:
            answers[site] = found

    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(context.timeout * 0.9), asyncio.TaskGroup() as visits:
            for site in sites:
                if site.allows(query.text):
                    visits.create_task(visit(site))
    if not answers:
        raise SourceError("error", "no_site_answers")
    return [Visit(site, query.text, answers[site]) for site in sites if site in answers]


async def _has(site: Site, account: str, client: httpx.AsyncClient) -> bool | None:
    try:
        response = await client.get(
            site.url(account), timeout=_SITE_SECONDS, extensions={"max_bytes": _MOST_BYTES}
        )
    except (OutboundError, httpx.InvalidURL, ValueError):  # a list may hold any text as a URL
        return None
    return site.has(response.status_code, response.text)


def parse(raw: list[Visit]) -> Fields:
    """Return the accounts, and the number of sites that reported whether they have one."""
    found = [
        {
            "site": visit.site.name,
            "url": visit.site.page(visit.account),
            "category": visit.site.category,
            "evidence": f"status {visit.site.found_status}, and the page has "
            f"“{visit.site.found_text[:_EVIDENCE_LENGTH]}”, as WhatsMyName lists it",
        }
        for visit in raw
        if visit.found
    ]
    return {"found": found or None, "checked": len(raw)}


SOURCE = RemoteSource(
    RemoteSpec(
        name="whatsmyname",
        kind="username",
        fields=frozenset({"found", "checked"}),
        licence="CC BY-SA 4.0",
        terms="https://github.com/WebBreacher/WhatsMyName/blob/main/LICENSE",
        attribution="WhatsMyName by Micah Hoffman and others, https://github.com/WebBreacher/WhatsMyName",
        evidence=Evidence(
            "https://github.com/WebBreacher/WhatsMyName/blob/main/wmn-data-schema.json", date(2026, 11, 21)
        ),
        enabled=False,
        dataset=DATASET.name,
        timeout=7.5,
        ttl=86400,
        negative_ttl=86400,
        rates=(Rate(30, 60),),
        active=True,
        personal=True,
    ),
    fetch,
    parse,
)
