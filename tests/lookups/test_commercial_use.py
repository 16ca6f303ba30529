"""What a commercial service asks, and what it leaves out."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from database import Database
from embedded.announcement import announce_unknown_terms
from embedded.doctor import examine
from embedded.report import Report
from models.jobs.results import Result
from models.lookups.lookups import NoProvider
from outbound.client import Outbound
from providers.lookup.lookup import Lookups
from providers.lookup.questions import LookupOptions
from providers.lookup.result import LookupResult
from providers.lookup.source_status import name_unknown, switched_off
from providers.lookup.waiter import Waiter
from providers.registry import KINDS
from providers.sources.base import RemoteSpec
from sealing import Keyring
from services import pacing
from services.jobs import Table
from settings import Settings
from tests.api_server import running
from tests.lookups.conftest import World, spec

WAITER = Waiter(UUID(int=1))


def settings_of(**chosen: Any) -> Settings:
    return Settings.model_validate({"commercial": True, **chosen})


def skipped(result: LookupResult) -> dict[str, str]:
    return {row["name"]: row["detail"] for row in result.reports() if row["status"] == "skipped"}


async def two(world: World) -> tuple[RemoteSpec, RemoteSpec]:
    """A source whose terms allow everything, and `b`."""
    await world.provider("a", a__value=1)
    await world.provider("b", b__value=2)
    return spec("a", commercial="yes"), spec("b")


@pytest.mark.parametrize(
    ("commercial", "enabled", "asked"),
    [(False, None, True), (True, None, False), (True, True, True), (True, False, False)],
)
async def test_a_source_whose_terms_forbid_it_is_off_unless_its_operator_has_other_terms(
    world: World, commercial: bool, enabled: bool | None, asked: bool
) -> None:
    a, _ = await two(world)
    own = {"b": {"enabled": enabled}}
    lookups = await world.process(a, spec("b", commercial="no"), commercial=commercial, providers=own)
    result = await lookups.lookup("word", "apple")
    assert (result.value("b.value") == 2) is asked
    reason = None if asked else "disabled" if enabled is False else "commercial"
    assert skipped(result).get("b") == reason
    [row] = [one for one in await lookups.describe() if one.name == "b"]
    assert (row.state, row.reason, row.commercial) == ("ready" if asked else "disabled", reason, "no")
    assert len(world.providers["b"].requests) == asked


async def test_without_any_other_source_the_lookup_says_why(world: World) -> None:
    await world.provider("a", a__value=1)
    lookups = await world.process(spec("a", commercial="no"), commercial=True)
    with pytest.raises(NoProvider) as refused:
        await lookups.lookup("word", "apple")
    assert [one["detail"] for one in refused.value.details["providers"]] == ["commercial"]


@pytest.mark.parametrize(("commercial", "left_out"), [(False, []), (True, ["b"])])
async def test_a_registry_is_left_out_of_many_lookups_and_named(
    world: World, commercial: bool, left_out: list[str]
) -> None:
    a, _ = await two(world)
    lookups = await world.process(a, spec("b", bulk=False), commercial=commercial)
    of_many = await lookups.lookup("word", "apple", LookupOptions(waiter=WAITER))
    assert skipped(of_many) == dict.fromkeys(left_out, "bulk_use")
    assert (of_many.value("b.value") is None) is commercial
    assert not of_many.partial
    # The answer of a moment ago lacks the source, and is not given to who asks about one target.
    assert (await lookups.lookup("word", "apple")).value("b.value") == 2
    [known] = await lookups.offline_answers.find_many("word", ["apple"], waiter=WAITER)
    assert isinstance(known, LookupResult) and skipped(known) == dict.fromkeys(left_out, "bulk_use")
    warnings = pacing.name_left_out(lookups.select_sources("word", None))
    assert [(one["code"], one["message"].split()[0]) for one in warnings] == [
        ("bulk_use", n) for n in left_out
    ]


async def test_the_answers_that_make_a_job_and_a_monitor_name_what_they_leave_out(settings: Settings) -> None:
    async with running(settings, commercial=True, local_only=False) as api:
        person = await api.person(credits=10)
        job = await person.key.post("/api/bulk-jobs", json={"type": "domain", "targets": ["example.com"]})
        body = {"name": "Domains", "monitor_type": "domain", "targets": ["example.com"], "status": "paused"}
        monitor = await person.key.post("/api/monitors", json=body)
        of_phones = await person.key.post(
            "/api/monitors", json=body | {"monitor_type": "phone", "targets": ["+14155552671"]}
        )
    assert (job.status_code, monitor.status_code) == (202, 201), job.text + monitor.text
    for made in (job, monitor):
        told = [one["message"].split()[0] for one in made.json()["warnings"] if one["code"] == "bulk_use"]
        assert told == ["rdapdomain", "whois"]
    assert of_phones.json()["warnings"] == []


async def test_a_job_and_its_results_name_what_is_left_out(settings: Settings) -> None:
    async with running(settings, commercial=True, local_only=False) as api:
        person = await api.person(credits=10)
        body = {"type": "domain", "targets": ["example.com"]}
        made = (await person.key.post("/api/bulk-jobs", json=body)).json()
        path = f"/api/bulk-jobs/{made['id']}"
        await person.key.post(f"{path}/cancel")
        assert (await person.key.get(path)).json()["left_out"] == ["rdapdomain", "whois"]
        other = (await person.key.post("/api/bulk-jobs", json=body | {"fields": ["dns"]})).json()
        assert other["left_out"] == []
    table = Table("domain", ["domain"], ["whois"], ["rdapdomain", "whois"])
    assert table.columns[:4] == ["domain", "error", "partial", "left_out"]
    result = Result(0, '["example.com"]', "{}", False, None)
    assert table.row(result)[:4] == ["example.com", None, False, ["rdapdomain", "whois"]]


def test_what_the_terms_forbid_is_known_of_the_registered_sources() -> None:
    sources = {source.spec.name: source for kind in KINDS.values() for source in kind.sources}
    settings = settings_of(providers={"virustotal": {"key": "k"}, "marginalia": {"key": "k"}})
    off = {name for name, source in sources.items() if switched_off(source, settings) == "commercial"}
    assert off == {"virustotal", "virustotaldomain", "xposedornot", "marginalia"}
    assert switched_off(sources["marginalia"], Settings()) == "no_key"
    assert switched_off(sources["xposedornot"], Settings()) is None
    assert {name for name, source in sources.items() if not source.spec.bulk} == {
        "rdap",
        "rdapdomain",
        "whois",
    }


def test_only_sources_that_are_on_are_named_as_unknown() -> None:
    named = name_unknown(KINDS, settings_of())
    assert "leakcheck" in named
    assert not {"dbip", "xposedornot", "abuseipdb", "whatsmyname", "searxng"} & set(named)
    assert "abuseipdb" in name_unknown(KINDS, settings_of(providers={"abuseipdb": {"key": "k"}}))
    assert name_unknown(KINDS, Settings()) == []


@pytest.mark.parametrize("commercial", [False, True])
async def test_a_start_names_them_once(
    database: Database, keyring: Keyring, tmp_path: Path, capsys: pytest.CaptureFixture[str], commercial: bool
) -> None:
    settings = settings_of(data=tmp_path, commercial=commercial)
    async with AsyncExitStack() as stack:
        outbound = await stack.enter_async_context(Outbound(settings))
        lookups = Lookups(settings, database, keyring, outbound)
        await lookups.open()
        await lookups.close()
    assert capsys.readouterr().out.count("commercial_terms_unknown") == commercial
    announce_unknown_terms(Report(), settings)
    said = capsys.readouterr().out
    assert ("leakcheck" in said, said.count("\n")) == (commercial, commercial)


async def test_the_doctor_names_them(tmp_path: Path) -> None:
    found = {one.part: one for one in await examine(settings_of(data=tmp_path))}
    assert found["commercial"].state == "warning" and "leakcheck" in found["commercial"].text
    assert "commercial" not in {one.part for one in await examine(Settings(data=tmp_path))}
