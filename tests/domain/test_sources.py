"""The domain sources that speak other protocols than HTTP, each against a server of its own."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from providers.datasets.installed import Datasets
from providers.domain import bootstrap, cloudflare, delegation, dns, hosting, quad9, tls, whois
from providers.domain.kind import normalise
from providers.ip.kind import KIND as IP
from providers.sources import nameservers
from providers.sources.base import Context, LocalSource, RemoteSource, SourceError, Unsure
from tests import datasets as small
from tests.domain.conftest import Registry, Whois, ask_here, certificate
from tests.name_servers import Serve, Zone

ZONE: Zone = {
    "www.example.com": {
        "A": ["192.0.2.7", "192.0.2.3"],
        "AAAA": ["2001:db8::1"],
        "MX": ["100 B.mail.example.com.", "20 a.mail.example.com."],
        "TXT": ['"v=spf1 " "-all"'],
        "NS": ["NS2.example.com.", "ns1.example.com."],
        "SOA": ["ns1.example.com. host.example.com. 7 3600 900 604800 300"],
        "CAA": ['0 issue "ca.example.net"'],
    },
    "_dmarc.www.example.com": {},
    "_dmarc.example.com": {"TXT": ['"v=DMARC1; p=reject"']},
}
LOOPBACK = (ip_network("127.0.0.0/8"),)


async def ask(source: RemoteSource, domain: str, base_url: str, **context: Any) -> dict[str, Any]:
    async with httpx.AsyncClient() as client:
        made = Context(client, base_url, None, context.pop("timeout", 4), **context)
        try:
            async with asyncio.timeout(made.timeout):
                return source.parse(await source.fetch(normalise(domain, "/domain"), made))
        except TimeoutError:  # as the asker does
            raise SourceError("timeout", "timeout") from None


# DNS


async def test_all_records_of_a_name_are_read_in_an_order_that_does_not_change(name_server: Serve) -> None:
    _, url = await name_server(ZONE)
    assert await ask(dns.SOURCE, "www.example.com", url) == {
        "dns.a": ["192.0.2.3", "192.0.2.7"],
        "dns.aaaa": ["2001:db8::1"],
        "dns.mx": ["20 a.mail.example.com", "100 b.mail.example.com"],
        "dns.txt": ["v=spf1 -all"],
        "dns.ns": ["ns1.example.com", "ns2.example.com"],
        "dns.soa": "ns1.example.com host.example.com 7 3600 900 604800 300",
        "dns.caa": ['0 issue "ca.example.net"'],
        "dns.dmarc": "v=DMARC1; p=reject",
    }


async def test_a_name_that_does_not_exist_has_no_records(name_server: Serve) -> None:
    _, url = await name_server({})
    assert await ask(dns.SOURCE, "example.com", url) == {}


async def test_a_name_without_records_of_a_type_has_none_of_them(name_server: Serve) -> None:
    _, url = await name_server({"example.com": {"A": ["192.0.2.1"]}})
    fields = await ask(dns.SOURCE, "example.com", url)
    assert (fields["dns.a"], fields["dns.mx"], fields["dns.dmarc"]) == (["192.0.2.1"], [], None)


async def test_when_one_resolver_fails_the_next_is_asked(name_server: Serve) -> None:
    broken, broken_url = await name_server({"example.com": {"*": []}, "_dmarc.example.com": {"*": []}})
    _, url = await name_server({"example.com": {"A": ["192.0.2.1"]}})
    fields = await ask(dns.SOURCE, "example.com", f"{broken_url},{url}")
    assert fields["dns.a"] == ["192.0.2.1"]
    assert broken.asked


async def test_a_type_that_old_servers_fail_for_is_unknown_and_fails_nothing_else(name_server: Serve) -> None:
    _, url = await name_server({"example.com": {"A": ["192.0.2.1"], "CAA": ["SERVFAIL"]}})
    fields = await ask(dns.SOURCE, "example.com", url)
    assert (fields["dns.a"], fields["dns.caa"]) == (["192.0.2.1"], Unsure(why="dns_failed"))


@pytest.mark.parametrize(
    ("own", "organisations", "policy"),
    [
        (["SERVFAIL"], ['"v=DMARC1;p=none"'], Unsure("v=DMARC1;p=none", "dns_failed")),
        ([], ["SERVFAIL"], Unsure(why="dns_failed")),
        (['"v=DMARC1;p=reject"'], ["SERVFAIL"], "v=DMARC1;p=reject"),
    ],
)
async def test_a_policy_is_unsure_where_one_that_could_go_before_it_is_not_known(
    own: list[str], organisations: list[str], policy: Any, name_server: Serve
) -> None:
    zone: Zone = {
        "www.example.com": {"A": ["192.0.2.1"]},
        "_dmarc.www.example.com": {"TXT": own},
        "_dmarc.example.com": {"TXT": organisations},
    }
    _, url = await name_server(zone)
    assert (await ask(dns.SOURCE, "www.example.com", url))["dns.dmarc"] == policy


TYPES = ("A", "AAAA", "MX", "TXT", "NS", "SOA", "CAA")


@pytest.mark.parametrize("kind", TYPES)
async def test_each_type_fails_alone(kind: str, name_server: Serve) -> None:
    zone = ZONE["www.example.com"] | {kind: ["SERVFAIL"]}
    _, whole = await name_server(ZONE)
    _, url = await name_server(ZONE | {"www.example.com": zone})
    fields = await ask(dns.SOURCE, "www.example.com", url)
    failed = {f"dns.{kind.lower()}": Unsure(why="dns_failed")}
    assert fields == await ask(dns.SOURCE, "www.example.com", whole) | failed


async def test_where_no_type_brings_an_answer_the_source_has_failed(name_server: Serve) -> None:
    _, url = await name_server({"example.com": {kind: ["SERVFAIL"] for kind in TYPES}})
    with pytest.raises(SourceError) as failed:
        await ask(dns.SOURCE, "example.com", url)
    assert (failed.value.status, failed.value.detail) == ("error", "dns_failed")


async def test_onion_names_are_kept_from_name_servers(name_server: Serve) -> None:
    server, url = await name_server({})
    name = f"{'a' * 56}.onion"
    for source, base_url in (
        (dns.SOURCE, url),
        (hosting.SOURCE, url),
        (quad9.SOURCE, f"{url},{url}"),
        (cloudflare.SOURCE, f"{url},{url}"),
        (tls.SOURCE, ""),
    ):
        with pytest.raises(SourceError) as refused:
            await ask(source, f"www.{name}", base_url)
        assert (refused.value.status, refused.value.detail) == ("skipped", "onion_name")
    assert server.asked == []


async def test_silent_name_servers_are_a_timeout_and_not_an_empty_answer(name_server: Serve) -> None:
    _, url = await name_server(silent=True)
    with pytest.raises(SourceError) as failed:
        await ask(dns.SOURCE, "example.com", url, timeout=0.3)
    assert failed.value.status == "timeout"


# TLS


async def test_a_certificate_is_read_even_when_it_is_expired_and_of_nobody(
    tls_server: tuple[str, list[str]],
) -> None:
    url, asked = tls_server
    assert await ask(tls.SOURCE, "example.com", url) == {
        "ssl.issuer": "Example Trust Example CA 1",
        "ssl.valid_from": "2020-01-01",
        "ssl.valid_to": "2020-03-31",
        "ssl.subject_alt_names": ["192.0.2.1", "example.com", "www.example.com"],
    }
    assert asked == ["example.com"]


def test_a_certificate_without_alternative_names_has_none(tmp_path: Path) -> None:
    pem = certificate(tmp_path, names=[]).read_bytes()
    fields = tls.parse(
        x509.load_pem_x509_certificate(pem[pem.index(b"-----BEGIN CERT") :]).public_bytes(Encoding.DER)
    )
    assert fields["ssl.subject_alt_names"] == []


def test_what_is_no_certificate_is_a_bad_response() -> None:
    with pytest.raises(SourceError) as failed:
        tls.parse(b"\x30\x03\x02\x01\x01")
    assert (failed.value.status, failed.value.detail) == ("bad_response", "not_a_certificate")


async def test_where_nobody_listens_there_is_no_certificate() -> None:
    assert await ask(tls.SOURCE, "example.com", "tls://127.0.0.1:9") == {}


async def test_a_server_that_speaks_no_tls_is_a_failure(registry: Whois) -> None:
    server = await registry({})
    with pytest.raises(SourceError) as failed:
        await ask(tls.SOURCE, "example.com", f"tls://127.0.0.1:{server.port}", timeout=2)
    assert failed.value.status == "error"


async def test_a_domain_of_which_one_address_leads_inside_is_not_connected_to(
    name_server: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, url = await name_server({"rebind.example.com": {"A": ["192.168.0.1", "8.8.8.8"]}})
    ask_here(monkeypatch, tls, url)
    with pytest.raises(SourceError) as refused:
        await ask(tls.SOURCE, "rebind.example.com", "")
    assert (refused.value.status, refused.value.detail) == ("skipped", "forbidden_address")


# WHOIS


REFERRAL = "% IANA WHOIS server\n\ndomain:       DE\n\nwhois:        127.0.0.1\n\nstatus:       ACTIVE\n"


async def test_iana_names_the_registry_and_that_is_asked_for_the_registered_domain(registry: Whois) -> None:
    server = await registry(
        {
            "de": REFERRAL,
            "example.de": "Domain: example.de\nNserver: NS1.example.de 192.0.2.1\nCreated: 2001-02-03\n",
        }
    )
    fields = await ask(whois.SOURCE, "www.example.de", server.url, allowed=LOOPBACK)
    assert fields["whois.name_servers"] == ["ns1.example.de"]
    assert fields["whois.created"] == "2001-02-03"
    assert server.asked == ["de", "example.de"]


@pytest.mark.parametrize(
    ("zone", "expected"),
    [
        ({}, {"whois.registered": False}),
        ({"example.ac.uk": {"NS": ["ns1.example.ac.uk."]}}, {}),
        ({"example.ac.uk": {"*": []}}, {"whois.registered": Unsure(why="dns_failed")}),
    ],
)
async def test_a_registry_below_whose_domain_others_register_may_only_not_know(
    zone: Zone,
    expected: dict[str, Any],
    registry: Whois,
    name_server: Serve,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, url = await name_server(zone)
    ask_here(monkeypatch, delegation, url)
    server = await registry({"uk": REFERRAL, "example.ac.uk": "No match for example.ac.uk\n"})
    fields = await ask(whois.SOURCE, "www.example.ac.uk", server.url, allowed=LOOPBACK)
    assert fields == expected


async def test_a_referral_that_leads_inside_is_refused(registry: Whois) -> None:
    server = await registry({"de": REFERRAL})
    with pytest.raises(SourceError) as refused:
        await ask(whois.SOURCE, "example.de", server.url)
    assert (refused.value.status, refused.value.detail) == ("skipped", "forbidden_address")
    assert server.asked == ["de"]


async def test_a_registry_without_a_whois_server_is_skipped(registry: Whois) -> None:
    server = await registry({"de": "% IANA WHOIS server\n\ndomain:       DE\nwhois:\nstatus:       ACTIVE\n"})
    with pytest.raises(SourceError) as skipped:
        await ask(whois.SOURCE, "example.de", server.url, allowed=LOOPBACK)
    assert (skipped.value.status, skipped.value.detail) == ("skipped", "tld_without_whois")


async def test_iana_is_asked_once_for_the_server_of_a_registry(registry: Whois) -> None:
    known = "Domain: example.de\nCreated: 2001-02-03\n"
    server: Registry = await registry({"de": REFERRAL, "example.de": known, "other.de": known})
    for domain in ("example.de", "other.de"):
        await ask(whois.SOURCE, domain, server.url, allowed=LOOPBACK)
    assert server.asked.count("de") == 1


async def test_an_endless_whois_answer_is_cut_off(registry: Whois) -> None:
    server: Registry = await registry({"de": REFERRAL, "example.de": "x" * 100_000})
    with pytest.raises(SourceError) as failed:
        await ask(whois.SOURCE, "example.de", server.url, allowed=LOOPBACK)
    assert (failed.value.status, failed.value.detail) == ("bad_response", "too_large")


async def test_a_whois_server_that_is_away_is_an_error() -> None:
    with pytest.raises(SourceError) as failed:
        await ask(whois.SOURCE, "example.de", "whois://127.0.0.1:9")
    assert (failed.value.status, failed.value.detail) == ("error", "connect_failed")


async def test_where_the_registry_has_an_rdap_server_whois_is_not_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = bootstrap._Known({"com": "https://rdap.example"}, float("inf"))  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setitem(bootstrap._known, bootstrap.IANA, known)  # pyright: ignore[reportPrivateUsage]
    with pytest.raises(SourceError) as skipped:
        await ask(whois.SOURCE, "example.com", "")
    assert (skipped.value.status, skipped.value.detail) == ("skipped", "tld_with_rdap")


# Resolvers that filter


THERE: Zone = {"example.com": {"A": ["192.0.2.1"]}}
WITHHELD: Zone = {"example.com": {"!": []}}
NOWHERE: Zone = {"example.com": {"A": ["0.0.0.0"]}}


@pytest.mark.parametrize(
    ("source", "filtering", "twin", "malicious"),
    [
        (quad9.SOURCE, WITHHELD, THERE, True),
        (quad9.SOURCE, WITHHELD, {}, True),
        (quad9.SOURCE, WITHHELD, WITHHELD, None),
        (quad9.SOURCE, {}, THERE, None),
        (quad9.SOURCE, {"example.com": {}}, THERE, None),
        (quad9.SOURCE, NOWHERE, THERE, None),
        (quad9.SOURCE, THERE, THERE, None),
        (cloudflare.SOURCE, NOWHERE, THERE, True),
        (cloudflare.SOURCE, NOWHERE, {}, True),
        (cloudflare.SOURCE, NOWHERE, NOWHERE, None),
        (cloudflare.SOURCE, {}, THERE, None),
        (cloudflare.SOURCE, {"example.com": {}}, THERE, None),
        (cloudflare.SOURCE, WITHHELD, THERE, None),
        (cloudflare.SOURCE, {"example.com": {"A": ["192.0.2.9"]}}, THERE, None),
    ],
)
async def test_malicious_is_what_a_filter_says_it_withholds_and_not_what_resolvers_disagree_on(
    source: RemoteSource, filtering: Zone, twin: Zone, malicious: bool | None, name_server: Serve
) -> None:
    (_, first), (_, second) = await name_server(filtering), await name_server(twin)
    fields = await ask(source, "example.com", f"{first},{second}")
    assert fields == ({"threat.malicious": True} if malicious else {})


async def test_a_filter_that_is_away_does_not_make_a_domain_malicious(name_server: Serve) -> None:
    (_, first), (_, second) = await name_server(silent=True), await name_server(ZONE)
    with pytest.raises(SourceError) as failed:
        await ask(quad9.SOURCE, "www.example.com", f"{first},{second}", timeout=0.3)
    assert failed.value.status == "timeout"


# Hosting


async def test_hosting_is_what_the_data_here_knows_of_the_first_address(
    name_server: Serve, tmp_path: Path
) -> None:
    small.write_small_datasets(tmp_path)
    _, url = await name_server({"example.com": {"A": ["8.8.8.9", "8.8.8.8"]}})
    fields = await ask(hosting.SOURCE, "example.com", url, datasets=Datasets(tmp_path))
    expected = {"hosting.ip": "8.8.8.8", "hosting.asn": 15169, "hosting.asn_name": "Google LLC"}
    assert fields.items() >= (expected | {"hosting.country_code": "US"}).items()


def test_each_field_of_hosting_names_the_one_source_here_that_it_is_from() -> None:
    assert hosting.SOURCE.spec.credited == {
        "hosting.asn": "asn",
        "hosting.asn_name": "asn",
        "hosting.company": "cloud",
        "hosting.country_code": "dbip",
    }
    local = [source.spec for source in IP.sources if isinstance(source, LocalSource)]
    for path in ("asn.asn", "asn.name", "company.name", "location.country_code"):
        assert len([spec for spec in local if path in spec.fields]) == 1, path


async def test_without_data_there_is_still_the_address(name_server: Serve, tmp_path: Path) -> None:
    _, url = await name_server({"example.com": {"A": ["8.8.8.8"]}})
    fields = await ask(hosting.SOURCE, "example.com", url, datasets=Datasets(tmp_path))
    assert fields.pop("hosting.ip") == "8.8.8.8"
    assert set(fields.values()) == {Unsure()}


async def test_hosting_is_unsure_of_what_only_a_source_fills_that_is_switched_off(
    name_server: Serve, tmp_path: Path
) -> None:
    small.write_small_datasets(tmp_path)
    _, url = await name_server({"example.com": {"A": ["8.8.8.8"]}})
    here = {"datasets": Datasets(tmp_path), "disabled": frozenset({"asn"})}
    fields = await ask(hosting.SOURCE, "example.com", url, **here)
    assert (fields["hosting.asn"], fields["hosting.country_code"]) == (Unsure(), "US")


# Bootstrap


async def test_the_bootstrap_file_says_which_registry_is_in_charge_and_is_fetched_once(
    resources: AsyncExitStack,
) -> None:
    # The form of RFC 9224, section 4.
    services = [
        [["net", "com"], ["https://registry.example.com/myrdap/"]],
        [["ORG"], ["http://example.org/"]],
    ]
    fetched: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        fetched.append(str(request.url))
        return httpx.Response(200, json={"version": "1.0", "services": services})

    client = await resources.enter_async_context(httpx.AsyncClient(transport=httpx.MockTransport(answer)))
    context = Context(client, "", None, 4)
    found = [await bootstrap.server(tld, context, "http://here.test") for tld in ("com", "org", "de")]
    assert found == ["https://registry.example.com/myrdap", "http://example.org", None]
    assert fetched == ["http://here.test/dns.json"]


@pytest.mark.parametrize("told", [{}, [], {"services": [["com"]]}, {"services": [[["com"], []]]}, "x"])
def test_what_is_no_bootstrap_file_is_a_bad_response(told: Any) -> None:
    with pytest.raises(SourceError) as failed:
        bootstrap.servers(told)
    assert failed.value.status == "bad_response"


def test_no_address_is_used_while_one_of_them_leads_inside() -> None:
    public, private = ip_address("8.8.8.8"), ip_address("10.0.0.1")
    assert nameservers.choose_public([public], ()) == public
    assert nameservers.choose_public([], ()) is None
    with pytest.raises(SourceError):
        nameservers.choose_public([public, private], ())
    assert nameservers.choose_public([private], (ip_network("10.0.0.0/8"),)) == private
