"""What holds for every registered source: it says what it must of itself, and fails as the others do.

Each source that speaks HTTP has fixtures in `tests/fixtures/<source>/`, one documented answer a file. They
run through the real lookups, clients and caches, against a server on loopback. See docs/adding-a-source.md.
"""

from __future__ import annotations

import asyncio
import base64
import inspect
import json
import logging
import re
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from aiohttp import web

from database import Database
from models.lookups.lookups import AllProvidersFailed, LookupAnswer, NoProvider
from outbound.client import Outbound
from providers.domain import delegation
from providers.lookup.lookup import Lookups
from providers.registry import DATASETS, KINDS
from providers.sources.aggregate import paths
from providers.sources.base import LocalSource, RemoteSource, Source
from providers.sources.kind import Kind
from providers.sources.rest import RestSource
from sealing import Keyring
from settings import Settings
from tests.domain.conftest import ask_here
from tests.lookup_rows import forget_lookups
from tests.name_servers import Serve, name_server
from tests.stacks import ROOT

__all__ = ["name_server"]
FIXTURES = Path(__file__).parents[1] / "fixtures"
KEY = "0123456789abcdef-the-operators-key"
# Of the fixtures with these names it is known how they must end.
STATUS = {
    "ok": "ok",
    "empty": "empty",
    "rate_limited": "rate_limited",
    "auth": "auth_failed",
    "drift": "bad_response",
    "garbage": "bad_response",
    "rejected": "rejected",
}
# What a status says by default, for every source; what says nothing of the kind is its server's fault.
STATUSES = {400: "rejected", 401: "auth_failed", 403: "auth_failed", 404: "rejected", 422: "rejected"}
STATUSES |= {429: "rate_limited", 451: "rejected", 500: "error", 503: "error"}
DEADLINE_SECONDS = 8.0
LONGEST_SECONDS = 22.0  # a verification of Hunter's


def speaks_http(source: Source) -> bool:
    """Whether a source asks a service over HTTP; the others are tested with servers of their own sort."""
    if isinstance(source, LocalSource) or source.spec.active:
        return False
    module = inspect.getmodule(source.fetch)
    assert module is not None
    return "context.client" in inspect.getsource(module)


SOURCES = [
    (kind, source) for kind in KINDS.values() for source in kind.sources if source.spec.kind == kind.name
]
REMOTE = [(kind, source) for kind, source in SOURCES if isinstance(source, RemoteSource)]
HTTP = [(kind, source) for kind, source in REMOTE if speaks_http(source)]
REST = [(kind, source) for kind, source in HTTP if isinstance(source, RestSource)]
CASES = [
    (kind, source, path)
    for kind, source in HTTP
    for path in sorted((FIXTURES / source.spec.name).glob("*.json"))
]
each_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
each_source = pytest.mark.parametrize(("kind", "source"), SOURCES, ids=[s.spec.name for _, s in SOURCES])
each_remote = pytest.mark.parametrize(("kind", "source"), REMOTE, ids=[s.spec.name for _, s in REMOTE])
each_http = pytest.mark.parametrize(("kind", "source"), HTTP, ids=[s.spec.name for _, s in HTTP])


# What a source says of itself


def test_no_two_sources_have_one_name() -> None:
    names = Counter(source.spec.name for _, source in SOURCES)
    assert [name for name, count in names.items() if count > 1] == []


@each_source
def test_a_source_declares_all_that_users_must_know(kind: Kind, source: Source) -> None:
    spec = source.spec
    assert re.fullmatch(r"[a-z][a-z0-9]*", spec.name), "settings could not name it"
    assert spec.kind == kind.name
    assert spec.licence.strip()
    assert spec.attribution.strip()
    assert spec.terms is None or re.fullmatch(r"https://[^\s/]+\S*", spec.terms)
    assert spec.terms or spec.commercial != "no", "where do they forbid it?"
    assert spec.evidence is not None, "where does one read how it answers?"
    assert re.fullmatch(r"https://[^\s/]+/\S*", spec.evidence.url)
    assert spec.fields, "it fills nothing"
    assert spec.fields <= paths(kind.answer)
    assert spec.dataset is None or spec.dataset in DATASETS


def test_the_page_tells_the_terms_of_each_source() -> None:
    page = (ROOT / "docs" / "providers.md").read_text().partition("\n## Commercial use\n")[2]
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| (\w+) \| (\S+) \|$", page.partition("\n## ")[0], re.MULTILINE)
    specs = [source.spec for _, source in SOURCES]
    assert rows == [
        (one.name, one.commercial, "yes" if one.bulk else "no", f"<{one.terms}>" if one.terms else "–")
        for one in specs
    ]


@each_kind
def test_an_answer_begins_with_the_fields_of_its_kind(kind: Kind) -> None:
    told = list(kind.answer.model_json_schema(mode="serialization")["properties"])
    assert kind.echo == told[0]
    assert told[-len(LookupAnswer.model_fields) :] == list(LookupAnswer.model_fields)


@each_remote
def test_a_remote_source_has_its_times(kind: Kind, source: RemoteSource) -> None:
    spec = source.spec
    # What comes after the lookup's deadline is kept for the next one.
    assert 0 < spec.timeout <= LONGEST_SECONDS
    assert 0 < spec.negative_ttl
    assert 0 < spec.ttl
    assert all(rate.requests > 0 and rate.seconds > 0 for rate in spec.rates)


@each_http
def test_an_http_source_has_a_fixture_for_every_outcome(kind: Kind, source: RemoteSource) -> None:
    required = {"ok"}
    if not isinstance(source, RestSource):  # of a table, the others are made below
        required |= {"rate_limited", "drift", "garbage"}
        required |= {"auth"} if source.spec.key != "none" else set[str]()
    there = {path.stem for path in (FIXTURES / source.spec.name).glob("*.json")}
    assert required - there == set()


@each_http
def test_the_fixtures_of_a_source_with_a_key_say_where_the_key_goes(kind: Kind, source: RemoteSource) -> None:
    told = [path for path in (FIXTURES / source.spec.name).glob("*.json") if _names_the_key(path.read_text())]
    assert (source.spec.key != "none") == bool(told)


# Documented answers


@dataclass
class Exchange:
    """A request that is expected, once, and what is answered.

    `query`, `json` and `form` are the whole of what must be sent; of the headers, `request_headers` must be
    there.
    `$key` stands for the key, `$basic` for it as a user name, `$base` for the server, `*` for any value.
    """

    method: str
    path: str
    status: int
    query: dict[str, str] = field(default_factory=dict[str, str])
    request_headers: dict[str, str] = field(default_factory=dict[str, str])
    json: Any = None
    form: dict[str, str] | None = None
    headers: dict[str, str] = field(default_factory=dict[str, str])
    body: Any = None
    text: str | None = None


def _names_the_key(text: str) -> bool:
    return "$key" in text or "$basic" in text or "key" in json.loads(text)


async def _sent(request: web.Request) -> Any:
    """The body of a request: what its JSON or its form says, or None."""
    if request.content_type == "application/json":
        return await request.json()
    return dict(await request.post()) if request.content_type.endswith("form-urlencoded") else None


class Script:
    """A server that expects the exchanges of one fixture, in any order, and nothing else."""

    def __init__(self, exchanges: list[Exchange], prefix: str, key: str) -> None:
        self.left = list(exchanges)
        self.unexpected: list[str] = []
        self.url = ""
        self._prefix = prefix
        self._values = {"$key": key, "$basic": base64.b64encode(f"{key}:".encode()).decode()}

    async def answer(self, request: web.Request) -> web.StreamResponse:
        sent = await _sent(request)
        for exchange in self.left:
            if self._fits(exchange, request, sent):
                self.left.remove(exchange)
                return self._respond(exchange)
        sent_headers = dict(request.headers)
        self.unexpected.append(f"{request.method} {request.path} {dict(request.query)} {sent_headers}")
        return web.Response(status=599)

    def _respond(self, exchange: Exchange) -> web.Response:
        text = json.dumps(exchange.body) if exchange.text is None else exchange.text
        headers = {name: value.replace("$base", self.url) for name, value in exchange.headers.items()}
        return web.Response(
            status=exchange.status,
            text=text.replace("$base", self.url) if exchange.status != 204 else None,
            headers={"Content-Type": "application/json"} | headers,
        )

    def _fits(self, exchange: Exchange, request: web.Request, sent: Any) -> bool:
        path, _, written = exchange.path.partition("?")
        query = dict(pair.split("=", 1) for pair in written.split("&") if pair) | exchange.query
        return (
            request.method == exchange.method
            and path in (request.path, self._prefix + request.path)
            and self._same(query, dict(request.query))
            and (exchange.json is None or self._same(exchange.json, sent))
            and (exchange.form is None or self._same(exchange.form, sent))
            and all(
                self._same(value, request.headers.get(name))
                for name, value in exchange.request_headers.items()
            )
        )

    def _same(self, expected: Any, given: Any) -> bool:
        if isinstance(expected, dict):
            return (
                isinstance(given, dict)
                and expected.keys() == given.keys()
                and all(self._same(value, given[name]) for name, value in expected.items())  # pyright: ignore
            )
        if isinstance(expected, str):
            for placeholder, value in self._values.items():
                expected = expected.replace(placeholder, value)
        return given is not None if expected == "*" else expected == given


class Bench:
    """One source at a time, alone in its kind, over real HTTP and a real Postgres."""

    def __init__(self, database: Database, keyring: Keyring, data: Path, stack: AsyncExitStack) -> None:
        self._database = database
        self._keyring = keyring
        self._data = data
        self._stack = stack

    async def serve(self, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> str:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", handler)
        runner = web.AppRunner(app, shutdown_timeout=0, access_log=None)
        await runner.setup()
        self._stack.push_async_callback(runner.cleanup)
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        return f"http://127.0.0.1:{runner.addresses[0][1]}"

    async def look_up(
        self, kind: Kind, source: RemoteSource, url: str, query: str, key: str | None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """What became of the source, and the answer's data; the data is empty when the lookup failed."""
        own = {"base_url": url, "enabled": True, "key": key}
        settings = Settings.model_validate({"data": self._data, "providers": {source.spec.name: own}})
        outbound = await self._stack.enter_async_context(Outbound(settings))
        alone = {kind.name: replace(kind, sources=(source,))}
        lookups = Lookups(settings, self._database, self._keyring, outbound, kinds=alone)
        self._stack.push_async_callback(lookups.close)
        try:
            result = await lookups.lookup(kind.name, query)
        except (AllProvidersFailed, NoProvider) as failed:
            return failed.details["providers"][0], {}
        kind.answer.model_validate(result.answer())
        return result.reports()[0], result.data


@pytest.fixture
async def bench(
    database: Database,
    keyring: Keyring,
    tmp_path: Path,
    name_server: Serve,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncGenerator[Bench]:
    _, names = await name_server({})  # nor does a name server know what a registry does not
    ask_here(monkeypatch, delegation, names)
    await forget_lookups(database)
    async with AsyncExitStack() as stack:
        yield Bench(database, keyring, tmp_path, stack)


def value_at(data: Any, path: str) -> Any:
    for name in path.split("."):
        data = data[name]
    return data


@pytest.mark.parametrize(
    ("kind", "source", "path"), CASES, ids=[f"{path.parent.name}-{path.stem}" for *_, path in CASES]
)
async def test_a_documented_answer_is_read_as_it_is_meant(
    kind: Kind,
    source: RemoteSource,
    path: Path,
    bench: Bench,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.INFO)
    caplog.set_level(logging.WARNING, logger="httpx")  # as logs.configure has it
    text = path.read_text()
    fixture = json.loads(text)
    expected = fixture["expect"]
    assert re.search(r"https?://\S+", fixture["documented"]), "say where this answer is documented"
    if path.stem in STATUS:
        assert expected["status"] == STATUS[path.stem]
    key: str = fixture.get("key", KEY)
    keyed = source.spec.key == "required" or (source.spec.key == "optional" and _names_the_key(text))
    exchanges = [Exchange(**exchange) for exchange in fixture["exchanges"]]
    script = Script(exchanges, urlsplit(source.spec.base_url).path.rstrip("/"), key)
    script.url = await bench.serve(script.answer)
    report, data = await bench.look_up(kind, source, script.url, fixture["query"], key if keyed else None)

    assert script.unexpected == [], f"expected: {script.left}"
    assert script.left == [], "not everything that the fixture says was asked for"
    assert (report["status"], report.get("detail")) == (
        expected["status"],
        expected.get("detail", report.get("detail")),
    )
    wanted: dict[str, Any] = expected.get("fields", {})
    assert wanted.keys() <= source.spec.fields
    assert {name: value_at(data, name) for name in wanted} == wanted
    output = capfd.readouterr()
    for place in (json.dumps(report), json.dumps(data, default=str), caplog.text, output.out, output.err):
        assert key not in place


# What follows from a table


def made(source: RestSource) -> dict[str, tuple[int, str, str]]:
    """Name → status, body and what must become of the source, for every standard outcome of its table."""
    statuses = STATUSES | dict.fromkeys(source.request.pauses, "rate_limited") | dict(source.request.statuses)
    cases = {str(status): (status, "", meaning) for status, meaning in statuses.items()}
    return cases | {"drift": (200, "{}", "bad_response"), "garbage": (200, "<html>", "bad_response")}


MADE = [(kind, source, name) for kind, source in REST for name in made(source)]


@pytest.mark.parametrize(
    ("kind", "source", "case"), MADE, ids=[f"{source.spec.name}-{name}" for _, source, name in MADE]
)
async def test_a_status_means_what_the_table_says(
    kind: Kind, source: RestSource, case: str, bench: Bench
) -> None:
    status, body, expected = made(source)[case]
    fixture = json.loads((FIXTURES / source.spec.name / "ok.json").read_text())
    answered: dict[str, Any] = {"status": status, "text": body, "body": None, "headers": {}}
    exchange = Exchange(**(fixture["exchanges"][0] | answered))
    key = KEY if source.spec.key != "none" and _names_the_key(json.dumps(fixture)) else None
    script = Script([exchange], urlsplit(source.spec.base_url).path.rstrip("/"), KEY)
    script.url = await bench.serve(script.answer)
    report, _ = await bench.look_up(kind, source, script.url, fixture["query"], key)
    assert (script.unexpected, script.left) == ([], [])
    assert report["status"] == expected
    pause = source.request.pauses.get(status)
    assert pause is None or pause - 10 < report["retry_after"] <= pause


# Faults that every server can have


def query_of(source: RemoteSource) -> str:
    """A query that the source takes: not each takes every one of its kind."""
    return json.loads((FIXTURES / source.spec.name / "ok.json").read_text())["query"]


FAULTS: dict[str, tuple[str, Callable[[], web.Response]]] = {
    "500": ("error", lambda: web.Response(status=500, text="oops")),
    "503": ("error", lambda: web.Response(status=503)),
    "429": ("rate_limited", lambda: web.Response(status=429, headers={"Retry-After": "77"})),
    "a page": (
        "bad_response",
        lambda: web.Response(text="<html><title>Log in</title></html>", content_type="text/html"),
    ),
    "cut short": (
        "bad_response",
        lambda: web.Response(text='{"data": {"attributes": [{"a": ', content_type="application/json"),
    ),
    "no bytes": ("bad_response", lambda: web.Response(content_type="application/json")),
    "a redirect": ("bad_response", lambda: web.Response(status=302, headers={"Location": "/elsewhere"})),
    "10 MB": (
        "bad_response",
        lambda: web.Response(text='{"data": "' + "x" * 10_000_000 + '"}', content_type="application/json"),
    ),
}


@each_http
@pytest.mark.parametrize("fault", FAULTS)
async def test_a_fault_is_told_apart_from_knowing_nothing(
    fault: str, kind: Kind, source: RemoteSource, bench: Bench
) -> None:
    status, respond = FAULTS[fault]

    async def answer(request: web.Request) -> web.StreamResponse:
        return respond()

    report, data = await bench.look_up(kind, source, await bench.serve(answer), query_of(source), KEY)
    assert (report["status"], data) == (status, {})
    if fault == "429":
        assert 70 < report["retry_after"] <= 77


@each_http
async def test_a_source_that_hangs_is_given_up(kind: Kind, source: RemoteSource, bench: Bench) -> None:
    given_up = asyncio.Event()

    async def hang(request: web.Request) -> web.StreamResponse:
        await given_up.wait()
        return web.Response()

    impatient = replace(source, spec=replace(source.spec, timeout=0.2))
    started = asyncio.get_running_loop().time()
    report, _ = await bench.look_up(kind, impatient, await bench.serve(hang), query_of(source), KEY)
    given_up.set()
    assert report["status"] == "timeout"
    assert asyncio.get_running_loop().time() - started < DEADLINE_SECONDS / 2


@each_http
async def test_a_source_that_is_not_there_is_an_error(kind: Kind, source: RemoteSource, bench: Bench) -> None:
    report, _ = await bench.look_up(kind, source, "http://127.0.0.1:9", query_of(source), KEY)
    assert (report["status"], report["detail"]) == ("error", "connect_failed")
