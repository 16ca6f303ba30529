"""A mention in the form of the answer: without secrets, and with the names in its text listed."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from ipaddress import ip_address
from typing import Any

from providers.darkweb.redaction import redact

MOST = 1000
"""The most mentions that are read from one source."""

_LONGEST_BODY = 20_000
_MOST_NAMED = 50
_EMAIL = re.compile(r"[a-z0-9._%+'-]{1,64}@[a-z0-9-]+(?:\.[a-z0-9-]+)*\.[a-z]{2,24}", re.IGNORECASE)
_ADDRESS = re.compile(
    r"(?<![\w.:])(?:\d{1,3}(?:\.\d{1,3}){3}|(?:[0-9a-f]{0,4}:){2,7}[0-9a-f]{0,4})(?![\w:]|\.\d)", re.I
)
_CVE = re.compile(r"\bCVE-\d{4}-\d{4,7}\b", re.IGNORECASE)


def mention(
    source: str,
    *,
    title: str | None,
    body: str | None,
    domain: str | None = None,
    crawl_date: str | None = None,
    **parts: Any,
) -> dict[str, Any]:
    """Return a mention without its score.

    `parts` are those that only some sources have (`leak`, `paste` …), left out when None.
    """
    title = redact(title.strip()) if title else None
    body = redact(body.strip()[:_LONGEST_BODY]) if body else None
    text = f"{title or ''}\n{body or ''}"
    named = {
        "ips": _unique(address for address in _ADDRESS.findall(text) if _is_address(address)),
        "cves": _unique(name.upper() for name in _CVE.findall(text)),
    }
    return {
        "source": source,
        "title": title or None,
        "body": body or None,
        "domain": domain,
        "crawl_date": crawl_date,
        "emails": _unique(email.lower() for email in _EMAIL.findall(text)),
        **{name: part for name, part in (parts | named).items() if part},
    }


def has_query(text: str, query: str, sort: str) -> bool:
    """Return whether a text contains a query, in any case; of a query of words, each word.

    A part of a longer address or name does not match: `ada@example.com` in `bada@example.com`, `1.1.1.1` in
    `1.1.1.15`. A domain does match where a name below it occurs.

    Args:
        text: the text to search.
        query: normalised.
        sort: `email`, `domain`, `ip` or `text`.
    """
    words = query.split() if sort == "text" else [query]
    before = r"(?<![\w-])" if sort in ("domain", "text") else r"(?<![\w.+-])"
    after = r"(?!\w)" if sort == "text" else r"(?!\.?[\w-])"
    return all(re.search(before + re.escape(word) + after, text, re.IGNORECASE) for word in words)


def timestamp(moment: datetime) -> str:
    """Return a moment in the form of the answer; a naive one counts as UTC."""
    moment = moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    return f"{moment.replace(microsecond=0, tzinfo=None).isoformat()}Z"


def iso_timestamp(text: str | None) -> str | None:
    """Return the same for an ISO 8601 text; None if it is invalid."""
    try:
        return timestamp(datetime.fromisoformat(text)) if text else None
    except ValueError:
        return None


def _unique(names: Any) -> list[str]:
    return list(dict.fromkeys(names))[:_MOST_NAMED]


def _is_address(text: str) -> bool:
    try:
        return ip_address(text).is_global
    except ValueError:
        return False
