"""Monitors of every type but addresses, which have the other tests: a second look finds nothing new."""

from __future__ import annotations

import pytest

from models.lists.lists import TargetType
from models.monitors import monitors
from models.monitors.monitors import MonitorSettings
from notifications import Notifier
from settings import Settings
from tests.automations import sources
from tests.monitors.watching import Watcher

providers, live_settings = sources.providers, sources.live_settings

# What the sources on loopback know.
TARGETS: dict[TargetType, str] = {
    "email": "ada@example.com",
    "phone": "+14155552671",
    "domain": "example.com",
    "company": "Apple",
    "darkweb": "example.com",
}


@pytest.fixture(scope="module")
def watching_settings(live_settings: Settings) -> Settings:
    """The module's settings, with sources of every kind."""
    return live_settings


@pytest.mark.parametrize("type", TARGETS)
async def test_a_second_look_that_hears_the_same_finds_no_change(
    watcher: Watcher, notifier: Notifier, type: TargetType
) -> None:
    async with watcher.database.transaction() as connection:
        plan = MonitorSettings("m", change_detection="full_refresh")
        monitor_id = await monitors.create(connection, watcher.actor, type, plan, [TARGETS[type]])
    _, [first] = await watcher.found(monitor_id, notifier)
    assert first["error"] is None, first["error"]
    run, [second] = await watcher.found(monitor_id, notifier)
    assert (run.status, run.changes_detected, second["changes"]) == ("completed", 0, None)
    assert second["data"].keys() == first["data"].keys()
