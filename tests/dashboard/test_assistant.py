"""The assistant in a browser: consent, an answer as it comes, the card, and the panel beside a page."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator

import pytest
from playwright.async_api import Browser, BrowserContext, Page, expect

from settings import Settings
from tests.api_server import PASSWORD, Api, Person, running
from tests.assistant.model_server import Model, Say, Stall, call, scripted_model
from tests.automations.workflows import create
from tests.dashboard.browsing import Login, find_barriers, record_faults, sign_in
from tests.datasets import write_small_datasets

HOSTILE = (
    "Look: <img src=x onerror=alert(1)> ![pixel](https://evil.example/pixel.png) "
    "[click](javascript:alert(1)) [page](https://evil.example/login)\n\n```\n<script>alert(1)</script>\n```"
)


@pytest.fixture(scope="module")
async def model() -> AsyncGenerator[Model]:
    async with scripted_model() as served:
        yield served


@pytest.fixture(scope="module")
async def service(settings: Settings, model: Model) -> AsyncGenerator[Api]:
    write_small_datasets(settings.data)
    async with running(settings, chat_base_url=model.url, chat_model="scripted") as api:
        yield api


@pytest.fixture
async def owner(service: Api) -> Person:
    return await service.person(credits=100)


@pytest.fixture
async def context(browser: Browser, service: Api, owner: Person) -> AsyncGenerator[BrowserContext]:
    """A signed-in browser whose pages must be silent, and stay at home."""
    opened = await browser.new_context(base_url=service.url)
    faults = record_faults(opened, service.url)
    await sign_in(opened, Login(owner.account.email, PASSWORD, owner.secret))
    yield opened
    await opened.close()
    assert faults == []


@pytest.fixture
async def page(context: BrowserContext) -> Page:
    return await context.new_page()


async def ask(page: Page, text: str) -> None:
    await page.get_by_label("Your message").fill(text)
    await page.get_by_role("button", name="Send").click()


async def agree(page: Page, model: Model) -> None:
    await page.get_by_role("button", name=re.compile("^Agree to 127.0.0.1")).click()
    await expect(page.get_by_label("Your message")).to_be_visible()


async def test_it_asks_for_consent_then_answers_with_sources_and_can_be_read_again(
    page: Page, model: Model
) -> None:
    answer = "It is in **Amsterdam** [r1 location.city].\nIt is old."
    model.script = [call("lookup_ip", ip="193.0.6.139"), Say(answer)]
    await page.goto("/app/chat")
    await agree(page, model)
    await ask(page, "Where is 193.0.6.139?")
    # The first answer of a process imports the library.
    await expect(page.locator(".answer strong", has_text="Amsterdam")).to_be_visible(timeout=30_000)
    await page.get_by_text("1 source").click()
    await expect(page.locator(".answer details li")).to_contain_text("dbip")
    await expect(page.locator(".unsourced")).to_contain_text("It is old.")
    await page.reload()
    await page.get_by_role("link", name="Where is 193.0.6.139?").click()
    await expect(page.locator(".answer strong", has_text="Amsterdam")).to_be_visible()
    await page.get_by_role("button", name="Delete this one").click()
    await expect(page.get_by_text("No conversations yet.")).to_be_visible()


@pytest.mark.parametrize("decision", ["Approve", "Deny"])
async def test_a_card_shows_the_real_arguments_and_does_what_is_decided(
    page: Page, owner: Person, model: Model, decision: str
) -> None:
    made = {"name": "Name servers", "type": "ip", "targets": ["8.8.8.8"]}
    model.script = [call("create_contact_list", **made), Say("Said and done.")]
    await page.goto("/app/chat")
    await agree(page, model)
    await ask(page, "Keep 8.8.8.8")
    card = page.get_by_role("group", name="Approval: Create a contact list")
    await expect(card).to_contain_text("Name servers")
    await expect(card).to_contain_text("8.8.8.8")
    await card.get_by_role("button", name=decision).click()
    await expect(page.get_by_text("Said and done.")).to_be_visible()
    lists = (await owner.session.get("/api/lists")).json()
    assert len(lists) == (decision == "Approve")


@pytest.mark.long
async def test_arguments_are_edited_before_approval(page: Page, owner: Person, model: Model) -> None:
    made = {"name": "Name servers", "type": "ip", "targets": ["8.8.8.8"]}
    model.script = [call("create_contact_list", **made), Say("Done.")]
    await page.goto("/app/chat")
    await agree(page, model)
    await ask(page, "Keep 8.8.8.8")
    card = page.get_by_role("group", name="Approval: Create a contact list")
    await card.get_by_role("button", name="Edit").click()
    field = card.get_by_label("Arguments")
    await field.fill("{")
    await card.get_by_role("button", name="Approve").click()
    await expect(card.get_by_role("alert")).to_contain_text("not JSON")
    await field.fill('{"name": "Mine", "type": "ip", "targets": ["9.9.9.9"]}')
    await card.get_by_role("button", name="Approve").click()
    await expect(page.get_by_text("Done.", exact=True)).to_be_visible()
    assert [one["name"] for one in (await owner.session.get("/api/lists")).json()] == ["Mine"]


async def test_what_the_model_writes_is_text_and_links_show_their_host(page: Page, model: Model) -> None:
    model.script = [Say(HOSTILE, piece=1000)]
    await page.goto("/app/chat")
    await agree(page, model)
    await ask(page, "Hello")
    answer = page.locator(".answer")
    await expect(answer).to_contain_text("<img src=x onerror=alert(1)>")
    await expect(answer.locator("pre")).to_have_text("<script>alert(1)</script>")
    await expect(answer.locator("img, script, iframe")).to_have_count(0)
    links = answer.locator("a")
    for link in await links.all():
        assert (await link.get_attribute("href") or "").startswith("https://evil.example/")
        assert await link.get_attribute("rel") == "noopener noreferrer nofollow"
    await expect(answer).to_contain_text("(evil.example)")


@pytest.mark.long
async def test_beside_a_workflow_it_knows_what_is_open(page: Page, owner: Person, model: Model) -> None:
    made = await create(owner, name="Visitors")
    model.requests.clear()
    model.script = [Say("It is your workflow.")]
    await page.goto(f"/app/workflows/{made['id']}")
    await page.get_by_role("button", name="Ask the assistant").click()
    await agree(page, model)
    await ask(page, "What is this?")
    await expect(page.get_by_text("It is your workflow.")).to_be_visible()
    assert model.requests[-1]["messages"][-1]["content"] == f"[open: workflow {made['id']}]\n\nWhat is this?"


@pytest.mark.long
async def test_an_answer_can_be_stopped(page: Page, model: Model) -> None:
    model.script = [Stall()]
    await page.goto("/app/chat")
    await agree(page, model)
    await page.get_by_label("Your message").fill("Think")
    await page.get_by_label("Your message").press("Enter")
    await expect(page.locator(".answer")).to_contain_text("Let me see")
    await page.get_by_role("button", name="Stop").click()
    await expect(page.locator(".messages")).to_contain_text("cancelled")


@pytest.mark.long
@pytest.mark.node
async def test_its_states_have_no_barriers(
    browser: Browser, service: Api, owner: Person, model: Model, axe: str
) -> None:
    opened = await browser.new_context(base_url=service.url, bypass_csp=True)
    await sign_in(opened, Login(owner.account.email, PASSWORD, owner.secret))
    page = await opened.new_page()
    found: dict[str, list[str]] = {}
    await page.goto("/app/chat")
    await expect(page.get_by_role("button", name=re.compile("^Agree to"))).to_be_visible()
    found["consent"] = await find_barriers(page, axe)
    await agree(page, model)
    step = {"id": "a", "type": "transform", "config": {"expression": "'x'"}}
    model.script = [
        call("lookup_ip", ip="193.0.6.139"),
        call("create_workflow", definition={"name": "Greeter", "steps": [step]}),
        Say("It is in Amsterdam [r1 location.city].\nIt is old."),
    ]  # fmt: skip
    await ask(page, "Where is it, and make a workflow")
    await expect(page.get_by_role("button", name="Approve")).to_be_visible()
    found["card"] = await find_barriers(page, axe)
    await page.get_by_role("button", name="Deny").click()
    await expect(page.locator(".unsourced")).to_be_visible()
    await page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    found["answer"] = await find_barriers(page, axe)
    await page.goto("/app/lookup")
    await page.get_by_role("button", name="Ask the assistant").click()
    await expect(page.get_by_label("Your message")).to_be_visible()
    found["beside"] = await find_barriers(page, axe)
    await opened.close()
    assert not any(found.values()), found
