"""Nothing heard, nothing charged: by whatever way something is looked up."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web
from pydantic import SecretStr

from database import Database
from providers.lookup.coverage import is_heard_of
from providers.lookup.offline_answers import lack_of
from providers.lookup.result import LookupResult, Outcome
from providers.registry import KINDS
from providers.sources.base import RemoteSource
from sealing import Keyring
from settings import ProviderSettings, Settings
from temporal.client import connect
from tests.api_server import Api, Person, running
from tests.automations.engine import Endpoint, endpoint, until, working
from tests.lookups.composing import answer

pytestmark = pytest.mark.long

TARGETS = {
    "ip": "9.9.9.9",
    "breach": "ada@example.com",
    "email": "ada@example.com",
    "domain": "example.com",
    "company": "Example Bank",
    "username": "octocat",
    "websearch": "Ada Lovelace",
    "darkweb": "example.com",
}
ROUTES = {"breach": ("breaches", "email"), "email": ("lookup", "email"), "websearch": ("websearch", "query")}
SLOW = {"abstractip", "virustotal", "virustotaldomain", "rdap"}
"""They allow so few requests that a job would wait for them."""
SEARCHES = {"ip": "ip", "domain": "domain", "company": "company", "websearch": "web"}


_FORM = '<form action="/search/"><input type="hidden" name="a" value="b"></form>'


def refuse(request: dict[str, Any]) -> web.Response:
    """Take no query: there is no reason to try it again. Only the search form of Ahmia is there."""
    if request["path"] == "/":
        return web.Response(text=_FORM, content_type="text/html")
    return web.Response(status=451)


@pytest.fixture(scope="module")
async def sources() -> AsyncGenerator[Endpoint]:
    """A server that stands for every source, and answers nothing."""
    async with endpoint() as served:
        served.answer = refuse
        yield served


@pytest.fixture(scope="module")
def failing_settings(live_settings: Settings, sources: Endpoint) -> Settings:
    """The module's settings, without data, and with every source that is asked over HTTP."""
    providers: dict[str, ProviderSettings] = {}
    for source in (one for kind in KINDS.values() for one in kind.sources if isinstance(one, RemoteSource)):
        spec = source.spec
        if spec.base_url.startswith("http") and spec.name not in SLOW:
            key = SecretStr("k") if spec.key == "required" else None
            providers[spec.name] = ProviderSettings(base_url=sources.url, key=key)
        else:
            providers[spec.name] = ProviderSettings(enabled=False)
    return live_settings.model_copy(update={"providers": providers, "local_only": False})


@pytest.fixture(scope="module")
async def api(failing_settings: Settings) -> AsyncGenerator[Api]:
    async with running(failing_settings, local_only=False) as api:
        yield api


@pytest.fixture(scope="module")
async def worker(failing_settings: Settings, database: Database, keyring: Keyring) -> AsyncGenerator[None]:
    client = await connect(failing_settings, keyring)
    async with working(failing_settings, client, database, keyring):
        yield


async def by_request(person: Person, kind: str) -> None:
    path, name = ROUTES.get(kind, (kind, kind if kind != "darkweb" else "query"))
    answer = await person.key.post(f"/api/agent/{path}", json={name: TARGETS[kind]})
    assert answer.status_code == 502 or answer.json()["credits"] == 0, answer.text


async def by_bulk_search(person: Person, kind: str) -> None:
    body = {"queries": [TARGETS[kind]]}
    answer = await person.key.post(f"/api/bulk-{SEARCHES[kind]}-search", json=body)
    assert answer.json()["credits_used"] == 0


async def by_job(person: Person, kind: str) -> None:
    body = {"type": kind, "targets": [TARGETS[kind]]}
    job = (await person.key.post("/api/bulk-jobs", json=body)).json()
    ended = await until(lambda: _ended(person, f"/api/bulk-jobs/{job['id']}"), 60)
    assert ended["credits_used"] == 0


async def by_step(person: Person, kind: str) -> None:
    step = {"id": "look", "type": f"{kind}_lookup", "config": {"value": TARGETS[kind]}}
    made = (await person.key.post("/api/workflows", json={"name": "w", "steps": [step]})).json()
    run = (await person.key.post(f"/api/workflows/{made['id']}/run", json={})).json()
    ended = await until(lambda: _ended(person, f"/api/workflows/runs/{run['run_id']}"), 60)
    assert ended["credits_used"] == 0


async def by_monitor(person: Person, kind: str) -> None:
    # What lists on this machine say of an e-mail address counts as heard.
    fields = ["bio"] if kind == "email" else []
    body = {"name": "m", "monitor_type": kind, "frequency": "weekly", "tracked_fields": fields}
    body |= {"targets": [TARGETS[kind]]}
    made = await person.key.post("/api/monitors", json=body)
    path = f"/api/monitors/{made.json()['id']}"
    run = (await person.key.post(f"{path}/run")).json()
    ended = await until(lambda: _ended(person, f"{path}/runs/{run['run_id']}"), 60)
    assert ended["credits_used"] == 0


async def _ended(person: Person, path: str) -> dict[str, Any] | None:
    answer = await person.key.get(path)
    assert answer.status_code == 200, answer.text
    return answer.json() if answer.json()["completed_at"] else None


MONITORED = ("ip", "email", "domain", "company", "darkweb")
WAYS: list[tuple[Callable[[Person, str], Awaitable[None]], str]] = [
    *((by_request, kind) for kind in TARGETS),
    *((by_bulk_search, kind) for kind in SEARCHES),
    *((by_job, kind) for kind in TARGETS),
    *((by_step, kind) for kind in TARGETS),
    *((by_monitor, kind) for kind in MONITORED),
]


@pytest.mark.usefixtures("worker")
@pytest.mark.parametrize(("way", "kind"), WAYS, ids=[f"{way.__name__}-{kind}" for way, kind in WAYS])
async def test_what_no_source_has_answered_costs_nothing(
    api: Api, way: Callable[[Person, str], Awaitable[None]], kind: str
) -> None:
    person = await api.person(credits=50)
    await way(person, kind)
    shown = (await person.key.get("/api/credits")).json()
    assert (shown["balance"], shown["held"], shown["used"]) == (50, 0, 0)


def heard_of(kind: str, **outcomes: Outcome) -> LookupResult:
    """The answer where these sources have answered so, and all others have failed."""
    failed = Outcome("timeout")
    sources = KINDS[kind].sources
    return answer(KINDS[kind], [(source, outcomes.get(source.spec.name, failed)) for source in sources])


EMPTY = Outcome("empty")


@pytest.mark.parametrize(
    ("result", "credits"),
    [
        (heard_of("domain", dns=EMPTY), 0),
        (heard_of("domain", dns=Outcome("ok", {"dns.a": []})), 0),
        (heard_of("domain", rdapdomain=Outcome("ok", {"whois.registrar": "Example"})), 1),
        (heard_of("domain", dns=Outcome("ok", {"dns.a": ["192.0.2.1"]})), 1),
        (heard_of("username", gitlab=EMPTY), 1),
        (heard_of("username"), 0),
        (heard_of("websearch", wikipedia=EMPTY), 1),
        (heard_of("websearch"), 0),
        (heard_of("email", gravatar=EMPTY), 0),
        (heard_of("email", gravatar=Outcome("ok", {"name": "Ada"})), 1),
        (heard_of("company", gleif=EMPTY), 0),
        (heard_of("darkweb", ahmia=EMPTY), 0),
    ],
)
def test_what_was_heard_costs_by_what_is_delivered(result: LookupResult, credits: int) -> None:
    assert result.credits == credits
    assert (lack_of(result) is None) == result.heard


STALE = Outcome("cached", {"threat.abuse_score": 3}, stale=True)


@pytest.mark.parametrize(
    ("tracked", "outcome", "heard"),
    [
        ("threat.abuse_score", Outcome("ok", {"threat.abuse_score": 3}), True),
        ("threat.abuse_score", EMPTY, True),
        ("threat.abuse_score", STALE, False),
        ("verdict.level", EMPTY, True),
        ("location.city", EMPTY, False),
    ],
)
def test_a_target_is_heard_when_a_source_of_a_tracked_field_has_answered_now(
    tracked: str, outcome: Outcome, heard: bool
) -> None:
    result = heard_of("ip", abuseipdb=outcome)
    assert is_heard_of(KINDS["ip"], result.outcomes, [tracked]) == heard
