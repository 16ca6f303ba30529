"""What templates that judge and enrich promise: nothing is called good that was not looked at."""

from __future__ import annotations

from typing import Any

import pytest
from temporalio.client import Client

from tests.api_server import Api, Person
from tests.automations.engine import Endpoint
from tests.automations.workflows import post
from tests.templates.copies import copy, run, sent
from tests.templates.promises.conftest import Copied
from tests.templates.promises.world import World

pytestmark = pytest.mark.usefixtures("worker")

ADA, THROW_AWAY = "ada@example.com", "x@mailinator.com"
TOR, AMERICAN = "185.220.101.1", "8.8.8.8"
PHONE = "+14155552671"


class Answers:
    """Posts to a copy of a template: what it answers, and what came of it at Slack and elsewhere."""

    def __init__(self, api: Api, made: dict[str, Any], receiver: Endpoint) -> None:
        self._api, self._made, self._receiver = api, made, receiver

    async def __call__(self, payload: Any) -> tuple[Any, list[Any]]:
        answer = await post(self._api, self._made["webhook_url"] + "?wait=30", json=payload)
        assert answer.status_code == 200, answer.text
        return answer.json(), [body for _, body in sent(self._receiver)]


async def answers_of(api: Api, person: Person, receiver: Endpoint, template_id: str) -> Answers:
    return Answers(api, await copy(person, template_id), receiver)


async def test_a_sign_up_that_nobody_could_check_is_told_once_a_day(copied: Copied, world: World) -> None:
    alerts = await copied("sign-up-fraud-check")
    world.domain("example.com")
    ada = {"email": ADA, "ip": AMERICAN}
    assert await alerts(ada) == []
    with world.silent("mx"):
        assert await alerts(ada) == [
            f"Sign-up that could not be checked in full of {ADA} from {AMERICAN}, 0 points: no reason;"
            " not checked in full: e-mail address"
        ]
        assert await alerts(ada) == []
        [text] = await alerts({"email": THROW_AWAY, "ip": TOR})
        assert text.startswith(f"Suspicious sign-up of {THROW_AWAY} from {TOR}, ")
    assert await alerts(ada) == []


async def test_every_lead_is_told_although_its_sources_are_silent(copied: Copied, world: World) -> None:
    alerts = await copied("score-and-route-leads")
    world.domain("example.com")
    lead = {"email": ADA, "message": "Hi"}
    [text] = await alerts(lead)
    assert text == f"For sales: a good lead, 80 points: {ADA}\nAda Lovelace, Analyst, Example Bank, Hi"
    with world.silent("mx", "gravatar", "github", "wikidata"):
        [text] = await alerts(lead)
        assert text.splitlines()[0].startswith("For marketing: a lead, ")
        assert text.splitlines()[0].endswith(f"{ADA} (not looked up in full: the person)")
        assert text.splitlines()[1] == "Hi"
    [text] = await alerts({"email": "nonsense", "message": "Hi"})
    assert text == "For marketing: a lead, 0 points: nonsense (not looked up in full: the person)\nHi"


async def test_a_brief_says_what_could_not_be_looked_up_and_costs_two_credits(
    api: Api, person: Person, receiver: Endpoint, world: World
) -> None:
    made = await copy(person, "brief-before-demo")
    demo = {"email": ADA, "company": "Example Bank"}
    done = await run(api, person, made, demo)
    [(_, whole)] = sent(receiver)
    found = await person.key.get(f"/api/workflows/runs/{done['run_id']}")
    assert found.json()["credits_used"] == 2
    assert whole["text"].endswith("Pages: https://example.org/ada https://example.net/")
    with world.silent("mx", "gravatar", "github", "searxng"):
        await run(api, person, made, demo)
    [(_, half)] = sent(receiver)
    assert "Example Bank: British bank" in half["text"]
    assert half["text"].endswith("Pages: none\nNot looked up in full: the person, the news")


async def test_a_form_lets_pass_what_nobody_can_tell(
    api: Api, person: Person, receiver: Endpoint, world: World
) -> None:
    check = await answers_of(api, person, receiver, "check-address-of-form")
    world.domain("example.com")
    world.domain("mailinator.com")
    assert await check({"email": ADA}) == ({"ok": True, "hint": None}, [])
    hint = "Please use an address that you will keep."
    assert await check({"email": THROW_AWAY}) == ({"ok": False, "hint": hint}, [])
    assert await check({"email": ""}) == ({"ok": False, "hint": "Please enter an address."}, [])
    with world.silent("mx"):
        assert await check({"email": ADA}) == ({"ok": True, "hint": None}, [])
        assert await check({"email": "nobody"}) == (
            {"ok": False, "hint": "This address cannot receive mail."}, [],
        )  # fmt: skip


async def test_nothing_in_the_crm_is_emptied_by_a_silent_source(
    api: Api, person: Person, receiver: Endpoint, world: World
) -> None:
    made = await copy(person, "enrich-crm-contact")
    contact = {"id": 7, "email": ADA}
    with world.silent("gravatar", "github"):
        await run(api, person, made, contact)
        assert sent(receiver) == []
    with world.silent("gravatar"):
        await run(api, person, made, contact)
    [(_, half)] = sent(receiver)
    await run(api, person, made, contact)
    [(_, whole)] = sent(receiver)
    assert half["properties"].keys() < whole["properties"].keys()
    assert all(half["properties"].values())


async def test_accounts_that_were_not_found_out_are_not_none(
    api: Api, person: Person, worker: Client, receiver: Endpoint, world: World
) -> None:
    made = await copy(person, "github-first-contribution", trigger={"type": "webhook"})
    request = {
        "author_association": "FIRST_TIMER",
        "user": {"login": "ada"},
        "html_url": "https://x.example/1",
    }
    event = {"action": "opened", "pull_request": request}
    await run(api, person, made, event)
    with world.silent("keybase"):
        await run(api, person, made, event)
    first, second = [body["text"].splitlines()[1] for _, body in sent(receiver)]
    assert first == "Accounts of that name: https://keybase.io/ada"
    assert second == "Accounts of that name: they could not be looked up"
