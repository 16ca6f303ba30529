"""Sources with limits of their own are asked exactly as often as these allow, and heard of all targets."""

from __future__ import annotations

import time
from collections import defaultdict

import pytest
from aiohttp import web

from notifications import Notifier
from settings import ProviderSettings, Rate, Settings
from tests.monitors.watching import Answer, Scanner, Watcher, addresses, reported, scanned_as

RATES = {"greynoise": Rate(1, 1), "abuseipdb": Rate(5, 6)}
"""Of five in six seconds, four are for those who wait."""


@pytest.fixture(scope="module")
def watching_settings(watching_settings: Settings) -> Settings:
    """The two sources with these rates; 5 in 6 s is 25 an hour on a clock that goes 120 times as fast."""
    providers = dict[str, ProviderSettings](watching_settings.providers)
    for name, rate in RATES.items():
        providers[name] = providers[name].model_copy(update={"rate": (rate,)})
    return watching_settings.model_copy(update={"providers": providers})


@pytest.mark.long
async def test_each_source_is_asked_once_of_each_target_and_never_more_often_than_it_allows(
    watcher: Watcher, notifier: Notifier, scanner: Scanner
) -> None:
    asked = defaultdict[str, list[float]](list)

    def noted(name: str, answer: Answer) -> Answer:
        def answered(address: str) -> web.Response:
            asked[name].append(time.monotonic())
            return answer(address)

        return answered

    scanner.greynoise = noted("greynoise", scanned_as("benign"))
    scanner.abuseipdb = noted("abuseipdb", reported())
    tracked = ["threat.abuse_score", "threat.classification"]
    monitor_id = await watcher.monitor(addresses(10), tracked_fields=tracked)
    run_id = await watcher.start(monitor_id, notifier)
    run = await watcher.ended(monitor_id, run_id, 90)
    assert (run.status, run.processed_records, run.targets_partial) == ("completed", 10, 0)
    for name, moments in asked.items():
        rate = RATES[name]
        assert len(moments) == 10
        pairs = zip(moments, moments[rate.requests :], strict=False)
        assert all(later - first > rate.seconds - 0.2 for first, later in pairs)
    # Four in each six seconds: the last of ten comes after twelve, and the run waits little longer.
    assert asked["abuseipdb"][-1] - asked["abuseipdb"][0] < 12 + 6
