"""`/readyz` names the lookup data that is missing, and what it costs."""

from __future__ import annotations

from typing import Any

import pytest

from providers.datasets import installed
from settings import Settings
from tests.api_server import running
from tests.datasets import write_small_datasets


@pytest.fixture(autouse=True)
def data(settings: Settings) -> None:
    write_small_datasets(settings.data)
    installed.write_failures(settings.data, {})


async def readiness(settings: Settings) -> dict[str, Any]:
    async with running(settings) as api:
        response = await api.http.get("/readyz")
    assert response.status_code == 200
    return response.json()


def forget(settings: Settings, name: str) -> None:
    manifest = installed.read_manifest(settings.data)
    kept = {known: one for known, one in manifest.datasets.items() if known != name}
    path = installed.folder(settings.data) / "manifest.json"
    path.write_text(installed.Manifest(datasets=kept).model_dump_json())


async def test_an_optional_dataset_that_is_missing_is_named_and_is_no_fault(settings: Settings) -> None:
    forget(settings, "tor")
    ready = await readiness(settings)
    states = {one["name"]: one for one in ready["datasets"]}
    assert states["tor"] == {
        "name": "tor",
        "state": "missing",
        "fields": ["security.is_tor", "threat.is_tor"],
    }
    assert states["spamhaus"]["state"] == "installed"
    assert ready["checks"]["data"] == "ok"


async def test_a_dataset_that_lookups_should_not_do_without_is_a_fault(settings: Settings) -> None:
    forget(settings, "asn")
    ready = await readiness(settings)
    assert (ready["status"], ready["checks"]["data"]) == ("degraded", "missing: asn")


async def test_a_dataset_that_could_not_be_renewed_is_named(settings: Settings) -> None:
    installed.write_failures(settings.data, {"tor": "check.torproject.org answers 503"})
    states = {one["name"]: one["state"] for one in (await readiness(settings))["datasets"]}
    assert (states["tor"], states["x4bnet"]) == ("not_refreshed", "installed")


async def test_a_process_that_is_about_to_stop_is_not_ready(settings: Settings) -> None:
    async with running(settings) as api:
        api.services.stopping = True
        answer = await api.http.get("/readyz")
    assert (answer.status_code, answer.json()["checks"]) == (503, {"process": "stops"})
