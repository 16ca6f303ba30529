"""What counts as a change unless a monitor says otherwise, for each kind of lookup.

Every array of these answers is a set: none has an order that means something. Items that are objects are
known by their key. Text is compared exactly, but where case, or case and punctuation, mean nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Key = tuple[tuple[str, ...], ...]
"""By which members an object in a list is known: two are one where they have the same in one of these groups,
and know its first member. The earlier groups come first."""


@dataclass(frozen=True)
class Defaults:
    """What one kind's fields are like; `list.member` names a member of the objects in a list.

    Attributes:
        quiet: fields that do not count unless a monitor tracks them by name, each with the reason.
        keys: list of objects → by which members an item is known.
        caseless: texts, and arrays of them, where case means nothing.
        names: arrays of names, which sources write with other case and punctuation.
        numbered: texts in which words with digits mean nothing.
    """

    quiet: Mapping[str, str] = field(default_factory=dict[str, str])
    keys: Mapping[str, Key] = field(default_factory=dict[str, Key])
    caseless: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    numbered: frozenset[str] = frozenset()


_JUDGED = {"verdict.reasons": "repeats the fields that speak for the level"}
_REASONS: dict[str, Key] = {"verdict.reasons": (("code", "source"),)}

EMAIL = Defaults(
    quiet=_JUDGED
    | {
        "role": "repeats `job_role`",
        "current_location": "repeats `location`",
        "breach.count": "counts `breach.services`",
        "registered_services.count": "counts `registered_services.services`",
        "age": "grows by itself",
        "photo": "services rewrite the URLs of their pictures",
        "publications.cited_by": "grows by itself",
    },
    keys=_REASONS | {"news": (("url",),), "publications": (("url",), ("title", "year"))},
    caseless=frozenset({"email", "company_domain"}),
    names=frozenset({"breach.services", "breach.exposed_data", "registered_services.services"}),
)
PHONE = Defaults(
    quiet={"validation.minimum_age": "grows by itself"},
    caseless=frozenset({"country.code", "messaging.sms_domain", "messaging.sms_email"}),
)
DOMAIN = Defaults(
    quiet=_JUDGED
    | {
        "dns.soa": "its serial moves with every edit of the zone",
        "hosting.ip": "repeats one of `dns.a`, whichever came first",
        "hosting.asn_name": "names `hosting.asn`, in the words of each edition of the data",
        "hosting.country_code": "moves with `hosting.ip`, in networks that are in many countries",
        "ssl.valid_from": "moves with every routine renewal",
        "ssl.valid_to": "moves with every routine renewal",
    },
    keys=_REASONS,
    caseless=frozenset(
        {
            "domain", "whois.name_servers", "dns.aaaa", "dns.mx", "dns.ns", "dns.soa",
            "ssl.subject_alt_names", "hosting.country_code",
        }
    ),
    # An authority signs with several keys by turns, which it numbers: R12 at one renewal and R13 at the next.
    numbered=frozenset({"ssl.issuer"}),
)  # fmt: skip
IP = Defaults(
    quiet=_JUDGED
    | {
        "timezone.abbreviation": "what clocks show now, by `timezone.name` and the season",
        "timezone.utc_offset": "what clocks show now, by `timezone.name` and the season",
        "asn.name": "names `asn.asn`, in the words of each edition of the data",
        "location.postal_code": "moves with each edition of the data, where the city does not",
        "location.longitude": "moves with each edition of the data, where the city does not",
        "location.latitude": "moves with each edition of the data, where the city does not",
        "threat.abuse_score": "moves daily; `verdict.level` changes when it matters",
        "threat.total_reports": "grows with each report",
        "threat.distinct_users": "grows with each report",
        "threat.last_reported_at": "moves with each report",
        "threat.last_seen": "moves whenever it is seen again",
        "malware.malicious_count": "moves with single engines; `verdict.level` changes when it matters",
        "malware.suspicious_count": "moves with single engines; `verdict.level` changes when it matters",
        "malware.harmless_count": "moves with the number of engines",
        "malware.undetected_count": "moves with the number of engines",
        "malware.reputation": "moves with each vote",
    },
    keys=_REASONS,
    caseless=frozenset({"ip_address", "hostname", "asn.domain", "company.domain", "location.country_code"}),
)
COMPANY = Defaults(
    quiet={
        "total": "counts `results`",
        "profile.logo": "services rewrite the URLs of their pictures",
        "candidates.score": "how well a name fits, not what the company is",
    },
    keys={
        "results": (("email",), ("linkedin",), ("name",)),
        "profile.officers": (("name", "role"),),
        "profile.shareholders": (("name",),),
        "candidates": (("companies_house",), ("lei",), ("cik",), ("wikidata",), ("name",)),
    },
    caseless=frozenset(
        {"profile.domain", "results.email", "results.name", "profile.officers.name", "candidates.domain"}
    ),
)
DARKWEB = Defaults(
    quiet={
        "total": "counts `results`",
        "result_count": "counts the `results` of one page",
        "results.crawl_date": "moves whenever the page is seen again",
        "results.body": "pages are rewritten; what is new is a mention of another title or place",
        "results.hackishness": "a score, computed anew each time",
    },
    keys={"results": (("source", "domain", "title"),)},
    caseless=frozenset({"results.domain", "results.emails"}),
)

DEFAULTS: Mapping[str, Defaults] = {
    "email": EMAIL,
    "phone": PHONE,
    "domain": DOMAIN,
    "ip": IP,
    "company": COMPANY,
    "darkweb": DARKWEB,
}
"""Kind → its defaults."""
