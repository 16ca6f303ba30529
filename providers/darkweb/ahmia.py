"""Ahmia: an index of onion sites, searched through its own search page.

The search form has a hidden field whose name and value change. Without it every search is redirected to the
start page. That is a failure, and never "no mentions", which a results page states.

The search is loose: it also shows pages that are merely similar to the query. A hit counts if its text in
Ahmia contains the query; others are marked as not matched.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import date, datetime
from html.parser import HTMLParser
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx

from outbound.response import retry_after
from providers.darkweb.mentions import MOST, has_query, mention, timestamp
from providers.sources.base import (
    REJECTIONS,
    Context,
    Evidence,
    Fields,
    Query,
    RemoteSource,
    RemoteSpec,
    SourceError,
)
from settings import Rate

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_SEEN = re.compile(
    r"([A-Za-z]{3})[a-z]*\.? (\d{1,2}), (\d{4})(?:, (\d{1,2})(?::(\d{2}))? ([ap])\.m\.|, (noon)|, midnight)?"
)
_NO_DESCRIPTION = "No description provided"
# It answers "Bad request" to longer ones.
_LONGEST, _MOST_WORDS = 100, 10


async def fetch(query: Query, context: Context) -> tuple[Query, str]:
    """Read the form, then search with its token; return the query with the page, which may hold other hits.

    Raises:
        SourceError: `bad_response`, if there is no form, or the search was redirected to it.
    """
    form = Form()
    form.feed(_page(await context.client.get(f"{context.base_url}/", timeout=context.timeout)))
    if not form.hidden:
        raise SourceError("bad_response", "no_form_token")
    response = await context.client.get(
        f"{context.base_url}/search/", params={"q": query.words, **form.hidden}, timeout=context.timeout
    )
    return query, _page(response)


def _page(response: httpx.Response) -> str:
    status = response.status_code
    if status == 429:
        raise SourceError("rate_limited", "http_429", retry_after(response.headers))
    if status >= 500:
        raise SourceError("error", f"http_{status}", retry_after(response.headers))
    if status != 200:
        rejected = status in REJECTIONS and response.request.url.path.endswith("/search/")
        raise SourceError("rejected" if rejected else "bad_response", f"http_{status}")
    return response.text


def parse(told: tuple[Query, str]) -> Fields:
    """Read a results page."""
    query, page = told
    results = Results()
    results.feed(page)
    if results.none:
        return {}
    found = [_mention(one, query) for one in results.found if (one.host or "").endswith(".onion")]
    if not found:
        raise SourceError("bad_response", "not_a_results_page")
    return {"results": found[:MOST], "total": sum(one["matched"] for one in found)}


@dataclass
class Result:
    """An entry of the page, while it is parsed."""

    host: str | None = None
    address: str = ""
    texts: dict[str, str] = field(default_factory=dict[str, str])
    seen: str | None = None


class Form(HTMLParser):
    """The hidden fields of the search form."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden: dict[str, str] = {}
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect a hidden field."""
        given = dict(attrs)
        if tag == "form":
            self._inside = (given.get("action") or "").startswith("/search")
        elif self._inside and tag == "input" and given.get("type") == "hidden" and given.get("name"):
            self.hidden[given["name"] or ""] = given.get("value") or ""

    def handle_endtag(self, tag: str) -> None:
        """Note the end of the form."""
        self._inside = self._inside and tag != "form"


class Results(HTMLParser):
    """The entries of a results page, and whether it states that there are none."""

    def __init__(self) -> None:
        super().__init__()
        self.none = False
        self.found: list[Result] = []
        self._entry: Result | None = None
        self._reading: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Enter an entry, or a part of one."""
        given = dict(attrs)
        if given.get("id") == "noResults":
            self.none = True
        if tag == "li":
            self._entry = Result() if given.get("class") == "result" else None
            if self._entry:
                self.found.append(self._entry)
        if self._entry is None:
            return
        if tag == "a" and self._reading == "h4" and self._entry.host is None:
            target = parse_qs(urlsplit(given.get("href") or "").query).get("redirect_url", [""])[0]
            self._entry.host, self._entry.address = urlsplit(target).hostname, target
        elif tag in ("h4", "p"):
            self._reading = tag
        elif tag == "span" and given.get("class") == "lastSeen":
            self._entry.seen = given.get("data-timestamp")

    def handle_endtag(self, tag: str) -> None:
        """Leave a part."""
        if tag == self._reading:
            self._reading = None

    def handle_data(self, data: str) -> None:
        """Read a part's text."""
        if self._entry and self._reading:
            self._entry.texts[self._reading] = self._entry.texts.get(self._reading, "") + data


def _mention(result: Result, query: Query) -> dict[str, Any]:
    texts = {part: " ".join(text.split()) for part, text in result.texts.items()}
    body = texts.get("p")
    found = mention(
        "ahmia",
        title=texts.get("h4"),
        body=None if body == _NO_DESCRIPTION else body,
        domain=result.host,
        crawl_date=_parse_moment(result.seen or ""),
    )
    shown = "\n".join((*texts.values(), result.address))
    return found | {"matched": has_query(shown, query.text, query.value)}


def _parse_moment(text: str) -> str | None:
    """Parse a moment in Ahmia's format, such as `Sept. 4, 2026, 8:34 a.m.`."""
    match = _SEEN.fullmatch(text.strip())
    if match is None or match[1].lower() not in _MONTHS:
        return None
    hour = 12 if match[7] else int(match[4] or 0) % 12 + (12 if match[6] == "p" else 0)
    month = _MONTHS.index(match[1].lower()) + 1
    try:
        return timestamp(datetime(int(match[3]), month, int(match[2]), hour, int(match[5] or 0)))
    except ValueError:
        return None


SOURCE = RemoteSource(
    RemoteSpec(
        name="ahmia",
        kind="darkweb",
        fields=frozenset({"results", "total"}),
        licence="Ahmia terms of service",
        terms="https://ahmia.fi/legal/",
        attribution="Ahmia, https://ahmia.fi",
        evidence=Evidence(
            "https://github.com/ahmia/ahmia-site/blob/master/ahmia/templates/tor_results.html",
            date(2026, 11, 21),
        ),
        base_url="https://ahmia.fi",
        personal=True,
        timeout=7,
        ttl=6 * 3600,
        negative_ttl=3600,
        rates=(Rate(20, 60),),
        parser_version=2,
    ),
    fetch,
    parse,
    takes=lambda query: len(query.words) <= _LONGEST and len(query.words.split(" ")) <= _MOST_WORDS,
)
