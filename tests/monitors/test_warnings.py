"""A monitor says before its first run which sources it will wait for."""

from __future__ import annotations

from providers.base import RemoteSource
from providers.lookup import AskedSources
from providers.registry import KINDS
from services.pacing import warnings_of_monitor
from tests.api_server import Api
from tests.monitors.asking import create, given

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
