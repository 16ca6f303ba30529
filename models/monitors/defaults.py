"""The defaults of each kind of lookup: which differences count as a change.

All fields count except those that depend only on the clock. Where a field moves by itself, its tolerance
filters that. Every array in these answers is a set: its order has no meaning. Items that are objects are
identified by their key. Text is compared exactly, unless case, or case and punctuation, have no meaning.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

Key = tuple[tuple[str, ...], ...]
"""The members that identify an object in a list.

Two objects are the same if they agree in one of these groups and have its first member. Earlier groups are
tried first.
"""


class Tolerance(NamedTuple):
    """The amount by which a field may move without a change, in its own unit, and the reason."""

    amount: float
    why: str


@dataclass(frozen=True)
class Defaults:
    """The properties of one kind's fields; `list.member` names a member of the objects in a list.

    Attributes:
        clocks: fields that depend only on the current time. They never count.
        spoken: fields that only describe other fields or list the sources asked. They never count.
        tolerances: field → the amount by which it may move, unless a monitor has its own.
        rotating: values from a set, of which each answer contains one member.
        addresses: IP addresses, and arrays of them: with a tolerance compared by network and country.
        keys: list of objects → the members that identify an item.
        caseless: texts, and arrays of them, in which case has no meaning.
        names: arrays of names, which sources write with different case and punctuation.
        pictures: URLs of which only the path has a meaning.
        dates: list of objects → the member with the date of an item; other field or block → the
            field with its date.
    """

    clocks: frozenset[str] = frozenset()
    spoken: frozenset[str] = frozenset()
    tolerances: Mapping[str, Tolerance] = field(default_factory=dict[str, Tolerance])
    rotating: frozenset[str] = frozenset()
    addresses: frozenset[str] = frozenset()
    keys: Mapping[str, Key] = field(default_factory=dict[str, Key])
    caseless: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    pictures: frozenset[str] = frozenset()
    dates: Mapping[str, str] = field(default_factory=dict[str, str])


_REASONS: dict[str, Key] = {"verdict.reasons": (("code", "source"),)}

EMAIL = Defaults(
    spoken=frozenset({"registered_services.asked"}),
    tolerances={"publications.cited_by": Tolerance(10, "grows by itself")},
    keys=_REASONS
    | {
        "news": (("url",),),
        "publications": (("url",), ("title", "year")),
        "other_people": (("source", "name"), ("source",)),
    },
    caseless=frozenset({"email", "company_domain", "other_people.company_domain"}),
    names=frozenset(
        {
            "breach.services", "breach.exposed_data", "breach.spam_lists", "breach.retired",
            "registered_services.services",
        }
    ),
    pictures=frozenset({"photo", "other_people.photo"}),
    dates={"news": "date"},
)  # fmt: skip
PHONE = Defaults(
    tolerances={"validation.minimum_age": Tolerance(365, "grows with each day")},
    caseless=frozenset({"country.code", "messaging.sms_domain", "messaging.sms_email"}),
    dates={
        "breaches": "breaches.date_first_breached",
        "breaches.date_last_breached": "breaches.date_last_breached",
    },
)
_HOSTING = ("hosting.country_code", "hosting.asn", "hosting.asn_name", "hosting.company")
_ADDRESSES = "large networks give out other addresses from one minute to the next"
_ENGINES = "moves with the number of engines"
DOMAIN = Defaults(
    tolerances={
        "dns.a": Tolerance(64, _ADDRESSES),
        "dns.aaaa": Tolerance(64, _ADDRESSES),
        "dns.soa": Tolerance(1, "its serial moves with every edit of the zone"),
        "ssl.issuer": Tolerance(1, "an authority signs with several keys by turns: R12 and R13"),
        "threat.malicious_count": Tolerance(1, "moves with single engines"),
        "threat.suspicious_count": Tolerance(1, "moves with single engines"),
        "threat.harmless_count": Tolerance(10, _ENGINES),
        "threat.undetected_count": Tolerance(10, _ENGINES),
        "hosting.ip": Tolerance(64, "one of `dns.a`, whichever came first"),
        **dict.fromkeys(_HOSTING, Tolerance(16, "moves with `hosting.ip`")),
    },
    rotating=frozenset({"hosting.ip", *_HOSTING}),
    addresses=frozenset({"dns.a", "dns.aaaa", "hosting.ip"}),
    keys=_REASONS,
    caseless=frozenset(
        {
            "domain", "whois.name_servers", "dns.aaaa", "dns.mx", "dns.ns", "dns.soa",
            "ssl.subject_alt_names", "hosting.country_code",
        }
    ),
    dates={"whois": "whois.created", "ssl": "ssl.valid_from"},
)  # fmt: skip
IP = Defaults(
    clocks=frozenset({"timezone.abbreviation", "timezone.utc_offset"}),
    tolerances={
        "location.longitude": Tolerance(0.5, "moves with each edition of the data"),
        "location.latitude": Tolerance(0.5, "moves with each edition of the data"),
        "location.accuracy_km": Tolerance(100, "moves with each edition of the data"),
        "threat.abuse_score": Tolerance(10, "a score, which moves daily"),
        "threat.total_reports": Tolerance(10, "grows with each report"),
        "threat.last_reported_at": Tolerance(30, "moves with each report"),
        "threat.distinct_users": Tolerance(5, "grows with each report"),
        "threat.last_seen": Tolerance(30, "moves whenever it is seen again"),
        "malware.malicious_count": Tolerance(1, "moves with single engines"),
        "malware.suspicious_count": Tolerance(1, "moves with single engines"),
        "malware.harmless_count": Tolerance(10, _ENGINES),
        "malware.undetected_count": Tolerance(10, _ENGINES),
        "malware.reputation": Tolerance(10, "moves with each vote"),
    },
    keys=_REASONS,
    caseless=frozenset({"ip_address", "hostname", "asn.domain", "company.domain", "location.country_code"}),
)
COMPANY = Defaults(
    tolerances={"candidates.score": Tolerance(0.2, "a score, of how well a name fits")},
    keys={
        "results": (("email",), ("linkedin",), ("name",)),
        "profile.officers": (("name", "role"),),
        "profile.shareholders": (("name",),),
        "candidates": (("companies_house",), ("lei",), ("cik",), ("wikidata",), ("name",)),
    },
    caseless=frozenset(
        {"profile.domain", "results.email", "results.name", "profile.officers.name", "candidates.domain"}
    ),
    pictures=frozenset({"profile.logo"}),
    dates={
        "profile": "profile.founding_date",
        "profile.officers": "appointed_on",
        "profile.shareholders": "notified_on",
    },
)
DARKWEB = Defaults(
    spoken=frozenset({"message"}),
    tolerances={
        "results.body": Tolerance(20, "pages are rewritten"),
        "results.hackishness": Tolerance(0.2, "a score, computed anew each time"),
        "results.crawl_date": Tolerance(30, "moves whenever the page is seen again"),
    },
    keys={"results": (("source", "domain", "title"),)},
    caseless=frozenset({"results.domain", "results.emails"}),
    dates={"results": "crawl_date"},
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
