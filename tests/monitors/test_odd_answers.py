"""Answers that nobody expected: each is told of its own target, and keeps no run from its end."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import web

from notifications import Notifier
from providers.lookup import composition
from providers.lookup.result import LookupResult
from providers.sources.base import Query
from providers.sources.kind import Kind
from sealing import Keyring
from tests.monitors.watching import Answer, Scanner, Watcher, addresses, reported, scanned_as, workflow

ODD_NAMES = {
    "a null character": r'"a\u0000b"',
    "half a character": r'"a\ud800b"',
    "no finite number": "1e400",
    "a very deep list": "[" * 20_000 + "]" * 20_000,
    "half a megabyte": f'"{"x" * 500_000}"',
    "five megabytes": f'"{"x" * 5_000_000}"',
}


def scanned_by(name: str) -> Answer:
    """GreyNoise knows every address by this name, which is JSON or nearly so."""
    text = '{"noise": true, "riot": false, "classification": "benign", "name": ' + name + "}"
    return lambda _: web.Response(text=text, content_type="application/json")


@pytest.mark.parametrize("name", ODD_NAMES.values(), ids=ODD_NAMES.keys())
async def test_a_run_ends_and_tells_its_changes_whatever_a_source_says(
    watcher: Watcher, notifier: Notifier, scanner: Scanner, keyring: Keyring, name: str
) -> None:
    targets = addresses(2)
    monitor_id = await watcher.monitor(targets, change_detection="full_refresh")
    await workflow(watcher, keyring, monitor_id)
    await watcher.found(monitor_id, notifier)
    odd, plain = scanned_by(name), scanned_as("benign")
    scanner.greynoise = lambda address: (odd if address == targets[0] else plain)(address)
    scanner.abuseipdb = reported("Hosting")
    run, results = await watcher.found(monitor_id, notifier)
    assert (run.status, run.processed_records, run.changes_detected) == ("completed", 2, 2)
    assert all("threat.usage_type" in one["changes"] for one in results)


async def test_an_answer_that_makes_our_code_fail_fails_its_target_alone(
    watcher: Watcher, notifier: Notifier, scanner: Scanner, monkeypatch: pytest.MonkeyPatch
) -> None:
    targets = addresses(3)

    def compose(kind: Kind, query: Query, *given: Any) -> LookupResult:
        if query.text == targets[1]:
            raise ValueError("This answer is too much.")
        return composition.compose(kind, query, *given)

    monkeypatch.setattr("providers.lookup.lookup.compose", compose)
    run, results = await watcher.found(await watcher.monitor(targets), notifier)
    assert (run.status, run.processed_records, run.failed_records) == ("completed", 3, 1)
    assert results[1]["error"]["code"] == "internal_error"
