"""The common form of a page that a search engine found. Pure."""

from __future__ import annotations

import html
import re
from typing import Any

_TAG = re.compile(r"</?[a-z][^<>]*>", re.IGNORECASE)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}(?=T|\s|$)")


def page(title: str, url: str, snippet: str | None, published: str | None = None) -> dict[str, Any]:
    """Return the page in the form of the answer.

    Args:
        title: may hold HTML, as may the snippet.
        url: absolute.
        snippet: a piece of the page's text, if known.
        published: an ISO 8601 date or time; anything else counts as unknown.
    """
    found = _DATE.match(published or "")
    return {
        "title": plain(title) or url,
        "url": url,
        "snippet": plain(snippet or "") or None,
        "published": found[0] if found else None,
    }


def plain(text: str) -> str:
    """Return the text without tags and entities, on one line."""
    return " ".join(html.unescape(_TAG.sub("", text)).split())


def list_pages(pages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the pages with a web address; some engines list other items among them."""
    return [one for one in pages if one["url"].startswith(("https://", "http://"))]
