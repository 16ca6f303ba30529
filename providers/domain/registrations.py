"""Reading what WHOIS servers answer: text for people, in as many forms as there are registries. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, datetime

from providers.base import Fields, SourceError

_KEYS = {
    "registrar": "registrar",
    "registrar name": "registrar",
    "sponsoring registrar": "registrar",
    "created": "created",
    "created on": "created",
    "creation date": "created",
    "registered": "created",
    "registered on": "created",
    "registration date": "created",
    "registration time": "created",
    "domain registration date": "created",
    "expires": "expires",
    "expires on": "expires",
    "expire": "expires",
    "expire date": "expires",
    "expiry date": "expires",
    "expiration date": "expires",
    "expiration time": "expires",
    "registry expiry date": "expires",
    "registrar registration expiration date": "expires",
    "paid-till": "expires",
    "renewal date": "expires",
    "name server": "name_servers",
    "name servers": "name_servers",
    "nameserver": "name_servers",
    "nameservers": "name_servers",
    "nserver": "name_servers",
}
# Where a name ends and its value begins: `name: value`, `[name] value` or `name.....: value`.
_LINE = re.compile(
    r"\[(?P<boxed>[^\]]{2,40})\]\s*(?P<value>.*)|(?P<name>[^:]{2,60}?)[.\s]*:(?:\s+(?P<told>.*))?$"
)
_UNREGISTERED = re.compile(
    r"^\W*(no match|not found|no entries found|no data found|no object found|nothing found|no such domain"
    r"|domain (name )?(not found|is available|.{0,80}(not registered|is free))|status:\s*(free|available)"
    r"|no matching record|object does not exist|the queried object does not exist|.{0,80} is free$"
    r"|.{0,80}no match for)",
    re.IGNORECASE | re.MULTILINE,
)
_LIMITED = re.compile(
    r"limit exceeded|exceeded .{0,60}(limit|quota)|too many (requests|queries)|quota exceeded|access denied"
    r"|number of allowed queries",
    re.IGNORECASE,
)
_HOST = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)+", re.IGNORECASE)
_FORMATS = ("%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d", "%Y. %m. %d", "%d-%b-%Y", "%d %b %Y", "%d.%m.%Y", "%Y%m%d")


def referral(text: str) -> str | None:
    """The WHOIS server that IANA's answer about a TLD names."""
    found = re.search(r"^(?:refer|whois):[ \t]*([a-z0-9.-]+)[ \t]*\r?$", text, re.IGNORECASE | re.MULTILINE)
    return found[1].lower() if found else None


def parse(text: str) -> Fields:
    """Read a registry's answer about a domain; no fields if it is not registered.

    Raises:
        SourceError: `rate_limited`, or `bad_response` if nothing in it can be read.
    """
    found: dict[str, list[str]] = {}
    for name, value in _pairs(text):
        found.setdefault(name, []).append(value)
    servers = sorted({host for line in found.get("name_servers", []) if (host := _host(line))})
    fields: Fields = {
        "whois.registrar": next(iter(found.get("registrar", [])), None),
        "whois.created": _date(found.get("created")),
        "whois.expires": _date(found.get("expires")),
    }
    if servers or any(fields.values()):
        return fields | {"whois.name_servers": servers}
    if _LIMITED.search(text):
        raise SourceError("rate_limited", "whois_limit")
    if _UNREGISTERED.search(text):
        return {}
    raise SourceError("bad_response", "unexpected_shape")


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    """What the lines tell, under our names; values may stand indented below their name."""
    open_name: str | None = None
    for line in text.splitlines():
        if line.lstrip()[:1] in ("%", "#", ">"):
            continue
        if not line.strip():
            open_name = None
            continue
        match = _LINE.match(line.strip())
        named = _KEYS.get((match["boxed"] or match["name"]).strip().lower()) if match else None
        if match and named:
            value = (match["value"] or match["told"] or "").strip()
            open_name = None if value else named
            if value:
                yield named, value
        elif open_name and line[:1].isspace():
            yield open_name, line.strip()
        else:
            open_name = None


def _host(line: str) -> str | None:
    """The first word, if it is a host name; addresses may follow it."""
    word = line.split()[0].rstrip(".").lower()
    return word if _HOST.fullmatch(word) else None


def _date(values: list[str] | None) -> str | None:
    for value in values or []:
        day = _day(value)
        if day is not None:
            return day.isoformat()
    return None


def _day(value: str) -> date | None:
    """The day, whatever the form; the time after it is left out."""
    for form in _FORMATS:
        words = len(form.split())
        text = " ".join(re.split(r"[T\s]", value)[:words]).rstrip(".Z")
        try:
            return datetime.strptime(text, form).date()
        except ValueError:
            continue
    return None
