"""The parsing of WHOIS answers: text for people, in as many forms as there are registries. Pure."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from datetime import date

from providers.sources.base import Fields, SourceError
from settings import Rate

FIELDS = frozenset(
    f"whois.{name}" for name in ("registered", "registrar", "created", "expires", "name_servers")
)
"""The fields that registries report about a domain."""

NOMINET = (Rate(5, 1), Rate(1000, 86400))
"""The rates of the registry of .uk, for all requests of one user.

https://www.nominet.uk/uk-domain-names/about-domain-names/domain-lookup-whois/acceptable-use-policy
"""

TTL = 6 * 3600
"""Seconds. Short, because an unregistered domain may be registered within the hour."""

_KEYS = {
    name: field
    for field, names in {
        "registrar": "registrar, registrar name, sponsoring registrar, domain registrar",
        "created": "activated on, created, created date, created on, creation date, date registered, "
        "domain create date, domain created, domain creation date, domain name commencement date, "
        "domain record activated, domain registration date, domain_dateregistered, first registration date, "
        "record created, record created on, registered, registered date, registered on, registration, "
        "registration date, registration time",
        "expires": "domain currently expires, domain expiration date, domain expires, exp date, expiration, "
        "expiration date, expiration time, expire, expire date, expire-date, expired, expires, expires at, "
        "expires on, expiry, expiry date, paid-till, record expired, record expires on, "
        "registrar registration expiration date, registry expiry date, renewal, renewal date, valid until, "
        "valid-date, validity",
        "name_servers": "domain nameservers, domain servers, name server, name servers, nameserver, "
        "nameservers, nserver",
    }.items()
    for name in names.split(", ")
}
# The end of a name and the start of its value: `name: value`, `[name] value`, `name.....: value`, and a few
# with no separator.
_LINE = re.compile(
    r"(?:[a-z] )?\[(?P<boxed>[^\]]{2,40})\]\s*(?P<value>.*)"
    r"|(?P<bare>record (?:created|expires) on|registered on|valid-date)\s+(?P<beside>\S.*)"
    r"|(?P<name>[^:]{2,60}?)[.\s]*:\s*(?P<told>.*)$",
    re.IGNORECASE,
)
# Every repetition is bounded, because a server may send text that is made to take long.
_NAMED = r"[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}"
_GAP = r"[^\w\n]{0,30}"
# Whole lines, because the terms of use that some servers append contain such words, too.
_UNREGISTERED = re.compile(
    rf"^{_GAP}(?:error{_GAP}\d{{0,9}}{_GAP})?(?:"
    rf"(?:(?:the |this |above |sorry, but )?domain(?: name)?\b{_GAP})?(?:{_NAMED}{_GAP}\b)?"
    r"(?:(?:is|was|has|does) )?(?:not (?:found|registe?red|been registered|exist)\b|no match\b|no existe\b"
    rf"|free{_GAP}$|available(?:{_GAP}$| for (?:purchase|registration)))"
    r"|no (?:entries|data|objects?|matching record)(?: was| were)? found|no matching record|nothing found"
    r"|no found|no such domain|(?:data|key|object|the queried object) (?:not found|does not exist)"
    r"|no_se_encontro|we do not have an entry in our database|this query returned 0 objects"
    r"|this domain is not available in our whois database|no information available about domain"
    r"|(?:domain )?status:\s*(?:free|available|not registered|no object found))",
    re.IGNORECASE | re.MULTILINE,
)
# Short lines, for the same reason.
_LIMITED = re.compile(
    r"^.{0,60}(?:limit exceeded|exceeded .{0,60}(?:limit|quota)|too many (?:requests|queries)|quota exceeded"
    r"|access denied|number of allowed queries).{0,60}$",
    re.IGNORECASE | re.MULTILINE,
)
_HOST = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)+", re.IGNORECASE)
_MONTHS: tuple[str, ...] = tuple("jan feb mar apr may jun jul aug sep oct nov dec".split())
_MONTH = rf"(?P<month>(?:{'|'.join(_MONTHS)})[a-z]*)"
_DATES = tuple(
    re.compile(form, re.IGNORECASE)
    for form in (
        r"(?P<year>\d{4})([-/.]) ?(?P<month>\d{1,2})\2 ?(?P<day>\d{1,2})(?!\d)",
        r"(?P<year>\d{4})(?P<month>\d\d)(?P<day>\d\d)(?!\d)",
        # Purely numeric dates with the year last have the day first.
        r"(?P<day>\d{1,2})([-/.])(?P<month>\d{1,2})\2(?P<year>\d{4})(?!\d)",
        rf"(?P<year>\d{{4}})-{_MONTH}-(?P<day>\d{{1,2}})(?!\d)",
        rf"(?P<day>\d{{1,2}})(?:st|nd|rd|th)?[-. ]{_MONTH}[-., ]+(?P<year>\d{{4}})(?!\d)",
        rf"(?:[a-z]{{3}} )?{_MONTH} +(?P<day>\d{{1,2}})(?: [\d:]+(?: [a-z]+)?)? (?P<year>\d{{4}})(?!\d)",
    )
)


def referral(text: str) -> str | None:
    """Return the WHOIS server that IANA's answer about a TLD names, or None."""
    found = re.search(r"^(?:refer|whois):[ \t]*([a-z0-9.-]+)[ \t]*\r?$", text, re.IGNORECASE | re.MULTILINE)
    return found[1].lower() if found else None


def parse(text: str) -> Fields:
    """Read a registry's answer about a domain.

    Raises:
        SourceError: `rate_limited`, or `bad_response` if nothing in it is readable.
    """
    found: dict[str, list[str]] = {}
    for name, value in _pairs(text):
        found.setdefault(name, []).append(value)
    servers = sorted({host for line in found.get("name_servers", []) if (host := _host(line))})
    fields: Fields = {
        "whois.registered": True,
        "whois.registrar": next(iter(found.get("registrar", [])), None),
        "whois.created": _date(found.get("created")),
        "whois.expires": _date(found.get("expires")),
    }
    if servers or any(value for path, value in fields.items() if path != "whois.registered"):
        return fields | {"whois.name_servers": servers}
    if _LIMITED.search(text):
        raise SourceError("rate_limited", "whois_limit")
    if _UNREGISTERED.search(text):
        return {"whois.registered": False}
    raise SourceError("bad_response", "unexpected_shape")


def is_unregistered(text: str) -> bool:
    """Return whether that answer is readable and reports the domain as not registered."""
    with contextlib.suppress(SourceError):
        return parse(text)["whois.registered"] is False
    return False


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    """Yield the values of the lines under our names; values may be indented below their name."""
    open_name: str | None = None
    for line in text.splitlines():
        if line.lstrip()[:1] in ("%", "#", ">"):
            continue
        if not line.strip():
            open_name = None
            continue
        match = _LINE.match(line.strip())
        named = _KEYS.get(_name(match)) if match else None
        if match and named:
            value = (match["value"] or match["beside"] or match["told"] or "").strip(' "')
            open_name = None if value else named
            if value:
                yield named, value
        elif open_name and line[:1].isspace():
            yield open_name, line.strip()
        else:
            open_name = None


def _name(line: re.Match[str]) -> str:
    """Return the name in a line, in lower case and without a part in brackets after it."""
    return (line["boxed"] or line["bare"] or line["name"]).partition("(")[0].strip().lower()


def _host(line: str) -> str | None:
    """Return the first word, if it is a host name; addresses may follow it."""
    word = line.split()[0].rstrip(".").lower()
    return word if _HOST.fullmatch(word) else None


def _date(values: list[str] | None) -> str | None:
    return next((day.isoformat() for value in values or [] if (day := _day(value))), None)


def _day(value: str) -> date | None:
    """Return the day at the start of the value, in any form, or None."""
    for form in _DATES:
        found = form.match(value)
        if found:
            name = found["month"]
            month = int(name) if name.isdigit() else _MONTHS.index(name[:3].lower()) + 1
            with contextlib.suppress(ValueError):
                return date(int(found["year"]), month, int(found["day"]))
    return None
