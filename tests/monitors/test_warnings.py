"""A monitor says before its first run which sources it will wait for."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from providers.lookup.lookup import AskedSources
from providers.registry import KINDS
from providers.sources.base import RemoteSource
from services.pacing import warnings_of_monitor
from settings import Settings
from tests.api_server import Api, running
from tests.lists.making import create as create_list
from tests.monitors.asking import create, given, problems

HOUR, MONTH = 3600.0, 28 * 86_400.0
LEAKCHECK = AskedSources(
    [
        source
        for source in KINDS["email"].sources
        if isinstance(source, RemoteSource) and source.spec.name == "leakcheck"
    ],
    [],
)


def test_a_slow_source_is_named_with_how_long_it_takes() -> None:
    [warning] = warnings_of_monitor(LEAKCHECK, 10_000, MONTH)
    assert warning["code"] == "slow_source"
    assert warning["message"].startswith("leakcheck allows 1 request a second: 10,000 targets take ")


def test_a_period_that_is_too_short_is_named() -> None:
    slow, short = warnings_of_monitor(LEAKCHECK, 10_000, HOUR)
    assert (slow["code"], short["code"]) == ("slow_source", "short_period")
    assert "a run is due every 60 min" in short["message"]


def test_few_targets_are_no_reason_to_warn() -> None:
    assert warnings_of_monitor(LEAKCHECK, 10, HOUR) == []


async def test_where_nobody_is_asked_over_the_network_there_is_no_warning(api: Api) -> None:
    person = await api.person()
    targets = [f"h{number}.example.com" for number in range(500)]
    made = await create(person.key, monitor_type="domain", targets=targets, tracked_fields=["whois"])
    assert made["warnings"] == []
    assert (await given(person.key, f"/api/monitors/{made['id']}"))["warnings"] == []


async def test_validation_says_what_creation_would_say_and_stores_nothing(settings: Settings) -> None:
    async with running(settings, local_only=False) as api:
        person = await api.person()
        domains = {"name": "Domains", "monitor_type": "domain", "frequency": "hourly"}
        body = domains | {"targets": [f"h{number}.example.com" for number in range(9_000)]}
        found = (await person.key.post("/api/monitors/validate", json=body)).json()
        assert (found["valid"], found["errors"], len(found["next_runs"])) == (True, [], 5)
        assert {"slow_source", "short_period"} == {one["code"] for one in found["warnings"]}
        assert all(one["pointer"] == "" and one["message"] for one in found["warnings"])
        assert (await given(person.key, "/api/monitors"))["total"] == 0
        made = await create(person.key, **body, status="paused")
        assert [one["message"] for one in made["warnings"]] == [one["message"] for one in found["warnings"]]
        listed = await create_list(person.key, type="domain", targets=body["targets"])
        of_list = domains | {"data_source_type": "list", "data_source_ref": listed["id"]}
        assert (await person.key.post("/api/agent/monitors/validate", json=of_list)).json()[
            "warnings"
        ] == found["warnings"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "a", "colour": "red", "frequency": "often"},
        {"name": "a", "tracked_fields": ["nothing"], "cron": "x", "targets": ["nobody"]},
        {"name": "a", "data_source_type": "list", "data_source_ref": str(UUID(int=7))},
        {"name": "a", "targets": []},
        {},
    ],
)
async def test_validation_names_what_creation_would_refuse(api: Api, wrong: dict[str, Any]) -> None:
    person = await api.person()
    found = (await person.key.post("/api/monitors/validate", json=wrong)).json()
    refusal = await person.key.post("/api/monitors", json=wrong)
    assert not found["valid"] and found["errors"]
    assert [(one["pointer"], one["code"]) for one in found["errors"]] == problems(refusal)
    assert (found["warnings"], found["next_runs"]) == ([], [])
