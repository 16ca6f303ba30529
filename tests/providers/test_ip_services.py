"""The IP services: what their fixtures cannot show. For their answers see test_contract.py."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import httpx
import pytest

from providers.ip import abstractip, abuseipdb, cloud, dbip, greynoise, rdap, tor, virustotal, x4bnet
from providers.ip.kind import KIND, normalise
from providers.sources.aggregate import merge
from providers.sources.base import Context, Fields, SourceError

# RDAP: which registry is asked. The form of the file is that of RFC 9224, section 5.

BOOTSTRAP = {
    "version": "1.0",
    "publication": "2026-11-01T00:00:00Z",
    "services": [
        [["192.0.0.0/8", "8.0.0.0/8"], ["https://rdap.arin.example/registry/", "http://rdap.arin.example/"]],
        [["192.198.0.0/16"], ["https://rdap.narrow.example/"]],
    ],
}
NETWORK = {"objectClassName": "ip network", "startAddress": "8.8.8.0", "endAddress": "8.8.8.255"}


class Registries:
    """IANA and the registries, as a transport: what was asked, and what they say."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.bootstrap: Any = BOOTSTRAP

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(str(request.url))
        return httpx.Response(
            200, json=self.bootstrap if request.url.host == "data.iana.org" else NETWORK, request=request
        )

    async def ask(self, address: str) -> Fields:
        async with httpx.AsyncClient(transport=httpx.MockTransport(self)) as client:
            context = Context(client, rdap.SOURCE.spec.base_url, None, 4)
            return rdap.parse(await rdap.fetch(normalise(address, "/ip"), context))


@pytest.fixture
def registries(monkeypatch: pytest.MonkeyPatch) -> Generator[Registries]:
    fresh = {version: type(known)() for version, known in rdap._bootstraps.items()}  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(rdap, "_bootstraps", fresh)
    yield Registries()


async def test_iana_is_asked_once_which_registry_is_in_charge(registries: Registries) -> None:
    for address in ("8.8.8.8", "8.8.4.4"):
        await registries.ask(address)
    assert registries.asked == [
        "https://data.iana.org/rdap/ipv4.json",
        "https://rdap.arin.example/registry/ip/8.8.8.8",
        "https://rdap.arin.example/registry/ip/8.8.4.4",
    ]


async def test_the_registry_of_the_narrowest_range_is_asked(registries: Registries) -> None:
    await registries.ask("192.198.1.1")
    assert registries.asked[-1] == "https://rdap.narrow.example/ip/192.198.1.1"


async def test_an_address_of_no_registry_is_an_empty_answer(registries: Registries) -> None:
    assert await registries.ask("9.9.9.9") == {}
    assert len(registries.asked) == 1


@pytest.mark.parametrize(
    "told",
    [[], {}, {"services": [1]}, {"services": [[["8.0.0.0/8"], ["http://plain.example/"]]]},
     {"services": [[["8.0.0.0/99"], ["https://rdap.example/"]]]}],
)  # fmt: skip
async def test_a_bootstrap_file_of_another_shape_is_a_bad_response_and_is_not_kept(
    told: Any, registries: Registries
) -> None:
    registries.bootstrap = told
    with pytest.raises(SourceError) as failed:
        await registries.ask("8.8.8.8")
    assert failed.value.status == "bad_response"
    registries.bootstrap = BOOTSTRAP
    assert (await registries.ask("8.8.8.8"))["malware.network"] == "8.8.8.0/24"


# Which queries go where


@pytest.mark.parametrize(("address", "taken"), [("8.8.8.8", True), ("2606:4700::1111", False)])
def test_greynoise_is_asked_about_ipv4_alone(address: str, taken: bool) -> None:
    assert greynoise.SOURCE.takes(normalise(address, "/ip")) is taken


# How their fields become one answer


def test_a_list_that_knows_wins_over_a_service_that_says_no() -> None:
    merged = merge(
        [
            ("abstractip", {"security.is_tor": False, "security.is_vpn": False}),
            ("tor", {"security.is_tor": True, "threat.is_tor": True}),
            ("x4bnet", {"security.is_vpn": True}),
            ("abuseipdb", {"security.is_tor": False, "threat.is_tor": False}),
        ],
        KIND.rules,
    )
    assert merged.fields == {"security.is_tor": True, "security.is_vpn": True, "threat.is_tor": True}
    assert merged.sources == {
        "security.is_tor": ["tor"], "security.is_vpn": ["x4bnet"], "threat.is_tor": ["tor"],
    }  # fmt: skip
    assert merged.conflicts["threat.is_tor"] == {"tor": True, "abuseipdb": False}


def test_a_place_and_a_company_are_not_put_together_from_two_sources() -> None:
    answers = [
        ("abstractip", {"location.city": "Berlin", "location.country": "Germany", "company.name": "Acme"}),
        ("dbip", {"location.city": "Munich", "location.country": "Germany", "location.latitude": 48.14}),
        ("cloud", {"company.name": "Amazon Web Services", "company.domain": "aws.amazon.com"}),
    ]
    merged = merge(answers, KIND.rules, KIND.together)
    assert merged.fields == {
        "location.city": "Berlin",
        "location.country": "Germany",
        "company.name": "Acme",
    }
    assert merged.conflicts.keys() == {"location.city", "company.name"}


def test_whose_an_address_is_comes_from_who_knows_best() -> None:
    order = [source.spec.name for source in KIND.sources]
    for field, sources in (
        ("company.name", (abstractip, cloud, rdap)),
        ("location.city", (abstractip, dbip)),
        ("malware.network", (virustotal, rdap)),
        ("threat.is_tor", (tor, abuseipdb)),
        ("security.is_hosting", (abstractip, x4bnet, cloud)),
    ):
        names = [module.SOURCE.spec.name for module in sources]
        assert names == sorted(names, key=order.index)
        assert names == [source.spec.name for source in KIND.sources if field in source.spec.fields]
