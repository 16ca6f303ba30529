"""A domain lookup as a whole: over HTTP, with every source on a server of its own."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from providers.domain import threatfox, urlhaus, virustotaldomain
from providers.domain.answer import DomainAnswer
from providers.domain.kind import KIND
from providers.ip import threatfoxip, urlhausip
from providers.lookup.composition import compose
from providers.lookup.result import SourceResult
from providers.sources.aggregate import merge, paths
from providers.sources.base import Unsure
from settings import ProviderSettings, Settings
from tests import datasets as small
from tests.api_server import Api, Person, running
from tests.domain.conftest import Whois
from tests.name_servers import Serve

LOOPBACK = (ip_network("127.0.0.0/8"),)
FIXTURES = Path(__file__).parents[1] / "fixtures"
REGISTERED = json.loads((FIXTURES / "rdapdomain/ok.json").read_text())["exchanges"][0]["body"]


@pytest.fixture
async def api(
    settings: Settings,
    resources: AsyncExitStack,
    name_server: Serve,
    registry: Whois,
    tls_server: tuple[str, list[str]],
) -> AsyncGenerator[Api]:
    """An API whose domain sources are all here."""
    small.write_small_datasets(settings.data)
    records = {"A": ["8.8.8.8"], "MX": ["10 mail.example.com."], "TXT": ['"v=spf1 -all"']}
    _, names = await name_server({"example.com": records, "_dmarc.example.com": {}})
    _, filtered = await name_server({"example.com": {"!": []}})
    server = await registry({"com": "whois: 127.0.0.1\n", "example.com": "Created: 1995-08-14\n"})

    async def registration(request: web.Request) -> web.Response:
        return web.json_response(REGISTERED)

    app = web.Application()
    app.router.add_get("/domain/example.com", registration)
    runner = web.AppRunner(app, shutdown_timeout=0)
    await runner.setup()
    resources.push_async_callback(runner.cleanup)
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    addresses = {
        "rdapdomain": f"http://127.0.0.1:{runner.addresses[0][1]}",
        "whois": server.url,
        "dns": names,
        "hosting": names,
        "tls": tls_server[0],
        "quad9": f"{filtered},{names}",
        "cloudflare": f"{names},{names}",
    }
    chosen = {name: ProviderSettings(base_url=url) for name, url in addresses.items()}
    async with running(settings, local_only=False, providers=chosen, allow_private_networks=LOOPBACK) as api:
        yield api


CREDITS = 10


async def test_a_domain_is_answered_with_all_that_its_sources_know(person: Person) -> None:
    response = await person.key.post("/api/agent/domain", json={"domain": "EXAMPLE.com."})
    assert response.status_code == 200, response.text
    answer = response.json()
    told = {name: answer[name] for name in ("domain", "whois", "dns", "ssl", "threat", "hosting", "credits")}
    assert told == {
        "domain": "example.com",
        "whois": {
            "registered": True,
            "registrar": "Example Registrar, Inc.",
            "created": "1995-08-14",
            "expires": "2027-08-13",
            "name_servers": ["a.iana-servers.net", "b.iana-servers.net"],
        },
        "dns": {
            "a": ["8.8.8.8"],
            "aaaa": [],
            "mx": ["10 mail.example.com"],
            "txt": ["v=spf1 -all"],
            "ns": [],
            "soa": None,
            "caa": [],
            "dmarc": None,
        },
        "ssl": {
            "issuer": "Example Trust Example CA 1",
            "valid_from": "2020-01-01",
            "valid_to": "2020-03-31",
            "subject_alt_names": ["192.0.2.1", "example.com", "www.example.com"],
        },
        "threat": {
            "malicious": True,
            "categories": [],
            "is_known_service": None,
            "malicious_count": None,
            "suspicious_count": None,
            "harmless_count": None,
            "undetected_count": None,
        },
        "hosting": {
            "ip": "8.8.8.8",
            "asn": 15169,
            "asn_name": "Google LLC",
            "company": None,
            "country_code": "US",
        },
        "credits": 1,
    }
    assert answer["partial"] is False
    named = {path: names for path, names in answer["sources"].items() if path.startswith("hosting.")}
    assert named == {
        "hosting.ip": ["hosting"],
        "hosting.asn": ["asn"],
        "hosting.asn_name": ["asn"],
        "hosting.country_code": ["dbip"],
    }
    statuses = {report["name"]: report["status"] for report in answer["providers"]}
    assert statuses == {
        "rdapdomain": "ok",
        "whois": "ok",
        "dns": "ok",
        "tls": "ok",
        "hosting": "ok",
        "cloudflare": "empty",
        "quad9": "ok",
        "wellknowndomain": "empty",
    }


async def test_a_type_that_fails_is_null_with_its_reason_and_asked_again(
    settings: Settings, resources: AsyncExitStack, name_server: Serve
) -> None:
    server, names = await name_server({"example.com": {"A": ["8.8.8.8"], "MX": ["SERVFAIL"]}})
    chosen = {source.spec.name: ProviderSettings(enabled=False) for source in KIND.sources}
    chosen["dns"] = ProviderSettings(base_url=names)
    api = await resources.enter_async_context(running(settings, local_only=False, providers=chosen))
    person = await api.person(credits=10)
    answer = (await person.key.post("/api/agent/domain", json={"domain": "example.com"})).json()
    assert (answer["dns"]["a"], answer["dns"]["mx"], answer["dns"]["txt"]) == (["8.8.8.8"], None, [])
    [report] = answer["providers"]
    assert (report["status"], report["failed"], answer["partial"]) == ("ok", {"dns.mx": "dns_failed"}, True)
    server.zone["example.com"]["MX"] = ["10 mail.example.com."]
    again = await person.key.post("/api/agent/domain?nocache=1", json={"domain": "example.com"})
    while again.json()["partial"]:  # what was answered a moment ago is said again
        again = await person.key.post("/api/agent/domain?nocache=1", json={"domain": "example.com"})
    assert again.json()["dns"]["mx"] == ["10 mail.example.com"]


def test_a_contradiction_about_the_registration_is_null_and_shown() -> None:
    doubt = Unsure(said=(("registry", False), ("delegation", True)))
    told = SourceResult("ok", unsure=frozenset({"whois.registered"}), doubts={"whois.registered": doubt})
    off = SourceResult("skipped", detail="disabled")
    outcomes = [(source, told if source.spec.name == "rdapdomain" else off) for source in KIND.sources]
    result = compose(KIND, KIND.normalise("example.com", ""), outcomes, datetime.now(UTC))
    assert (result.data["whois"]["registered"], result.partial) == (None, False)
    assert result.conflicts == {"whois.registered": {"registry": False, "delegation": True}}


async def test_query_is_another_name_of_the_field(person: Person) -> None:
    response = await person.key.post("/api/agent/domain", json={"query": "example.com"})
    assert (response.status_code, response.json()["domain"]) == (200, "example.com")


@pytest.mark.parametrize(
    ("body", "pointer", "code"),
    [
        ({}, "/domain", "required"),
        ({"domain": "https://example.com/"}, "/domain", "invalid_domain"),
        ({"query": "co.uk"}, "/query", "invalid_domain"),
        ({"domain": "example.com", "domian": 1}, "/domian", "unknown_field"),
        ({"domain": 7}, "/domain", "wrong_type"),
    ],
)
async def test_a_bad_query_is_refused_with_its_field(
    body: dict[str, Any], pointer: str, code: str, person: Person
) -> None:
    response = await person.key.post("/api/agent/domain", json=body)
    assert response.status_code == 400
    error = response.json()["errors"][0]
    assert (error["pointer"], error["code"]) == (pointer, code)


async def test_targets_that_do_not_answer_leave_the_sources_open_for_others(
    settings: Settings, resources: AsyncExitStack, registry: Whois
) -> None:
    # What listens there speaks no TLS: that is a matter of this target alone.
    server = await registry({})
    chosen = {source.spec.name: ProviderSettings(enabled=False) for source in KIND.sources}
    chosen["tls"] = ProviderSettings(base_url=f"tls://127.0.0.1:{server.port}")
    api = await resources.enter_async_context(running(settings, local_only=False, providers=chosen))
    person = await api.person(credits=10)
    for number in range(7):
        response = await person.key.post("/api/agent/domain", json={"domain": f"a{number}.example.com"})
        report = next(one for one in response.json()["providers"] if one["name"] == "tls")
        assert (response.status_code, report["status"]) == (502, "error")
        assert report["detail"] != "cooling_down"


def test_one_source_that_knows_is_enough_for_malicious_and_categories_are_joined() -> None:
    answers = [
        ("virustotaldomain", {"threat.malicious": False, "threat.categories": ["phishing"]}),
        ("urlhaus", {"threat.malicious": True, "threat.categories": ["malware_download"]}),
    ]
    merged = merge(answers, KIND.rules)
    assert merged.fields == {"threat.malicious": True, "threat.categories": ["phishing", "malware_download"]}
    assert merged.sources["threat.malicious"] == ["urlhaus"]
    assert merged.conflicts == {"threat.malicious": {"virustotaldomain": False, "urlhaus": True}}


def test_the_registry_goes_before_whois() -> None:
    answers = [("rdapdomain", {"whois.registrar": "A"}), ("whois", {"whois.registrar": "B"})]
    order = [source.spec.name for source in KIND.sources]
    assert order.index("rdapdomain") < order.index("whois")
    assert merge(answers, KIND.rules).fields == {"whois.registrar": "A"}


def test_every_field_of_the_answer_has_a_source() -> None:
    filled = {path for source in KIND.sources for path in source.spec.fields}
    assert paths(DomainAnswer) == filled | {KIND.echo}
    assert KIND.rules.keys() <= filled


def test_one_key_of_abuse_ch_is_enough_for_all_its_services() -> None:
    settings = Settings.model_validate({"providers": {"urlhaus": {"key": "a"}}})
    sources = (urlhaus, threatfox, urlhausip, threatfoxip)
    assert [one.SOURCE.spec.secret(settings) for one in sources] == ["a"] * 4


def test_one_key_of_virustotal_is_enough_for_addresses_and_domains() -> None:
    spec = virustotaldomain.SOURCE.spec
    both = Settings.model_validate(
        {"providers": {"virustotal": {"key": "a"}, "virustotaldomain": {"key": "b"}}}
    )
    shared = Settings.model_validate({"providers": {"virustotal": {"key": "a"}}})
    assert (spec.secret(both), spec.secret(shared), spec.secret(Settings.model_validate({}))) == (
        "b",
        "a",
        None,
    )
