"""Lookup data that is missing, or was not renewed, is named: by the fetch, by `doctor`, by `/readyz`."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import timedelta
from pathlib import Path

import pytest
from aiohttp import web

from embedded import doctor
from providers.dataset_inventory import DatasetStatus, take_stock
from providers.dataset_refresh import FetchResult, fetch
from providers.datasets import installed
from providers.ip import tor
from providers.ip.kind import normalise
from settings import Settings
from tests.datasets import write_small_datasets

LIST = "\n".join(["185.220.101.1", *(f"11.1.{n}.0" for n in range(250))]) + "\n"


class Publisher:
    """The list of Tor's exits on a port of loopback; `breaks` ends the connection in the middle of it."""

    def __init__(self) -> None:
        self.body = LIST
        self.breaks = False
        self.url = ""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if not self.breaks:
            return web.Response(text=self.body)
        response = web.StreamResponse(headers={"Content-Length": str(len(self.body))})
        await response.prepare(request)
        await response.write(self.body.encode()[: len(self.body) // 2])
        assert request.transport is not None
        request.transport.abort()
        return response


@pytest.fixture
async def publisher(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AsyncGenerator[Publisher]:
    there = Publisher()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", there.answer)
    runner = web.AppRunner(app, shutdown_timeout=0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    there.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    yield there
    await runner.cleanup()


def settings(data: Path, publisher: Publisher) -> Settings:
    return Settings.model_validate({"data": data, "providers": {"tor": {"base_url": publisher.url}}})


async def run(data: Path, publisher: Publisher, *, if_missing: bool = False) -> FetchResult:
    datasets = {"tor": tor.DATASET}
    (result,) = await fetch(
        settings(data, publisher), if_missing=if_missing, report=lambda _: None, datasets=datasets
    )
    return result


def age(data: Path, *, days: int) -> None:
    """Have the list been fetched so many days ago, as its version says too."""
    path = installed.folder(data) / "manifest.json"
    manifest = installed.read_manifest(data)
    known = manifest.datasets["tor"]
    older = known.model_copy(
        update={"version": "earlier", "fetched_at": known.fetched_at - timedelta(days=days)}
    )
    path.write_text(installed.Manifest(datasets={"tor": older}).model_dump_json())


def stock(data: Path) -> DatasetStatus:
    return next(one for one in take_stock(Settings.model_validate({"data": data})) if one.name == "tor")


async def examined(data: Path) -> doctor.Finding:
    findings = await doctor.examine(Settings.model_validate({"data": data}))
    return next(finding for finding in findings if finding.part == "lookup data")


def knows(data: Path) -> bool:
    query = normalise("185.220.101.1", "/ip")
    return "security.is_tor" in tor.SOURCE.find(query, installed.Datasets(data))


@pytest.mark.parametrize(
    "fault", ["empty", "a page", "cut in the middle", "broken off", "half a line", "much shorter"]
)
async def test_a_list_that_is_not_usable_leaves_the_old_one_in_use_and_is_told_of(
    fault: str, publisher: Publisher, tmp_path: Path
) -> None:
    await run(tmp_path, publisher)
    age(tmp_path, days=1)
    publisher.body = {
        "empty": "",
        "a page": "<html><title>Log in</title></html>",
        "cut in the middle": LIST[: len(LIST) // 2 - 40],
        "half a line": LIST[: LIST.rindex(".1.")],
        "much shorter": "\n".join(LIST.splitlines()[:101]),
    }.get(fault, LIST)
    publisher.breaks = fault == "broken off"
    result = await run(tmp_path, publisher)
    assert (result.status, result.version, result.failed) == ("unavailable", "earlier", True)
    assert (stock(tmp_path).state, stock(tmp_path).failure) == ("not_refreshed", result.detail)
    found = await examined(tmp_path)
    assert found.state == "warning"
    assert "tor could not be renewed, earlier stays in use: " in found.remedy
    assert knows(tmp_path)


async def test_a_fetch_that_succeeds_ends_the_complaint(publisher: Publisher, tmp_path: Path) -> None:
    await run(tmp_path, publisher)
    age(tmp_path, days=1)
    publisher.body = ""
    await run(tmp_path, publisher)
    publisher.body = LIST
    assert (await run(tmp_path, publisher, if_missing=True)).status == "present"
    assert stock(tmp_path).state == "not_refreshed"  # what is there was not looked for anew
    await run(tmp_path, publisher)
    assert (stock(tmp_path).state, stock(tmp_path).failure) == ("installed", None)


async def test_a_list_that_stays_short_for_a_month_is_believed(publisher: Publisher, tmp_path: Path) -> None:
    await run(tmp_path, publisher)
    age(tmp_path, days=31)
    publisher.body = "\n".join(LIST.splitlines()[:101])
    assert (await run(tmp_path, publisher)).status == "installed"


async def test_a_dataset_that_is_missing_comes_with_the_fields_that_it_costs(tmp_path: Path) -> None:
    assert (stock(tmp_path).state, stock(tmp_path).fields) == (
        "missing",
        ("security.is_tor", "threat.is_tor"),
    )
    found = await examined(tmp_path)
    assert "without tor: security.is_tor, threat.is_tor" in found.remedy.splitlines()


def test_a_file_that_was_cut_on_this_machine_is_missing(tmp_path: Path) -> None:
    write_small_datasets(tmp_path)
    known = installed.read_manifest(tmp_path).datasets["tor"]
    (installed.folder(tmp_path) / known.files["exits"].name).write_bytes(b"")
    assert (stock(tmp_path).state, stock(tmp_path).known) == ("missing", None)


@pytest.mark.parametrize(("enabled", "wanted"), [(None, False), (True, True)])
def test_data_is_wanted_where_a_source_that_reads_it_is_on(
    enabled: bool | None, wanted: bool, tmp_path: Path
) -> None:
    chosen = Settings.model_validate(
        {"data": tmp_path, "providers": {"whatsmyname": {"enabled": enabled}, "tor": {"enabled": wanted}}}
    )
    names = {one.name for one in take_stock(chosen)}
    assert ("whatsmyname" in names, "tor" in names) == (wanted, wanted)
    assert "breaches" in names  # no source's own
