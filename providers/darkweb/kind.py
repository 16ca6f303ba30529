"""The kind `darkweb`: its sources in the order of precedence, and how their mentions become pages.

The mentions of all sources are merged, the latest first, and cut into pages of 20, which lie within blocks of
100.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from typing import Any

from models.errors import FieldError, Invalid
from models.names import folded_name
from providers.darkweb import ahmia, intelx, ransomwarelive
from providers.darkweb.answer import DarkwebAnswer
from providers.darkweb.hackishness import hackishness
from providers.sources.base import Fields, Query
from providers.sources.kind import Kind
from providers.sources.wording import may_be_more

PAGE, BLOCK = 20, 100
_SHORTEST, _LONGEST = 3, 256
_NO_TEXT = frozenset({"Cc", "Cs", "Cn", "Co"})
_EMAIL = re.compile(r"[^\s@\"(),:;<>\[\]\\]{1,64}@[^\s@.]+(\.[^\s@.]+)+")
_DOMAIN = re.compile(r"(?!-)[^\W_][\w-]{0,62}(\.[\w-]{1,63})*\.(?!\d+$)[\w-]{2,63}")


def normalise(text: str, pointer: str) -> Query:
    """Return the query with normalised spaces; `value` is its sort: `email`, `domain`, `ip` or `text`.

    Words are one query in whatever case they are written, so one block of their results is paid once.

    Raises:
        Invalid: if `text` contains nothing to search for.
    """
    if any(unicodedata.category(character) in _NO_TEXT for character in text.strip()):
        raise _invalid(pointer, "This has control characters in it")
    bare = unicodedata.normalize("NFC", " ".join(text.split()))
    if not _SHORTEST <= len(bare) <= _LONGEST:
        raise _invalid(pointer, f"A query has {_SHORTEST} to {_LONGEST} characters")
    if not any(character.isalnum() for character in bare):
        raise _invalid(pointer, "There is no letter or digit in this")
    sort = _sort(bare)
    if sort == "text":
        return Query("darkweb", folded_name(bare), sort, bare)
    return Query("darkweb", bare.lower(), sort)


def _sort(text: str) -> str:
    try:
        ip_address(text)
    except ValueError:
        if _EMAIL.fullmatch(text):
            return "email"
        return "domain" if _DOMAIN.fullmatch(text) else "text"
    return "ip"


def _invalid(pointer: str, complaint: str) -> Invalid:
    message = f"{complaint}; give an e-mail address, a domain, an IP address or words, such as example.com."
    return Invalid([FieldError(pointer, "invalid_query", message)])


def cut_page(fields: Fields, offset: int, limit: int | None) -> Fields:
    """Return one page, the latest mentions first. It ends with its block, unless it is longer than a block.

    Mentions without the query in their text come last and do not count. Longer lists, such as those for
    comparisons, do not have them.
    """
    found = sorted(fields.get("results", []), key=lambda one: one["crawl_date"] or "", reverse=True)
    found.sort(key=_shows_query, reverse=True)
    most = limit or PAGE
    if most > BLOCK:
        found = [one for one in found if _shows_query(one)]
    end = offset + most if most > BLOCK else min(offset + most, (offset // BLOCK + 1) * BLOCK)
    page = found[offset:end]
    page = [one | {"hackishness": hackishness(one), "matched": _shows_query(one)} for one in page]
    count = sum(map(_shows_query, page))
    return {**fields, "results": page, "result_count": count, "total": total_of(fields)}


def _shows_query(mention: Mapping[str, Any]) -> bool:
    """Return whether the query is in the text that the source shows; some sources show no other mentions."""
    return mention.get("matched", True)


def total_of(fields: Mapping[str, Any]) -> int:
    """Return the number of mentions: the greatest that a source reports, or of the merged list if larger."""
    return max(fields.get("total", 0), sum(map(_shows_query, fields.get("results", []))))


def message(fields: Mapping[str, Any], silent: Sequence[str]) -> str:
    """Return the number of mentions in words, and the silent sources, which may know of others."""
    if "results" not in fields and "total" not in fields:
        return "Whether the dark web has this is not known: no source was asked."
    total = total_of(fields)
    found = "One mention was found." if total == 1 else f"{total or 'No'} mentions were found."
    return found + may_be_more(silent)


def cost(fields: Mapping[str, Any]) -> int:
    """Return 1 for the block that contains the page, or 0 if no mention in it counts."""
    return int(any(map(_shows_query, fields.get("results", []))))


KIND = Kind(
    name="darkweb",
    sources=(intelx.SOURCE, ransomwarelive.SOURCE, ahmia.SOURCE),
    answer=DarkwebAnswer,
    example="example.com",
    rules={"results": "union", "total": "max"},
    normalise=normalise,
    echo="query",
    none={"total": (0, "results")},
    counted=frozenset({"total"}),
    scored=frozenset({"results.hackishness"}),
    message=message,
    origins={"total": ("results",), "result_count": ("results",), "message": ("results",)},
    priced=frozenset({"results"}),
    price=1,
    cost=cost,
    cut=cut_page,
    block=BLOCK,
)
