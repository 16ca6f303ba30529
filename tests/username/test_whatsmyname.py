"""WhatsMyName: what is kept of the list, how sites are read, and that the list leads nowhere inside."""

from __future__ import annotations

import asyncio
import json
import ssl
import zipfile
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from dataclasses import asdict, replace
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from database import Database
from models.lookups.lookups import AllProvidersFailed
from outbound.client import Outbound
from providers.dataset_refresh import fetch
from providers.datasets import installed
from providers.datasets.installed import Provenance
from providers.lookup.lookup import Lookups
from providers.lookup.result import LookupResult
from providers.username import hackernews, whatsmyname
from providers.username.kind import KIND
from providers.username.sites import DATASET, Site, build, open_sites
from sealing import Keyring
from settings import Settings
from tests.domain.conftest import certificate
from tests.lookup_rows import forget_lookups
from tests.outbound.conftest import Names

# The list

ENTRY: dict[str, Any] = {
    "name": "Example Forum",
    "uri_check": "https://forum.example.com/api/users/{account}",
    "uri_pretty": "https://forum.example.com/u/{account}",
    "e_code": 200,
    "e_string": '"joined":',
    "m_string": "No such user",
    "m_code": 404,
    "known": ["ada", "grace"],
    "cat": "social",
}


def published(*entries: Any, others: int = 100) -> str:
    """The list with these entries and so many harmless ones."""
    sites = [*entries, *({**ENTRY, "name": f"Other {n}"} for n in range(others))]
    told = {
        "license": ["CC BY-SA 4.0"],
        "authors": ["Micah Hoffman"],
        "categories": ["social"],
        "sites": sites,
    }
    return json.dumps(told)


def built(folder: Path, text: str) -> list[Site]:
    with zipfile.ZipFile(folder / "download.zip", "w") as archive:
        archive.writestr("list", text)
    return list(open_sites(build(folder / "download.zip", folder)))


def test_an_entry_of_the_list_is_read(tmp_path: Path) -> None:
    assert built(tmp_path, published({**ENTRY, "strip_bad_char": "."}))[0] == Site(
        name="Example Forum",
        category="social",
        asked="https://forum.example.com/api/users/{account}",
        profile="https://forum.example.com/u/{account}",
        found_status=200,
        found_text='"joined":',
        missing_status=404,
        missing_text="No such user",
        impossible=".",
    )


@pytest.mark.parametrize(
    "change",
    [
        {"post_body": '{"username": "{account}"}', "headers": {"Content-Type": "application/json"}},
        {"headers": {"User-Agent": "Mozilla/5.0"}},
        {"protection": ["cloudflare", "captcha"]},
        {"valid": False},
        {"cat": "xx NSFW xx"},
        {"cat": "dating"},
        {"uri_check": "http://forum.example.com/{account}"},
        {"uri_check": "file:///etc/{account}"},
        {"uri_check": "https://forum.example.com/"},
        {"e_string": ""},
        {"m_string": ""},
        {"e_code": "many"},
        {"name": None},
    ],
    ids=str,
)
def test_what_could_do_harm_or_cannot_be_read_is_left_out(change: dict[str, Any], tmp_path: Path) -> None:
    names = [site.name for site in built(tmp_path, published({**ENTRY, **change}))]
    assert ("Example Forum" in names, len(names)) == (False, 100)


@pytest.mark.parametrize(
    "text", ["<html>Please log in</html>", "[]", "{}", '{"sites": {}}', published(others=99)], ids=range(5)
)
def test_what_is_not_the_list_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError):
        built(tmp_path, text)


@pytest.mark.parametrize(
    ("asked", "impossible", "account", "allowed"),
    [
        ("https://example.com/{account}", "", "a.b_c-d", True),
        ("https://example.com/{account}", ".", "a.b", False),
        ("https://{account}.example.com/", "", "ada", True),
        ("https://{account}.example.com/", "", "a.b", False),
        ("https://{account}.example.com/", "", "a_b", False),
        ("https://{account}.example.com/", "", "ada-", False),
    ],
)
def test_a_site_that_cannot_have_such_a_name_is_known(
    asked: str, impossible: str, account: str, allowed: bool
) -> None:
    site = Site("Example", "social", asked, asked, 200, "yes", 404, "no", impossible)
    assert site.allows(account) is allowed


@pytest.mark.parametrize("enabled", [None, False, True])
async def test_the_list_is_only_fetched_where_the_source_is_on(
    enabled: bool | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    asked: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(request.path)
        return web.Response(text=published())

    async with AsyncExitStack() as stack:
        url = await serve(stack, answer)
        chosen = {"whatsmyname": {"base_url": url, "enabled": enabled}}
        settings = Settings.model_validate({"data": tmp_path / "data", "providers": chosen})
        results = await fetch(settings, report=lambda _: None, datasets={DATASET.name: DATASET})
    assert [result.status for result in results] == (["installed"] if enabled else [])
    assert asked == (["/WebBreacher/WhatsMyName/main/wmn-data.json"] if enabled else [])
    known = installed.Datasets(tmp_path / "data").get(DATASET.name, open_sites)
    assert (known is not None) is bool(enabled)


# The sites


async def serve(
    stack: AsyncExitStack, handler: Any, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None
) -> str:
    app = web.Application()
    app.router.add_get("/{path:.*}", handler)
    runner = web.AppRunner(app, shutdown_timeout=0, access_log=None)
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    await web.TCPSite(runner, host, 0, ssl_context=tls).start()
    name = "sites.example" if tls else host
    return f"{'https' if tls else 'http'}://{name}:{runner.addresses[0][1]}"


class Sites:
    """Sites that are paths of one server, and one that listens where nobody outside may go."""

    def __init__(self, database: Database, keyring: Keyring, data: Path, stack: AsyncExitStack) -> None:
        self.asked: list[str] = []
        self.inside: list[str] = []
        self.url = ""
        self.inside_port = 0
        self.ended = asyncio.Event()
        self._database = database
        self._keyring = keyring
        self._data = data
        self._stack = stack

    async def start(self) -> None:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(certificate(self._data))
        self.url = await serve(self._stack, self._answer, tls=tls)
        inside = await serve(self._stack, self._answer_inside, "127.0.0.2", tls)
        self.inside_port = int(inside.rpartition(":")[2])

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request.path)
        match request.path.split("/")[1]:
            case "has":
                return web.Response(text="This account joined in 2020")
            case "lacks":
                return web.Response(status=404, text="No such user")
            case "vague":
                return web.Response(text="Please log in")
            case "both":
                return web.Response(text="No such user; who is like it joined in 2020")
            case "wrongstatus":
                return web.Response(status=500, text="This account joined in 2020")
            case "elsewhere":
                return web.Response(status=302, headers={"Location": "/has/ada"})
            case "huge":
                return web.Response(text="This account joined in 2020" + "x" * 2_000_000)
            case _:
                await self.ended.wait()
                return web.Response()

    async def _answer_inside(self, request: web.Request) -> web.Response:
        self.inside.append(request.path)
        return web.Response(text="This account joined in 2020")

    def install(self, **urls: str) -> None:
        """Make these the list: name → URL."""
        sites = [
            Site(name, "social", url, f"https://people.example/{name}/{{account}}", 200, "joined in", 404,
                 "No such user", "")
            for name, url in urls.items()
        ]  # fmt: skip
        folder = installed.folder(self._data)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "sites.new"
        path.write_text(json.dumps([asdict(site) for site in sites]))
        installed.install(
            self._data, DATASET.name, {"sites": path}, Provenance(source="test", version="1", licence="-")
        )

    def paths(self, *names: str) -> dict[str, str]:
        return {name: f"{self.url}/{name}/{{account}}" for name in names}

    async def look_up(
        self,
        *,
        allowed: str = "127.0.0.1/32",
        names: dict[str, str] | None = None,
        timeout: float = 7,
        providers: dict[str, Any] | None = None,
    ) -> LookupResult:
        chosen: dict[str, Any] = {"whatsmyname": {"enabled": True}} | (providers or {})
        settings = Settings(data=self._data, providers=chosen, allow_private_networks=(ip_network(allowed),))  # pyright: ignore[reportCallIssue]
        trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
        resolver = Names({"sites.example": [["127.0.0.1"]]} | {n: [[a]] for n, a in (names or {}).items()})
        outbound = Outbound(settings, resolver=resolver, certificates=trusting)
        await self._stack.enter_async_context(outbound)
        impatient = replace(whatsmyname.SOURCE, spec=replace(whatsmyname.SOURCE.spec, timeout=timeout))
        asked = (hackernews.SOURCE, impatient) if "hackernews" in chosen else (impatient,)
        kinds = {"username": replace(KIND, sources=asked)}
        lookups = Lookups(settings, self._database, self._keyring, outbound, kinds=kinds)
        self._stack.push_async_callback(lookups.close)
        return await lookups.lookup("username", "ada")


@pytest.fixture
async def sites(database: Database, keyring: Keyring, tmp_path: Path) -> AsyncGenerator[Sites]:
    await forget_lookups(database)
    async with AsyncExitStack() as stack:
        sites = Sites(database, keyring, tmp_path, stack)
        await sites.start()
        stack.callback(sites.ended.set)
        yield sites


async def test_a_site_has_the_account_if_it_answers_as_the_list_says(sites: Sites) -> None:
    sites.install(**sites.paths("has"))
    result = await sites.look_up()
    assert (result.data["total"], result.data["checked"]) == (1, 1)
    assert result.data["found"] == [
        {
            "site": "has",
            "url": "https://people.example/has/ada",
            "category": "social",
            "evidence": "status 200, and the page has “joined in”, as WhatsMyName lists it",
        }
    ]


async def test_a_site_that_says_no_is_counted_and_not_found(sites: Sites) -> None:
    sites.install(**sites.paths("lacks"))
    result = await sites.look_up()
    assert (result.data["total"], result.data["found"], result.data["checked"]) == (0, [], 1)


@pytest.mark.parametrize("path", ["vague", "both", "wrongstatus", "elsewhere", "huge"])
async def test_a_site_that_says_neither_is_not_counted(path: str, sites: Sites) -> None:
    sites.install(**sites.paths("lacks", path))
    result = await sites.look_up()
    assert (result.data["total"], result.data["checked"]) == (0, 1)
    assert sorted(sites.asked) == sorted([f"/{path}/ada", "/lacks/ada"]), "no redirect is followed"


async def test_sites_that_hang_do_not_keep_the_others_answers_back(sites: Sites) -> None:
    sites.install(**sites.paths("hangs", "has", "lacks"))
    async with asyncio.timeout(7):
        result = await sites.look_up(timeout=2)
    assert (result.data["total"], result.data["checked"]) == (1, 2)
    assert result.reports()[0]["status"] == "ok"


async def test_where_no_site_answers_nothing_is_known(sites: Sites) -> None:
    sites.install(**sites.paths("hangs"))
    with pytest.raises(AllProvidersFailed) as failed:
        await sites.look_up(timeout=0.5)
    [report] = failed.value.details["providers"]
    assert (report["status"], report["detail"]) == ("error", "no_site_answers")


@pytest.mark.parametrize("mirror", [{}, {"base_url": "http://127.0.0.1:9"}], ids=["publisher", "mirror"])
@pytest.mark.parametrize("host", ["127.0.0.2", "inside.example", "0x7f000002"])
async def test_no_entry_of_the_list_leads_inside(host: str, mirror: dict[str, str], sites: Sites) -> None:
    sites.install(inside=f"https://{host}:{sites.inside_port}/{{account}}", **sites.paths("has"))
    result = await sites.look_up(
        names={"inside.example": "127.0.0.2", "0x7f000002": "127.0.0.2"},
        providers={"whatsmyname": {"enabled": True, **mirror}},
    )
    assert [account["site"] for account in result.data["found"]] == ["has"]
    assert sites.inside == []


async def test_what_the_operator_has_opened_is_asked(sites: Sites) -> None:
    sites.install(inside=f"https://127.0.0.2:{sites.inside_port}/{{account}}")
    result = await sites.look_up(allowed="127.0.0.0/8")
    assert (result.data["total"], sites.inside) == (1, ["/ada"])


async def test_an_entry_with_no_proper_url_harms_no_other(sites: Sites) -> None:
    odd = (
        "https://{account}:bad/",
        "https://[{account}]/",
        f"https://{'a' * 70}.example/{{account}}",
        "https://",
    )
    sites.install(**{f"odd{n}": url for n, url in enumerate(odd)}, **sites.paths("has"))
    result = await sites.look_up()
    assert (result.data["total"], result.data["checked"]) == (1, 1)


async def test_sites_count_beside_the_other_sources_and_a_profile_counts_once(sites: Sites) -> None:
    async def hacker(request: web.Request) -> web.Response:
        return web.json_response({"id": "ada", "created": 1173923446})

    async with AsyncExitStack() as stack:
        url = await serve(stack, hacker)
        sites.install(**sites.paths("lacks", "has"))
        rows = json.loads((file := next(installed.folder(sites._data).glob("whatsmyname-*"))).read_text())  # pyright: ignore[reportPrivateUsage]
        rows[1]["profile"] = "https://news.ycombinator.com/user?id={account}"
        file.write_text(json.dumps(rows))
        result = await sites.look_up(
            providers={"whatsmyname": {"enabled": True}, "hackernews": {"base_url": url}}
        )
    assert [account["site"] for account in result.data["found"]] == ["Hacker News"]
    assert (result.data["total"], result.data["checked"]) == (1, 3)
    assert "checked" not in result.sources


async def test_without_the_list_the_source_is_skipped(sites: Sites) -> None:
    async def nobody(request: web.Request) -> web.Response:
        return web.json_response(None)

    async with AsyncExitStack() as stack:
        url = await serve(stack, nobody)
        result = await sites.look_up(
            providers={"whatsmyname": {"enabled": True}, "hackernews": {"base_url": url}}
        )
    reports = {report["name"]: (report["status"], report.get("detail")) for report in result.reports()}
    assert reports == {
        "hackernews": ("empty", None),
        "whatsmyname": ("skipped", "lookup data is missing: run `vedette data fetch`"),
    }


def test_the_source_is_off_unless_the_operator_switches_it_on() -> None:
    spec = whatsmyname.SOURCE.spec
    assert (spec.enabled, spec.active, spec.personal) == (False, True, True)
