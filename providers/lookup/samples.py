"""Made-up answers for dry runs: complete ones in the shape of real ones, about the example of each kind.

They come from a source called `sample`, so that a reader does not take them for real.
"""

from __future__ import annotations

from collections.abc import Sequence

from providers.email.people import person
from providers.lookup.result import NOT_ASKED, SourceResult
from providers.sources.base import Fields, LocalSource, Source, Spec
from providers.sources.kind import Kind

NAME = "sample"

_IP: Fields = {
    "hostname": "dns.google",
    "security.is_vpn": False,
    "security.is_proxy": False,
    "security.is_tor": False,
    "security.is_hosting": True,
    "security.is_relay": False,
    "security.is_mobile": False,
    "security.is_abuse": False,
    "asn.asn": 15169,
    "asn.name": "Google LLC",
    "asn.domain": "google.com",
    "asn.type": "hosting",
    "company.name": "Google LLC",
    "company.domain": "google.com",
    "company.type": "business",
    "location.city": "Mountain View",
    "location.region": "California",
    "location.country": "United States",
    "location.country_code": "US",
    "location.postal_code": "94043",
    "location.continent": "North America",
    "location.longitude": -122.085,
    "location.latitude": 37.422,
    "location.accuracy_km": 20.0,
    "location.is_anycast": False,
    "timezone.name": "America/Los_Angeles",
    "threat.abuse_score": 0,
    "threat.total_reports": 3,
    "threat.last_reported_at": "2026-01-15T09:30:00Z",
    "threat.usage_type": "Content Delivery Network",
    "threat.is_tor": False,
    "threat.is_whitelisted": True,
    "threat.distinct_users": 2,
    "threat.is_scanner": False,
    "threat.is_known_service": True,
    "threat.classification": "benign",
    "threat.scanner_name": "Google Public DNS",
    "threat.last_seen": "2026-01-15",
    "malware.malicious_count": 0,
    "malware.suspicious_count": 0,
    "malware.harmless_count": 60,
    "malware.undetected_count": 32,
    "malware.reputation": 530,
    "malware.network": "8.8.8.0/24",
}

_BREACH: Fields = {
    "services": ["Example Forum", "Example Leads", "Example Shop"],
    "spam_lists": ["Example Leads"],
    "retired": ["Example Forum"],
    "exposed_data": ["Email addresses", "Passwords"],
}

_EMAIL: Fields = {
    "name": "Ada Lovelace",
    "first_name": "Ada",
    "last_name": "Lovelace",
    "company": "Example Bank plc",
    "job_role": "Analyst",
    "seniority": "senior",
    "department": "engineering",
    "industry": "Banking",
    "location": "London, United Kingdom",
    "country": "United Kingdom",
    "city": "London",
    "bio": "Writes programs for engines that are yet to be built.",
    "phone": "+442079460000",
    "photo": "https://example.com/ada.jpg",
    "languages": ["English", "French"],
    "company_domain": "example.com",
    "company_size": "1001-5000",
    "is_disposable": False,
    "is_role_account": False,
    "is_free_provider": False,
    "mx_found": True,
    "checks.domain": True,
    "checks.mailbox": True,
    "socials.linkedin": "https://www.linkedin.com/in/ada-example",
    "socials.twitter": "https://x.com/ada_example",
    "socials.instagram": "https://www.instagram.com/ada_example",
    "socials.facebook": "https://www.facebook.com/ada.example",
    "socials.github": "https://github.com/ada-example",
    **{f"breach.{name}": value for name, value in _BREACH.items()},
    "registered_services.services": ["GitHub", "Gravatar"],
    "other_people": [person(NAME, {"name": "Grace Sample", "company": "Example Shop Ltd"})],
}

_VALIDATE: Fields = {
    "checks.syntax": True,
    "checks.domain": True,
    "checks.mx": True,
}

_PHONE: Fields = {
    "valid": True,
    "type": "mobile",
    "location": "San Francisco, CA",
    "format.international": "+1 415-555-2671",
    "format.local": "(415) 555-2671",
    "format.e164": "+14155552671",
    "country.code": "US",
    "country.name": "United States",
    "country.prefix": "+1",
    "country.region": "California",
    "country.city": "San Francisco",
    "country.timezone": "America/Los_Angeles",
    "carrier.name": "Example Mobile",
    "carrier.line_type": "mobile",
    "messaging.sms_domain": "sms.example.com",
    "messaging.sms_email": "4155552671@sms.example.com",
    "validation.is_valid": True,
    "validation.line_status": "active",
    "validation.is_voip": False,
    "validation.minimum_age": 700,
    "registration.name": "Ada Lovelace",
    "registration.type": "consumer",
    "risk.risk_level": "low",
    "risk.is_disposable": False,
    "risk.is_abuse_detected": False,
    "breaches.total_breaches": 1,
    "breaches.date_first_breached": "2021-04-03",
    "breaches.date_last_breached": "2021-04-03",
}

_DOMAIN: Fields = {
    "whois.registered": True,
    "whois.registrar": "Example Registrar, Inc.",
    "whois.created": "1995-08-14",
    "whois.expires": "2030-08-13",
    "whois.name_servers": ["a.iana-servers.net", "b.iana-servers.net"],
    "dns.a": ["192.0.2.10"],
    "dns.aaaa": ["2001:db8::10"],
    "dns.mx": ["10 mail.example.com."],
    "dns.txt": ["v=spf1 -all"],
    "dns.ns": ["a.iana-servers.net.", "b.iana-servers.net."],
    "dns.soa": "ns.icann.org. noc.dns.icann.org. 2026011501 7200 3600 1209600 3600",
    "dns.caa": ['0 issue "ca.example.com"'],
    "dns.dmarc": "v=DMARC1; p=reject",
    "ssl.issuer": "Example CA",
    "ssl.valid_from": "2026-01-01",
    "ssl.valid_to": "2026-12-31",
    "ssl.subject_alt_names": ["example.com", "www.example.com"],
    "threat.malicious": False,
    "threat.is_known_service": False,
    "threat.categories": ["abused_legit_malware"],
    "threat.malicious_count": 0,
    "threat.suspicious_count": 0,
    "threat.harmless_count": 60,
    "threat.undetected_count": 32,
    "hosting.ip": "192.0.2.10",
    "hosting.asn": 64496,
    "hosting.asn_name": "Example Hosting",
    "hosting.company": "Example Hosting Ltd",
    "hosting.country_code": "US",
}

_USERNAME: Fields = {
    "found": [
        {
            "site": "GitHub",
            "url": "https://github.com/octocat",
            "category": "coding",
            "evidence": "profile page",
        },
        {
            "site": "GitLab",
            "url": "https://gitlab.com/octocat",
            "category": "coding",
            "evidence": "profile page",
        },
    ],
}

_WEBSEARCH: Fields = {
    "results": [
        {
            "title": "Ada Lovelace",
            "url": "https://encyclopedia.example.com/ada-lovelace",
            "snippet": "English mathematician and writer.",
            "published": "2026-01-15",
        },
        {
            "title": "The first programmer",
            "url": "https://magazine.example.com/the-first-programmer",
            "snippet": "What she wrote about an engine that was never built.",
            "published": "2025-12-10",
        },
    ],
    "enrichment.title": "Ada Lovelace",
    "enrichment.summary": "English mathematician and writer, known for her work on the Analytical Engine.",
    "enrichment.url": "https://encyclopedia.example.com/ada-lovelace",
}

_COMPANY: Fields = {
    "results": [
        {
            "email": "ada@example.com",
            "name": "Ada Lovelace",
            "role": "Analyst",
            "linkedin": "https://www.linkedin.com/in/ada-example",
        },
        {"email": "charles@example.com", "name": "Charles Babbage", "role": "Director", "linkedin": None},
    ],
    "profile.name": "Example Bank plc",
    "profile.domain": "example.com",
    "profile.description": "A bank that exists in examples only.",
    "profile.founding_date": "1995-08-14",
    "profile.industry": "Banking",
    "profile.company_type": "Public limited company",
    "profile.status": "active",
    "profile.employee_count": 2500,
    "profile.revenue": "120000000 GBP",
    "profile.address": "1 Example Street, London EC1A 1BB",
    "profile.country": "United Kingdom",
    "profile.phone": "+442079460000",
    "profile.website": "https://example.com",
    "profile.logo": "https://example.com/logo.png",
    "profile.linkedin": "https://www.linkedin.com/company/example-bank",
    "profile.twitter": "https://x.com/example_bank",
    "profile.ticker": "XMPL",
    "profile.registration_number": "01234567",
    "profile.jurisdiction": "England and Wales",
    "profile.sic_codes": ["64191"],
    "profile.officers": [
        {
            "name": "Charles Babbage",
            "role": "Director",
            "appointed_on": "2019-05-01",
            "nationality": "British",
        }
    ],
    "profile.shareholders": [
        {
            "name": "Example Holdings Ltd",
            "natures_of_control": ["ownership-of-shares-75-to-100-percent"],
            "nationality": None,
            "notified_on": "2019-05-01",
        }
    ],
    "candidates": [
        {
            "name": "Example Bank plc",
            "domain": "example.com",
            "country": "United Kingdom",
            "description": "A bank that exists in examples only.",
            "wikidata": None,
            "lei": None,
            "cik": None,
            "companies_house": "01234567",
            "score": 1.0,
        }
    ],
}

_DARKWEB: Fields = {
    "results": [
        {
            "source": NAME,
            "title": "Customers of an example shop",
            "body": "ada@example.com is one of the addresses in this list.",
            "domain": "exampleonionaddress.onion",
            "crawl_date": "2026-01-15T09:30:00Z",
            "emails": ["ada@example.com"],
            "leak": {
                "name": "Example Shop",
                "host": "exampleonionaddress.onion",
                "actors": ["Example Group"],
                "affected_records": 12000,
            },
        }
    ],
    "total": 1,
}

_FIELDS: dict[str, Fields] = {
    "ip": _IP,
    "breach": _BREACH,
    "email": _EMAIL,
    "validate": _VALIDATE,
    "phone": _PHONE,
    "domain": _DOMAIN,
    "username": _USERNAME,
    "websearch": _WEBSEARCH,
    "company": _COMPANY,
    "darkweb": _DARKWEB,
}


def fields_of(kind: Kind) -> Fields:
    """Return the made-up fields of a kind."""
    return _FIELDS.get(kind.name, {})


def add_sample(
    kind: Kind, outcomes: Sequence[tuple[Source, SourceResult]]
) -> list[tuple[Source, SourceResult]]:
    """Return the outcomes that a sample adds to a lookup that asked no source.

    It fills the fields that are unknown and that a source which was not asked could have filled. It adds
    nothing if no source could be asked.
    """
    known = {path for _, outcome in outcomes for path in outcome.fields}
    unasked = [source.fields for source, outcome in outcomes if outcome.detail == NOT_ASKED]
    fields = {
        path: value
        for path, value in fields_of(kind).items()
        if path not in known and any(path in could for could in unasked)
    }
    spec = Spec(name=NAME, kind=kind.name, fields=frozenset(fields), licence="-", attribution="made up")
    return [(LocalSource(spec, lambda query, datasets: fields), SourceResult("ok", fields))] if fields else []
