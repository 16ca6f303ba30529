"""What templates that judge and enrich promise: nothing is called good that was not looked at."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import web
from temporalio.client import Client

from tests.api_server import Api, Person
from tests.automations.engine import Endpoint
from tests.automations.workflows import post
from tests.templates.copies import copy, run, sent
from tests.templates.promises.conftest import Copied
from tests.templates.promises.world import World, day

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


async def test_only_an_order_that_was_checked_in_full_is_approved(
    api: Api, person: Person, receiver: Endpoint, world: World
) -> None:
    world.domain("example.com")
    screen = await answers_of(api, person, receiver, "screen-orders")
    good = {"id": 7, "email": ADA, "ip": AMERICAN, "phone": PHONE}
    approved = {"id": 7, "decision": "approve", "score": 0, "reasons": [], "not_checked": []}
    assert await screen(good) == (approved, [])
    with world.silent("mx"):
        held, [alert] = await screen(good)
        assert held == approved | {"decision": "hold", "not_checked": ["e-mail address"]}
        assert alert["text"] == "Order 7: hold, 0 points: no reason; not checked in full: e-mail address"
    held, [alert] = await screen({"id": 8, "email": ADA})
    assert (held["decision"], held["not_checked"]) == ("hold", ["IP", "phone number"])
    assert await screen(good) == (approved, [])


async def test_an_order_is_held_or_rejected_by_its_points(
    api: Api, person: Person, receiver: Endpoint, world: World
) -> None:
    world.domain("example.com")
    screen = await answers_of(api, person, receiver, "screen-orders")
    held, [_] = await screen({"id": 1, "email": ADA, "ip": TOR, "phone": PHONE})
    assert (held["decision"], held["score"]) == ("hold", 55)
    rejected, [alert] = await screen({"id": 2, "email": THROW_AWAY, "ip": TOR, "phone": "12"})
    assert (rejected["decision"], rejected["score"]) == ("reject", 155)
    assert "no such phone number" in rejected["reasons"]
    assert alert["text"].startswith("Order 2: reject, 155 points: throw-away e-mail address, ")
    rejected, _ = await screen({"id": 3, "email": "nonsense", "ip": TOR, "phone": PHONE})
    assert (rejected["decision"], rejected["not_checked"]) == ("reject", [])


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


async def test_an_alert_gets_one_verdict_written_back(
    api: Api, person: Person, receiver: Endpoint, world: World
) -> None:
    world.domain("example.com", created=-5)
    triage = await answers_of(api, person, receiver, "triage-alerts")
    verdict, written = await triage({"id": "A-1", "ip": TOR, "domain": "example.com", "email": ADA})
    assert written == [verdict]
    assert verdict == {
        "id": "A-1",
        "verdict": "suspicious",
        "reasons": [
            f"{TOR}: tor_exit (tor)",
            f"{TOR}: vpn_exit (x4bnet)",
            "example.com: young_domain (rdapdomain)",
        ],
        "not_looked_up": [],
    }
    verdict, _ = await triage({"id": "A-2", "ip": AMERICAN})
    assert (verdict["verdict"], verdict["reasons"]) == ("clean", [])


async def test_an_alert_that_could_not_be_judged_is_not_called_clean(
    api: Api, person: Person, receiver: Endpoint, world: World
) -> None:
    triage = await answers_of(api, person, receiver, "triage-alerts")
    alert = {"id": "A-1", "ip": AMERICAN, "domain": "example.com"}
    with world.silent("rdapdomain", "dns", "tls"):
        verdict, [_] = await triage(alert)
    assert verdict["verdict"] == "unknown"
    address = {"id": "A-1", "ip": AMERICAN}
    with world.silent("wellknown"):
        verdict, [_] = await triage(address)
    assert verdict["verdict"] == "unknown"
    verdict, [_] = await triage(address)
    assert (verdict["verdict"], verdict["not_looked_up"]) == ("clean", [])
    verdict, _ = await triage({"id": "A-2", "ip": AMERICAN, "domain": "no domain"})
    assert (verdict["verdict"], verdict["not_looked_up"]) == ("unknown", ["domain: invalid_input"])
    verdict, _ = await triage({"id": "A-3"})
    assert verdict["verdict"] == "unknown"


async def test_a_verdict_is_written_back_when_the_other_side_is_there_again(
    api: Api, person: Person, receiver: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    triage = await answers_of(api, person, receiver, "triage-alerts")
    away = [web.json_response({}, status=503)]
    monkeypatch.setattr(receiver, "answer", lambda _: away.pop() if away else web.json_response({}))
    _, written = await triage({"id": "A-1", "ip": AMERICAN})
    assert len(written) == 2 and written[0] == written[1]


async def test_the_sender_of_an_e_mail_is_judged(
    api: Api, person: Person, receiver: Endpoint, world: World
) -> None:
    judge = await answers_of(api, person, receiver, "triage-sender")
    world.domain("example.com", created=-2000)
    world.leaks(ADA, "Adobe")
    assert await judge({"from": f"Ada Lovelace <{ADA.upper()}>"}) == (
        {"sender": ADA, "verdict": "clean", "reasons": [], "breaches": 1, "not_known": []}, [],
    )  # fmt: skip
    world.domain("example.com", created=-3)
    world.leaks(ADA, "Infostealer malware")
    verdict, [alert] = await judge({"from": ADA})
    reasons = [f"the domain is young: since {day(-3)}", "a computer of the sender was infected"]
    assert (verdict["verdict"], verdict["reasons"]) == ("suspicious", reasons)
    assert alert["text"] == f"An e-mail of {ADA} is suspicious: {', '.join(reasons)}"
    world.no_domain("example.net")
    world.leaks("eve@example.net")
    verdict, _ = await judge({"from": "<eve@example.net>"})
    assert verdict["reasons"] == ["the address takes no mail", "the domain is not registered"]
    world.domain("example.com")


@pytest.mark.parametrize(
    ("silent", "not_known", "breaches"),
    [
        (("mx",), ["whether it takes mail"], 0),
        (("rdapdomain",), ["how old the domain is", "all that speaks against the domain"], 0),
        (("leakcheck",), ["all breaches of the address"], None),
        (("leakcheck", "xposedornot"), ["all breaches of the address"], None),
    ],
)
async def test_a_sender_of_whom_something_is_not_known_is_not_called_clean(
    api: Api, person: Person, receiver: Endpoint, world: World, silent: Any, not_known: Any, breaches: Any
) -> None:
    judge = await answers_of(api, person, receiver, "triage-sender")
    world.domain("example.com")
    world.leaks(ADA)
    with world.silent(*silent):
        verdict, told = await judge({"from": ADA})
    assert (verdict["verdict"], verdict["breaches"], told) == ("unknown", breaches, [])
    assert set(not_known) <= set(verdict["not_known"])
    verdict, _ = await judge({"from": ADA})
    assert (verdict["verdict"], verdict["breaches"]) == ("clean", 0)


async def test_something_that_is_no_sender_is_not_called_clean(
    api: Api, person: Person, receiver: Endpoint
) -> None:
    judge = await answers_of(api, person, receiver, "triage-sender")
    for told in ({}, {"from": "nobody"}, {"from": ""}):
        verdict, _ = await judge(told)
        assert verdict["verdict"] in ("unknown", "suspicious"), told


@pytest.mark.parametrize(
    ("template_id", "payload", "most"),
    [
        ("screen-orders", {"id": 1, "email": ADA, "ip": AMERICAN, "phone": PHONE}, 1),
        ("sign-up-fraud-check", {"email": ADA, "ip": AMERICAN, "phone": PHONE}, 1),
        ("triage-alerts", {"id": 1, "email": ADA, "ip": AMERICAN, "domain": "example.com"}, 2),
        ("triage-sender", {"from": ADA}, 1),
        ("score-and-route-leads", {"email": ADA, "message": "Hi"}, 1),
    ],
)
async def test_a_run_costs_no_more_than_its_template_says(
    api: Api, person: Person, receiver: Endpoint, world: World, template_id: str, payload: Any, most: int
) -> None:
    world.domain("example.com")
    made = await copy(person, template_id)
    await post(api, made["webhook_url"] + "?wait=30", json=payload)
    [run] = (await person.key.get(f"/api/workflows/runs?workflow_id={made['id']}")).json()["runs"]
    assert run["status"] == "completed" and run["credits_used"] <= most
    sent(receiver)


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
    await run(api, person, made, event)
    first, second, third = [body["text"].splitlines()[1] for _, body in sent(receiver)]
    assert first == third == "Accounts of that name: https://keybase.io/ada"
    assert second == "Accounts of that name: they could not be looked up"
