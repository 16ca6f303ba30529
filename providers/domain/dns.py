"""DNS: the records of a name, from public name servers. Each type is queried, and fails, on its own.

Asked of the machine's name servers and then of a public resolver, or of those in
`VEDETTE_PROVIDER_DNS_BASE_URL` (`dns://192.0.2.1:53`, several with commas).
"""

from __future__ import annotations

import asyncio
from datetime import date

import dns.rdata
from dns.rdtypes.ANY.CAA import CAA
from dns.rdtypes.ANY.MX import MX
from dns.rdtypes.ANY.NS import NS
from dns.rdtypes.ANY.SOA import SOA
from dns.rdtypes.ANY.TXT import TXT

from models.domains import Domain
from providers.sources.base import (
    Context,
    Evidence,
    Fields,
    Query,
    RemoteSource,
    RemoteSpec,
    SourceError,
    Unsure,
)
from providers.sources.nameservers import records, resolvers

_TYPES = ("A", "AAAA", "MX", "TXT", "NS", "SOA", "CAA")

Answer = dict[str, list[str] | SourceError]
"""Type → its records as texts, or the error."""


async def fetch(query: Query, context: Context) -> Answer | None:
    """Query all types at once; None if the name does not exist.

    Raises:
        SourceError: `timeout` or `error`, if no type of the name itself is answered.
    """
    domain: Domain = query.value
    asked = resolvers(context.base_url)
    seconds = context.timeout * 0.9
    questions = [(kind, domain.name, kind) for kind in _TYPES]
    questions.append(("DMARC", f"_dmarc.{domain.name}", "TXT"))
    if domain.registered != domain.name:
        questions.append(("ORGANISATION", f"_dmarc.{domain.registered}", "TXT"))
    answers = await asyncio.gather(
        *(records(asked, name, kind, seconds) for _, name, kind in questions), return_exceptions=True
    )
    texts: Answer = {}
    for (label, _, _), answer in zip(questions, answers, strict=True):
        if isinstance(answer, SourceError):
            texts[label] = answer
        elif isinstance(answer, BaseException):
            raise answer
        elif answer is None and label in _TYPES:
            return None
        else:
            texts[label] = sorted(map(_text, answer or []))
    failures = [answer for kind in _TYPES if isinstance(answer := texts[kind], SourceError)]
    if len(failures) == len(_TYPES):
        raise failures[0]
    return texts


def _text(record: dns.rdata.Rdata) -> str:
    match record:
        case MX():
            return f"{record.preference} {record.exchange.to_text(omit_final_dot=True).lower()}"
        case NS():
            return record.target.to_text(omit_final_dot=True).lower()
        case TXT():
            return b"".join(record.strings).decode(errors="replace")
        case SOA():
            names = (record.mname, record.rname)
            texts = [name.to_text(omit_final_dot=True).lower() for name in names]
            numbers = (record.serial, record.refresh, record.retry, record.expire, record.minimum)
            return " ".join([*texts, *map(str, numbers)])
        case CAA():
            return f'{record.flags} {record.tag.decode()} "{record.value.decode(errors="replace")}"'
        case _:
            return record.to_text()


def parse(raw: Answer | None) -> Fields:
    """Return the records as fields.

    The registered domain's policy applies to names without one (RFC 7489).
    """
    if raw is None:
        return {}
    fields: Fields = {}
    for kind in _TYPES:
        records = raw[kind]
        fields[f"dns.{kind.lower()}"] = (
            Unsure(why=records.detail) if isinstance(records, SourceError) else records
        )
    if isinstance(raw["MX"], list):
        fields["dns.mx"] = sorted(raw["MX"], key=_preference)
    if isinstance(raw["SOA"], list):
        fields["dns.soa"] = next(iter(raw["SOA"]), None)
    return fields | {"dns.dmarc": _dmarc(raw["DMARC"], raw.get("ORGANISATION", []))}


def _dmarc(own: list[str] | SourceError, inherited: list[str] | SourceError) -> str | Unsure | None:
    """Return the policy of the name, or else of the registered domain; unsure if the name's is unknown."""
    if isinstance(own, SourceError):
        return Unsure(None if isinstance(inherited, SourceError) else _policy(inherited), own.detail)
    policy = _policy(own)
    if isinstance(inherited, SourceError):
        return policy or Unsure(why=inherited.detail)
    return policy or _policy(inherited)


def _preference(text: str) -> tuple[int, str]:
    number, _, host = text.partition(" ")
    return int(number), host


def _policy(texts: list[str]) -> str | None:
    return next((text for text in texts if text.lower().startswith("v=dmarc1")), None)


SOURCE = RemoteSource(
    RemoteSpec(
        name="dns",
        kind="domain",
        fields=frozenset(f"dns.{kind.lower()}" for kind in (*_TYPES, "dmarc")),
        licence="none: DNS is public",
        commercial="yes",
        attribution="the domain's name servers",
        evidence=Evidence("https://www.rfc-editor.org/rfc/rfc1035", date(2026, 11, 22)),
        timeout=4,
        ttl=600,
        negative_ttl=300,
        stale_ttl=86400,
        parser_version=3,
        # A name server answers as fast as Postgres, and caches answers itself.
        shared=False,
    ),
    fetch,
    parse,
)
