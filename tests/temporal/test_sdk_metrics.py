"""The metrics of Temporal's SDK go where OpenTelemetry's variables say."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs
from temporalio.runtime import OpenTelemetryConfig

import logs
from database import Database
from sealing import Keyring
from settings import Settings
from temporal import client as connections
from temporal.sdk_metrics import find_metrics_export
from tests.automations.collector import collecting
from tests.automations.engine import NewTarget, accept, ended, transform, until, working

VARIABLES = (
    "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "OTEL_EXPORTER_OTLP_HEADERS",
    "OTEL_EXPORTER_OTLP_METRICS_HEADERS", "OTEL_METRICS_EXPORTER", "OTEL_METRIC_EXPORT_INTERVAL",
)  # fmt: skip
ENDPOINT, METRICS = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """None is set where the tests run."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("variables", "url"),
    [
        ({}, None),
        ({ENDPOINT: "http://127.0.0.1:4318"}, "http://127.0.0.1:4318/v1/metrics"),
        ({ENDPOINT: "http://127.0.0.1:4318/"}, "http://127.0.0.1:4318/v1/metrics"),
        ({ENDPOINT: "http://127.0.0.1:1", METRICS: "http://127.0.0.1:2/m"}, "http://127.0.0.1:2/m"),
        ({ENDPOINT: "http://127.0.0.1:4318", "OTEL_METRICS_EXPORTER": "none"}, None),
    ],
)
def test_they_go_where_the_variables_say(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], url: str | None
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    found = find_metrics_export()
    assert (found and found.url) == url


@pytest.mark.parametrize(("given", "milliseconds"), [("250", 250), ("", 60_000), ("often", 60_000)])
def test_they_go_as_often_as_the_variable_says(
    monkeypatch: pytest.MonkeyPatch, given: str, milliseconds: int
) -> None:
    monkeypatch.setenv(ENDPOINT, "http://127.0.0.1:4318")
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", given)
    found = find_metrics_export()
    assert isinstance(found, OpenTelemetryConfig) and found.metric_periodicity is not None
    assert found.metric_periodicity.total_seconds() * 1000 == milliseconds


@pytest.mark.parametrize("url", ["collector:4318", "localhost", "http://["])
def test_an_address_that_is_none_is_told_and_stops_no_process(
    monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setenv(ENDPOINT, url)
    monkeypatch.setattr(connections, "_log", logs.get("not used before"))
    with capture_logs() as said:
        connections._runtime.__wrapped__()
    [line] = said
    assert (line["event"], line["log_level"]) == ("sdk_metrics_not_exported", "warning")
    assert ENDPOINT in line["hint"]


async def test_a_worker_tells_of_its_tasks(
    open_settings: Settings, database: Database, keyring: Keyring, new_target: NewTarget,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    async with collecting() as collector:
        monkeypatch.setenv(ENDPOINT, collector.url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%20b, other=c")
        monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "100")
        # The runtime of this process may have been made without the variables.
        monkeypatch.setattr(connections, "_runtime", connections._runtime.__wrapped__)
        client = await connections.connect(open_settings, keyring)
        target = await new_target([transform("end", "'done'")], execution="workflow")
        [run_id] = await accept(database, target)
        async with working(open_settings, client, database, keyring) as notifier:
            await ended(database, notifier, target.account_id, run_id)

            async def told() -> bool:
                return {
                    "temporal_workflow_task_schedule_to_start_latency", "temporal_sticky_cache_size",
                    "temporal_worker_task_slots_available", "temporal_request_latency",
                } <= collector.metrics  # fmt: skip

            await until(told)
    assert (collector.headers["api-key"], collector.headers["other"]) == ("a b", "c")
