"""The company of a mail domain: asked about once for all who have an address there."""

from __future__ import annotations

import pytest

from providers.email.employer import size
from settings import ProviderSettings, Settings
from tests.email.sources import Sources, running_with

PATH = "/api/agent/lookup"


@pytest.fixture
def with_key(sources: Sources) -> Sources:
    chosen = sources.providers["abstractemployer"].model_dump() | {"key": "the-operators-key"}
    sources.providers["abstractemployer"] = ProviderSettings.model_validate(chosen)
    sources.say("empty")
    sources.say("ok", "abstractemployer")
    return sources


async def test_colleagues_are_asked_about_once(settings: Settings, with_key: Sources) -> None:
    async with running_with(with_key, settings) as api:
        person = await api.person(credits=10)
        answers = [
            (await person.key.post(PATH, json={"email": f"{name}@example.com"})).json()
            for name in ("ada", "ben")
        ]
    assert [answer["industry"] for answer in answers] == ["Banking"] * 2
    assert [answer["company_size"] for answer in answers] == ["1001-5000"] * 2
    assert with_key.asked["abstractemployer"] == 1
    assert [answer["credits"] for answer in answers] == [0, 0], "of the person nothing is known"


async def test_the_item_of_the_company_with_that_website_is_read_without_a_key(
    settings: Settings, sources: Sources
) -> None:
    sources.say("empty")
    sources.say("ok", "wikidataemployer")
    async with running_with(sources, settings) as api:
        person = await api.person(credits=10)
        answer = (await person.key.post(PATH, json={"email": "eve@mail.example.com"})).json()
    assert (answer["industry"], answer["company_size"]) == ("financial services", "1001-5000")
    assert answer["sources"]["industry"] == ["wikidataemployer"]


async def test_a_free_provider_is_nobodys_employer(settings: Settings, with_key: Sources) -> None:
    async with running_with(with_key, settings) as api:
        person = await api.person(credits=10)
        answer = (await person.key.post(PATH, json={"email": "ada@gmail.com"})).json()
    assert (answer["industry"], answer["company_size"]) == (None, None)
    assert with_key.asked["abstractemployer"] == 0


@pytest.mark.parametrize(
    ("count", "range_"),
    [(1, "1-10"), (10, "1-10"), (11, "11-50"), (1350, "1001-5000"), (10000, "5001-10000"), (10001, "10001+")],
)
def test_a_size_is_a_range(count: int, range_: str) -> None:
    assert size(count) == range_
