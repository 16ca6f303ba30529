"""The list of ransomware victims: fetched, indexed, searched on this machine."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from providers.darkweb import ransomwarelive
from providers.darkweb.kind import normalise
from providers.darkweb.ransomwarelive import DATASET
from providers.dataset_refresh import fetch
from providers.datasets import installed
from providers.datasets.downloads import Dataset
from providers.sources.base import SourceError
from settings import Settings
from tests.darkweb.victims import ONION, install_victims, victim


def search(data: Path, query: str) -> dict[str, Any]:
    return ransomwarelive.SOURCE.find(normalise(query, "/query"), installed.Datasets(data))


def titles(data: Path, query: str) -> list[str]:
    return [one["title"] for one in search(data, query).get("results", [])]


def test_a_victim_is_a_mention_of_its_group(tmp_path: Path) -> None:
    install_victims(tmp_path, victim())
    assert search(tmp_path, "example.com") == {
        "total": 1,
        "results": [
            {
                "source": "lockbit3",
                "title": "Example Manufacturing",
                "body": "A maker of widgets. CVE-2026-1234 was used. Contact: ops@example.com:[redacted]\n"
                "Website: example.com\nCountry: US\nSector: Manufacturing",
                "domain": ONION,
                "crawl_date": "2026-08-05T07:21:07Z",
                "emails": ["ops@example.com"],
                "leak": {
                    "name": "Example Manufacturing",
                    "host": ONION,
                    "actors": ["lockbit3"],
                    "affected_records": None,
                },
                "cves": ["CVE-2026-1234"],
            }
        ],
    }


@pytest.mark.parametrize(
    "empty",
    [
        {"description": "", "website": "", "country": "", "activity": "Not Found"},
        {"description": "N/A", "website": None, "country": None, "activity": None},
        {
            "description": "[AI generated] It is\na maker of widgets.",
            "website": "",
            "country": "",
            "activity": "",
        },
    ],
)
def test_what_nobody_wrote_of_a_victim_is_not_told(empty: dict[str, Any], tmp_path: Path) -> None:
    install_victims(tmp_path, victim(**empty))
    (one,) = search(tmp_path, "example manufacturing")["results"]
    assert one["body"] is None


@pytest.mark.parametrize(
    ("website", "found"),
    [
        ("example.com", True),
        ("https://www.example.com/about", True),
        ("Example.COM", True),
        ("shop.example.com", True),
        ("not-example.com", False),
        ("example.com.au", False),
        ("example.community", False),
        ("my.example", False),
    ],
)
def test_a_domain_is_found_as_a_whole_and_below_it(website: str, found: bool, tmp_path: Path) -> None:
    install_victims(tmp_path, victim(website=website, description="Nothing."))
    assert bool(titles(tmp_path, "example.com")) == found


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("example manufacturing", True),
        ("EXAMPLE", True),
        ("maker of widgets", True),
        ("widgets maker", False),
        ("exam", False),
        ('"example" manufacturing', True),
        ("example AND manufacturing", False),
        ("example*", True),
    ],
)
def test_words_are_found_one_after_the_other(query: str, found: bool, tmp_path: Path) -> None:
    install_victims(tmp_path, victim())
    assert bool(titles(tmp_path, query)) == found


def test_an_entry_of_another_shape_is_left_out_and_harms_no_other(tmp_path: Path) -> None:
    odd = [victim(post_title=""), victim(group_name=None), victim(description=["a"]), {"victim": "x"}, None]
    install_victims(tmp_path, *odd, victim(post_url="http://[not an address/"))
    (one,) = search(tmp_path, "example")["results"]
    assert one["domain"] is None


def test_accents_do_not_matter(tmp_path: Path) -> None:
    install_victims(tmp_path, victim(post_title="Société Générique"))
    assert titles(tmp_path, "societe generique") == ["Société Générique"]


def test_the_latest_come_first_and_all_are_counted(tmp_path: Path) -> None:
    many = [
        victim(post_title=f"Example {n}", discovered=f"2026-08-{n % 28 + 1:02} 00:00:00") for n in range(1200)
    ]
    install_victims(tmp_path, *many, victim(post_title="Example last", discovered="2026-09-01 00:00:00"))
    answer = search(tmp_path, "example")
    assert (len(answer["results"]), answer["total"]) == (1000, 1201)
    assert answer["results"][0]["title"] == "Example last"


@pytest.mark.parametrize("query", ["ada@example.com", "8.8.8.8"])
def test_an_address_is_not_its_sort(query: str, tmp_path: Path) -> None:
    install_victims(tmp_path, victim())
    with pytest.raises(SourceError) as skipped:
        search(tmp_path, query)
    assert (skipped.value.status, skipped.value.detail) == ("skipped", "not_its_sort")


def test_without_the_list_the_source_has_no_say(tmp_path: Path) -> None:
    with pytest.raises(SourceError) as skipped:
        search(tmp_path, "example.com")
    assert (skipped.value.status, skipped.value.detail) == ("skipped", "no_data")


def test_an_index_that_is_damaged_counts_as_none(tmp_path: Path) -> None:
    install_victims(tmp_path, victim())
    (path,) = installed.folder(tmp_path).glob("ransomwarelive-victims-*")
    path.write_bytes(b"no index")
    with pytest.raises(SourceError) as skipped:
        search(tmp_path, "example.com")
    assert skipped.value.detail == "no_data"


@pytest.fixture
async def published(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AsyncGenerator[dict[str, str]]:
    """Return what the publisher serves, by path, and `url`."""
    files: dict[str, str] = {}

    async def answer(request: web.Request) -> web.StreamResponse:
        body = files.get(request.path)
        return web.Response(status=404) if body is None else web.Response(text=body)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    files["url"] = f"http://127.0.0.1:{runner.addresses[0][1]}"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    yield files
    await runner.cleanup()


async def run(data: Path, url: str, dataset: Dataset = DATASET) -> tuple[str, str]:
    chosen = Settings.model_validate({"data": data, "providers": {"ransomwarelive": {"base_url": url}}})
    (result,) = await fetch(chosen, report=lambda _: None, datasets={"ransomwarelive": dataset})
    return result.status, result.detail


@pytest.mark.long
async def test_the_published_list_is_fetched_and_searched(published: dict[str, str], tmp_path: Path) -> None:
    others = [
        victim(post_title=f"Other {n}", website=f"other{n}.example", description="") for n in range(10_000)
    ]
    published["/victims.json"] = json.dumps([*others, victim()])
    assert (await run(tmp_path, published["url"]))[0] == "installed"
    assert titles(tmp_path, "example.com") == ["Example Manufacturing"]
    assert titles(tmp_path, "other77.example") == ["Other 77"]


@pytest.mark.parametrize(
    "body",
    ["", "[]", "{}", "<html></html>", '[{"post_title": "Exam', json.dumps([{"victim": "x"}] * 10_000)],
    ids=["empty", "no victims", "an object", "a page", "cut", "another shape"],
)
async def test_what_is_not_the_list_leaves_the_old_one_in_use(
    body: str, published: dict[str, str], tmp_path: Path
) -> None:
    install_victims(tmp_path, victim())
    published["/victims.json"] = body
    status, detail = await run(tmp_path, published["url"], replace(DATASET, small=True))  # in this process
    assert status == "unavailable" and "not usable" in detail
    assert titles(tmp_path, "example.com") == ["Example Manufacturing"]
