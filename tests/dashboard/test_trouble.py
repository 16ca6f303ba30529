"""What goes wrong is told: a lost connection, an ended session, addresses of nothing, odd names."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncGenerator

import httpx
import pytest
from playwright.async_api import Browser, Page, Request, expect

from tests.dashboard.browsing import PASSWORD, create_login, make, read_first_login, settled, sign_in, start
from tests.stacks import StackProcess, eventually

NOBODY = "00000000-0000-4000-8000-000000000000"


@pytest.fixture
async def page(browser: Browser, stack: StackProcess) -> AsyncGenerator[Page]:
    """A page of the first account. The console may tell of answers like 404, but of no fault in a script."""
    opened = await browser.new_context(base_url=stack.url)
    faults: list[str] = []
    opened.on("weberror", lambda error: faults.append(str(error.error)))
    await sign_in(opened, read_first_login(stack))
    yield await opened.new_page()
    await opened.close()
    assert faults == []


async def test_a_lost_connection_is_told_and_the_page_catches_up(
    page: Page, api: httpx.AsyncClient, stack: StackProcess
) -> None:
    pause = {"id": "pause", "type": "delay", "config": {"seconds": 3}}
    run = await start(api, await make(api, "Wait a little", pause), {}, wait=0)
    await page.goto(f"/app/runs/{run['id']}")
    await expect(page.locator("header.title .status")).to_contain_text("waiting")
    await page.evaluate("window.same = true")
    os.kill(stack.process.pid, signal.SIGSTOP)  # else it starts another API at once
    try:
        os.kill(stack.child("api"), signal.SIGKILL)
        await expect(page.get_by_text("The connection is lost.")).to_be_visible(timeout=10_000)
    finally:
        os.kill(stack.process.pid, signal.SIGCONT)
        await eventually(stack.is_ready, 60, "the API is back")
    await expect(page.get_by_text("The connection is lost.")).to_have_count(0, timeout=60_000)
    await expect(page.locator("header.title .status")).to_contain_text("completed", timeout=30_000)
    assert await page.evaluate("window.same")


async def test_a_server_that_says_nothing_is_told_as_lost_and_asked_again(page: Page) -> None:
    await page.clock.install()
    await page.goto("/app/runs")
    await settled(page)
    streams: list[Request] = []
    page.on(
        "request", lambda request: streams.append(request) if request.url.endswith("/api/stream") else None
    )
    await page.clock.fast_forward(39_000)
    await page.evaluate("0")
    assert streams == []
    await page.context.set_offline(True)  # what is open stays open: the stream only says nothing
    await page.clock.fast_forward(2_000)
    await expect(page.get_by_text("The connection is lost.")).to_be_visible()
    await page.context.set_offline(False)
    await page.clock.run_for(10_000)
    await expect(page.get_by_text("The connection is lost.")).to_have_count(0)
    assert streams


async def test_what_could_not_be_read_is_read_when_the_connection_is_back(page: Page) -> None:
    await page.goto("/app/account")
    await settled(page)
    await page.get_by_role("link", name="Workflows").click()
    await settled(page)
    await page.context.set_offline(True)
    await page.get_by_role("link", name="Lookup").click()
    await expect(page.get_by_text("This page could not be loaded.")).to_be_visible()
    await page.get_by_role("link", name="Account").click()
    await expect(page.get_by_text("The service does not answer.").first).to_be_visible()
    await page.context.set_offline(False)
    await page.evaluate("import('/app/assets/live.js').then((live) => live.announce(['all']))")
    await expect(page.get_by_role("cell", name="First key")).to_be_visible()
    await expect(page.get_by_role("alert")).to_have_count(0)


async def test_a_page_whose_session_has_ended_goes_to_the_sign_in_page_and_back(
    browser: Browser, stack: StackProcess
) -> None:
    login = await create_login(stack, "ended")
    opened = await browser.new_context(base_url=stack.url)
    await sign_in(opened, login)
    tabs = [await opened.new_page() for _ in range(2)]
    for tab in tabs:
        await tab.goto("/app/runs?status=failed")
        await settled(tab)
    async with httpx.AsyncClient(base_url=stack.url, trust_env=False) as client:
        body = {"email": login.email, "password": PASSWORD}
        token = (await client.post("/api/auth/login", json=body)).json()["token"]
        headers = {"authorization": f"Bearer {token}"}
        assert (await client.delete("/api/auth/sessions", headers=headers)).status_code == 204
    for tab in tabs:
        await expect(tab.get_by_role("heading", name="Sign in", exact=True)).to_be_visible(timeout=20_000)
    await tabs[1].get_by_label("E-mail").fill(login.email)
    await tabs[1].get_by_label("Password").fill(login.password)
    await tabs[1].get_by_role("button", name="Sign in").click()
    await expect(tabs[1].get_by_text("No run matches these filters.")).to_be_visible()
    await opened.close()


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/nowhere", "There is no such page"),
        ("/runs/__proto__", "There is no such page"),
        (f"/monitors/{NOBODY}", "There is no such monitor"),
        (f"/workflows/{NOBODY}", "There is no such workflow"),
        (f"/runs/{NOBODY}", "There is no such run"),
        ("/runs?status=unknown", "status"),
        ("/runs?status=__proto__", "status"),
        ("/runs?colour=red", "colour"),
        ("/runs?__proto__=red", "__proto__: There is no such parameter"),
        ("/runs?constructor=red", "constructor: There is no such parameter"),
        ("/runs?since=yesterday", "since: Must be a time"),
        ("/runs?cursor=x", "not a cursor"),
        (f"/runs?error_code={'x' * 50_000}", "At most 100 characters"),
        ("/workflows?page=1e30", "page: Must be an integer"),
        ("/workflows?page=-3", "in all"),
        ("/lookup?kind=__proto__", "Target"),
        ("/lookup?kind=constructor", "Target"),
    ],
)
async def test_a_page_of_nothing_says_so(page: Page, api: httpx.AsyncClient, path: str, words: str) -> None:
    await make(api, "One at least", {"id": "one", "type": "transform", "config": {"expression": "trigger"}})
    await page.goto(f"/app{path}")
    await expect(page.locator("main")).to_contain_text(words)


@pytest.mark.parametrize("kind", ["__proto__", "constructor", "nothing"])
async def test_a_kind_of_lookup_that_is_none_is_asked_as_an_address(page: Page, kind: str) -> None:
    await page.goto(f"/app/lookup?kind={kind}")
    await page.get_by_label("Target").fill("8.8.8.8")
    await page.get_by_role("button", name="Look up").click()
    await expect(page.get_by_role("heading", name="Sources asked")).to_be_visible()


async def test_the_things_of_another_account_are_not_there(page: Page, stack: StackProcess) -> None:
    other = await create_login(stack, "other")
    headers = {"authorization": f"Bearer {other.api_key}"}
    async with httpx.AsyncClient(base_url=stack.url, headers=headers, timeout=30, trust_env=False) as theirs:
        step = {"id": "one", "type": "transform", "config": {"expression": "trigger"}}
        workflow = await make(theirs, "Their secret", step)
        run = await start(theirs, workflow, {})
        body = {"name": "Their secret", "monitor_type": "ip", "frequency": "daily", "targets": ["8.8.8.8"]}
        monitor = (await theirs.post("/api/monitors", json=body)).json()["id"]
    for path, kind in (
        (f"workflows/{workflow}", "workflow"),
        (f"runs/{run['id']}", "run"),
        (f"monitors/{monitor}", "monitor"),
    ):
        await page.goto(f"/app/{path}")
        await expect(page.locator("main")).to_contain_text(f"There is no such {kind}")
        await expect(page.get_by_text("Their secret")).to_have_count(0)


async def test_steps_named_as_what_objects_have_by_themselves_are_shown(
    page: Page, api: httpx.AsyncClient
) -> None:
    names = ["__proto__", "constructor", "valueOf", "has_own_property"]
    steps = [{"id": name, "type": "transform", "config": {"expression": "trigger"}} for name in names]
    workflow = await make(api, "Odd steps", *steps)
    run = await start(api, workflow, {"__proto__": {"a": 1}, "toString": "x"})
    for path in (f"workflows/{workflow}", f"runs/{run['id']}?view=graph"):
        await page.goto(f"/app/{path}")
        await expect(page.locator(".graph .node")).to_have_count(len(names))
        for name in names:
            await expect(page.locator(".graph .node").filter(has_text=name).first).to_be_visible()
        await expect(page.get_by_text("native code")).to_have_count(0)


async def test_a_name_of_nothing_that_is_seen_can_be_followed(page: Page, api: httpx.AsyncClient) -> None:
    for name in ("\u200b\u200b", "\u3164", "\u00a0\u2003\u200b"):
        step = {"id": "one", "name": name, "type": "transform", "config": {"expression": "trigger"}}
        workflow = await make(api, name, step)
        run = await start(api, workflow, {" ": "   "})
        await page.goto("/app/workflows")
        await page.locator(f"a[href='/app/workflows/{workflow}']").first.click()
        await expect(page.get_by_role("heading", level=1)).to_contain_text("⟦U+")
        await page.goto(f"/app/runs/{run['id']}")
        await expect(page.get_by_role("heading", level=1)).to_contain_text("⟦U+")
        await expect(page.get_by_text('"   "').first).to_be_visible()


async def test_a_text_of_a_megabyte_is_folded(page: Page, api: httpx.AsyncClient) -> None:
    step = {"id": "one", "type": "transform", "config": {"expression": "length(trigger.text)"}}
    run = await start(api, await make(api, "Long", step), {"text": "x" * 1_000_000, "many": [0] * 20_000})
    await page.goto(f"/app/runs/{run['id']}")
    await settled(page)
    shown = await page.locator("main").inner_text()
    assert len(shown) < 10_000
    await expect(page.get_by_role("button", name="1,000,000 characters")).to_be_visible()
    await page.get_by_role("button", name="20000 items").click()
    await expect(page.locator("dd")).not_to_have_count(0)
    assert await page.locator("dd").count() < 100


@pytest.mark.parametrize("width", [360, 1400])
async def test_no_page_of_one_thing_is_wider_than_the_window(
    page: Page, api: httpx.AsyncClient, width: int
) -> None:
    step = {
        "id": "a_step_with_a_rather_long_name", "name": "n" * 150, "type": "transform",
        "config": {"expression": "trigger"},
    }  # fmt: skip
    workflow = await make(api, "w" * 150, step)
    run = await start(api, workflow, {"k" * 300: "v" * 900, "deep": {"a": {"b": {"c": "x" * 300}}}})
    body = {"name": "m" * 150, "monitor_type": "ip", "frequency": "daily", "targets": ["8.8.8.8"]}
    monitor = (await api.post("/api/monitors", json=body)).json()["id"]
    await page.set_viewport_size({"width": width, "height": 800})
    for path in (
        f"runs/{run['id']}", f"runs/{run['id']}?view=graph", f"workflows/{workflow}", f"monitors/{monitor}",
        "", "runs", "workflows", "monitors",
    ):  # fmt: skip
        await page.goto(f"/app/{path}")
        await settled(page)
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
