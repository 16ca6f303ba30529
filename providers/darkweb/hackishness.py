"""The hackishness of a mention: a score from 0 to 1 by published rules.

No source supplies one. The same mention has the same score, whichever source found it and whenever.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from providers.darkweb.redaction import REDACTED

# Hundredths: for the sort of a mention, the most of these that apply; then for its content.
_SORTS = {"leak": 50, "market": 50, "forum": 40, "chat": 40, "irc": 40, "paste": 30}
_PAGE = 10
_CREDENTIALS, _TERM, _ACTOR, _CVE = 30, 5, 10, 10
_MOST_TERMS = 4
_READ = 4_000
_TERMS = re.compile(
    r"\b(0day|botnet|breach(?:ed)?|brute ?force|carding|combo ?list|cracked|credentials|cvv|databases?|ddos"
    r"|dox|dump(?:s|ed)?|exfiltrated|exploits?|extortion|fullz|hack(?:s|ed|er|ers|ing)?|infostealer|keylogger"
    r"|leak(?:s|ed)?|malware|passwords?|phishing|ransom(?:ware)?|rootkit|shells?|spyware|stealer|stolen"
    r"|trojan|zero-?day)\b",
    re.IGNORECASE,
)


def hackishness(mention: Mapping[str, Any]) -> float:
    """Return the score of a mention, as `mentions.mention` makes it."""
    text = f"{mention.get('title') or ''}\n{mention.get('body') or ''}"[:_READ]
    score = max((points for sort, points in _SORTS.items() if mention.get(sort)), default=_PAGE)
    if REDACTED in text:
        score += _CREDENTIALS
    score += _TERM * min(_MOST_TERMS, len({term.lower() for term in _TERMS.findall(text)}))
    leak: Mapping[str, Any] = mention.get("leak") or {}
    if leak.get("actors"):
        score += _ACTOR
    if mention.get("cves"):
        score += _CVE
    return min(score, 100) / 100
