"""One breach under several names: by the public catalogue, and where that is missing by their letters."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from providers.breach.catalogue import DATASET, build, open_catalogue
from providers.breach.exposed import usual
from providers.breach.kind import KIND
from providers.datasets import installed
from providers.datasets.installed import Provenance
from providers.sources.aggregate import merge
from settings import Settings
from tests.email.sources import Sources, running_with

PATH = "/api/agent/breaches"
# Entries as the documentation has them, without what is not read: https://haveibeenpwned.com/API/v3#BreachModel.
BREACHES = [
    ("LinkedIn", "LinkedIn", "linkedin.com"),
    ("LinkedInScrape", "LinkedIn Scraped Data (2021)", "linkedin.com"),
    ("Evony", "Evony", "evony.com"),
    ("Zynga", "Zynga", "zynga.com"),
    ("BattlefieldHeroes", "Battlefield Heroes", "battlefieldheroes.com"),
    ("Twitter", "Twitter (200M)", "twitter.com"),
    ("ShopOne", "Shop (2019)", "shop.example"),
    ("ShopTwo", "Shop (2021)", "shop.example"),
    ("Collection1", "Collection #1", ""),
]


def catalogue(folder: Path, others: int = 500) -> Mapping[str, Path]:
    names = [*BREACHES, *((f"Other{n}", f"Other {n}", f"other{n}.example") for n in range(others))]
    told = [{"Name": name, "Title": title, "Domain": domain} for name, title, domain in names]
    with zipfile.ZipFile(folder / "download.zip", "w") as archive:
        archive.writestr("breaches", json.dumps(told))
    return build(folder / "download.zip", folder)


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("BattlefieldHeroes", "Battlefield Heroes"),
        ("battlefieldheroes.com", "Battlefield Heroes"),
        ("twitter.com", "Twitter (200M)"),
        ("LinkedIn.com", "LinkedIn"),
        ("LinkedIn Scraped Data (2021)", "LinkedIn Scraped Data (2021)"),
        ("collection #1", "Collection #1"),
        ("shop.example", None),
        ("linkedin.org", None),
        ("", None),
    ],
)
def test_a_breach_is_known_by_its_name_its_title_and_a_domain_that_is_its_own(
    name: str, title: str | None, tmp_path: Path
) -> None:
    assert open_catalogue(catalogue(tmp_path)).title(name) == (title or name)


@pytest.mark.parametrize("others", [0, 10])
def test_a_catalogue_with_hardly_a_breach_in_it_is_not_installed(others: int, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="breaches"):
        catalogue(tmp_path, others)


async def test_with_the_catalogue_breaches_have_its_titles(sources: Sources, settings: Settings) -> None:
    folder = installed.folder(settings.data)
    folder.mkdir(parents=True)
    installed.install(
        settings.data, DATASET.name, catalogue(folder), Provenance(source="test", version="1", licence="-")
    )
    sources.say("ok")
    async with running_with(sources, settings) as api:
        person = await api.person()
        answer = (await person.key.post(PATH, json={"email": "ada@example.com"})).json()
    assert answer["services"] == ["Adobe", "LinkedIn", "Evony", "Zynga", "Infostealer malware"]


@pytest.mark.parametrize(
    ("given", "services"),
    [
        ([["Last.fm"], ["LastFM"]], ["Last.fm"]),
        ([["Mail.ru"], ["Mail.com"]], ["Mail.ru", "Mail.com"]),
        ([["MySpace", "Adobe"], ["Myspace", "Dropbox"]], ["MySpace", "Adobe", "Dropbox"]),
        ([["Twitter (200M)"], ["Twitter"]], ["Twitter (200M)", "Twitter"]),
        ([["Collection #1"], ["Collection #2"]], ["Collection #1", "Collection #2"]),
    ],
)
def test_names_are_one_if_they_differ_in_case_and_punctuation_alone(
    given: list[list[str]], services: list[str]
) -> None:
    merged = merge([(str(n), {"services": names}) for n, names in enumerate(given)], KIND.rules)
    assert merged.fields["services"] == services


@pytest.mark.parametrize(
    ("names", "sorts"),
    [
        (["Email", "email addresses", "Email addresse"], ["Email addresses"]),
        (["first_name", "last_name"], ["Names"]),
        (["dob", "Genders"], ["Dates of birth", "Genders"]),
        (["profile_name"], ["Profile name"]),
        ([""], []),
    ],
)
def test_sorts_of_data_have_their_usual_names(names: list[str], sorts: list[str]) -> None:
    assert usual(names) == sorts
