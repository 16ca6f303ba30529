"""What strangers write into every field, and a check that a page shows it as text."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import httpx
from aiohttp import web
from playwright.async_api import Browser, BrowserContext, Page, expect

from database import Database
from tests.automations.engine import Endpoint
from tests.dashboard.browsing import PASSWORD, create_login, make, record_faults, settled, sign_in, start
from tests.dashboard.seeds import run_monitor
from tests.monitors.watching import Scanner
from tests.stacks import StackProcess

MARKUP = "<img src=x onerror=alert(1)><svg/onload=alert(1)>'\"><script>alert(1)</script>"
HIDDEN = "\u202egnp.exe \u200b\u2066\u00ad\ufeff"
TEXT = f"{MARKUP} javascript:alert(1) {HIDDEN} ${{alert(1)}} {{{{trigger}}}}"
LINKS = [
    "javascript:alert(1)", " javascript:alert(1)", "data:text/html,<script>alert(1)</script>", "vbscript:x",
    "//evil.example", "https://user@evil.example/", "https://evil.example/\u202egnp.exe",
]  # fmt: skip
SAID = {
    TEXT: TEXT,
    "links": LINKS,
    "__proto__": {"polluted": True},
    "constructor": {"prototype": {"polluted": True}},
    "toString": TEXT,
    "dangerouslySetInnerHTML": {"__html": MARKUP},
    "omitted": {"omitted": True, "bytes": TEXT, "url": "javascript:alert(1)//api/workflows/runs/x"},
}

# Elements that only a stranger's text could have made, and links to anywhere but the web.
_MADE = """() => [...document.querySelectorAll(
  `img:not([src^='/app/']), script:not([src^='/app/']), iframe, object, embed, base, form[action],
  [style]:not(.uplot *)`)]
  .concat([...document.querySelectorAll("*")].filter((one) =>
    one.getAttributeNames().some((name) => name.startsWith("on"))))
  .concat([...document.querySelectorAll("a")].filter((one) => !["http:", "https:"].includes(one.protocol)
    || (one.host === "evil.example" && !one.rel.includes("noopener noreferrer"))))
  .map((one) => one.outerHTML.slice(0, 200))"""

_UNFOLD = """async () => {
  for (const one of document.querySelectorAll("details")) one.open = true;
  for (let n = 0, fold; n < 100 && (fold = document.querySelector(".fold[aria-expanded=false]")); n++) {
    fold.click();
    await new Promise(requestAnimationFrame);
  }
}"""


class Planted(NamedTuple):
    """The browser of an account that strangers write to, and the pages that show what they wrote."""

    context: BrowserContext
    faults: list[str]
    pages: dict[str, str]


@asynccontextmanager
async def planting(
    browser: Browser, stack: StackProcess, called: Endpoint, scanner: Scanner
) -> AsyncGenerator[Planted]:
    """Plant the text in each field that a source, an event, an answer, a file or an agent can fill."""
    login = await create_login(stack, "planted")
    headers = {"authorization": f"Bearer {login.api_key}", "user-agent": MARKUP}
    called.answer = lambda request: web.Response(
        text=json.dumps(SAID),
        content_type="application/json",
        status=404 if "bad" in request["path"] else 200,
    )
    async with httpx.AsyncClient(base_url=stack.url, headers=headers, timeout=30, trust_env=False) as api:
        pages = await _plant_runs(api, called.url) | await _plant_monitor(api, stack, scanner)
        key = await api.post("/api/keys", json={"name": TEXT[:200], "scopes": ["lookups"]})
        assert key.status_code == 201, key.text
        await api.post("/api/auth/login", json={"email": login.email, "password": PASSWORD})
    opened = await browser.new_context(base_url=stack.url)
    faults = record_faults(opened, stack.url)
    await sign_in(opened, login)
    yield Planted(opened, faults, pages)
    await opened.close()


async def _plant_runs(api: httpx.AsyncClient, url: str) -> dict[str, str]:
    def tell(path: str) -> dict[str, Any]:
        config = {"url": f"{url}/{path}"}
        return {"id": "constructor", "name": TEXT[:100], "type": "webhook", "config": config}

    workflow = await make(api, TEXT[:200], tell("good"))
    good = await start(api, workflow, SAID)
    bad = await start(api, await make(api, TEXT[:200], tell("bad")), SAID)
    assert (good["status"], bad["status"]) == ("completed", "failed")
    question = {"title": TEXT[:200], "message": f"{TEXT}\n{LINKS}"}
    ask = {"id": "ask", "name": TEXT[:100], "type": "wait", "config": question}
    waiting = await start(api, await make(api, TEXT[:200], ask), SAID, wait=0)
    upload = {"name": TEXT[:200], "trigger": {"type": "file_upload"}, "steps": [
        {"id": "row", "type": "transform", "config": {"expression": "trigger"}}]}  # fmt: skip
    made = await api.post("/api/workflows", json=upload)
    assert made.status_code == 201, made.text
    rows = f'name,"{MARKUP.replace(chr(34), chr(39))}"\n{HIDDEN},javascript:alert(1)\n'
    file = (f"{MARKUP}.csv", rows, "text/csv")
    sent = await api.post(f"/api/workflows/{made.json()['id']}/upload", files={"file": file})
    assert sent.status_code == 202, sent.text
    return {
        **{name: f"/{name}" for name in ("runs", "errors", "workflows", "approvals", "account")},
        "home": "",
        "workflow": f"/workflows/{workflow}",
        "step": f"/workflows/{workflow}?step=constructor",
        "run": f"/runs/{good['id']}",
        "graph": f"/runs/{good['id']}?view=graph",
        "failed run": f"/runs/{bad['id']}",
        "waiting run": f"/runs/{waiting['id']}",
        "file": f"/runs?batch_id={sent.json()['batch_id']}",
    }


async def _plant_monitor(api: httpx.AsyncClient, stack: StackProcess, scanner: Scanner) -> dict[str, str]:
    body = {"name": TEXT[:200], "monitor_type": "ip", "frequency": "daily", "targets": ["193.0.6.77"]}
    monitor = await api.post("/api/monitors", json=body)
    assert monitor.status_code == 201, monitor.text
    database = Database(stack.record.database_url, name="tests")
    await database.open()
    before = scanner.greynoise, scanner.abuseipdb
    await run_monitor(api, database, monitor.json()["id"])
    scanner.greynoise, scanner.abuseipdb = _say_greynoise, _say_abuseipdb
    await run_monitor(api, database, monitor.json()["id"])
    asked = await api.post("/api/lookups/ip", json={"ip": "193.0.6.77"})
    scanner.greynoise, scanner.abuseipdb = before
    await database.close()
    assert MARKUP in asked.text.replace('\\"', '"'), asked.text
    return {"monitors": "/monitors", "monitor": f"/monitors/{monitor.json()['id']}?all=yes"}


def _say_greynoise(address: str) -> web.Response:
    said: dict[str, Any] = {
        "noise": True,
        "riot": False,
        "classification": TEXT,
        "name": TEXT,
        "last_seen": TEXT,
    }
    return web.json_response({"ip": address, **SAID, **said})


def _say_abuseipdb(address: str) -> web.Response:
    said: dict[str, Any] = {"abuseConfidenceScore": 92, "usageType": TEXT, "isTor": False}
    return web.json_response({"data": {"ipAddress": address, **SAID, **said}, **SAID})


async def check(page: Page, planted: Planted, *, may_refuse: bool = False) -> None:
    """Fail if the page has made anything of a stranger's text but text.

    `may_refuse`: the console may tell that the API has refused a request.
    """
    await page.evaluate(_UNFOLD)
    await settled(page)
    assert await page.evaluate(_MADE) == []
    assert await page.evaluate("({}).polluted") is None
    assert not set("\u202e\u200b\u2066\u00ad\ufeff") & set(await page.locator("body").inner_text())
    if may_refuse:
        # Last, because the browser may tell of a refusal after the page has shown it.
        planted.faults[:] = [one for one in planted.faults if not one.startswith(_REFUSED)]
    assert planted.faults == []


_REFUSED = "error: Failed to load resource"
PAGES = [
    "home", "runs", "errors", "workflows", "approvals", "account", "workflow", "step", "run", "graph",
    "failed run", "waiting run", "file", "monitors", "monitor",
]  # fmt: skip
"""The names of the planted pages."""


async def check_page(planted: Planted, name: str) -> None:
    """Open a page with planted text, and check it."""
    page = await planted.context.new_page()
    await page.goto(f"/app{planted.pages[name]}")
    await settled(page)
    if name != "file":
        text = page.get_by_text("<img src=x onerror=alert(1)>").locator("visible=true")
        await expect(text.first).to_be_visible()
    await check(page, planted)
    await page.close()
