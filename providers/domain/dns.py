"""DNS: the records of a name, as public name servers hold them.

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
from providers.base import Context, Evidence, Fields, Query, RemoteSource, RemoteSpec, SourceError, Unsure
from providers.nameservers import records, resolvers

_TYPES = ("A", "AAAA", "MX", "TXT", "NS", "SOA", "CAA")
# Some name servers fail for types that they do not know, or for names below their zone.
_EXTRA = frozenset({"SOA", "CAA", "DMARC", "ORGANISATION"})

Answer = dict[str, list[str] | None]
"""Type → its records as texts; None where nobody knows."""


async def fetch(query: Query, context: Context) -> Answer | None:
    """Ask for all types at once; None when there is no such name.

    Raises:
        SourceError: `timeout` or `error`, if a type that every name server knows brings no answer.
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
        if isinstance(answer, SourceError) and label in _EXTRA:
            texts[label] = None
        elif isinstance(answer, BaseException):
            raise answer
        elif answer is None and label == "A":
            return None
        else:
            texts[label] = sorted(map(_text, answer or []))
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
    """The records as fields. The policy of the registered domain holds for names without one (RFC 7489)."""
    if raw is None:
        return {}
    fields: Fields = {f"dns.{kind.lower()}": raw[kind] for kind in _TYPES}
    fields["dns.mx"] = sorted(raw["MX"] or [], key=_preference)
    fields["dns.soa"] = next(iter(raw["SOA"] or []), None)
    own, inherited = raw["DMARC"], raw.get("ORGANISATION", [])
    fields["dns.dmarc"] = _policy(own) or _policy(inherited)
    unsure = {f"dns.{kind.lower()}" for kind in _TYPES if raw[kind] is None}
    if own is None or (inherited is None and not _policy(own)):
        unsure.add("dns.dmarc")
    return fields | {path: Unsure(fields[path]) for path in unsure}


def _preference(text: str) -> tuple[int, str]:
    number, _, host = text.partition(" ")
    return int(number), host


def _policy(texts: list[str] | None) -> str | None:
    return next((text for text in texts or [] if text.lower().startswith("v=dmarc1")), None)


SOURCE = RemoteSource(
    RemoteSpec(
        name="dns",
        kind="domain",
        fields=frozenset(f"dns.{kind.lower()}" for kind in (*_TYPES, "dmarc")),
        licence="none: DNS is public",
        attribution="the domain's name servers",
        evidence=Evidence("https://www.rfc-editor.org/rfc/rfc1035", date(2026, 11, 22)),
        timeout=4,
        ttl=600,
        negative_ttl=300,
        stale_ttl=86400,
        parser_version=2,
        # A name server answers as fast as Postgres, and keeps answers itself.
        shared=False,
    ),
    fetch,
    parse,
)
