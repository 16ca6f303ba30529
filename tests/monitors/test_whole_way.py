"""From the request that makes a monitor to the request that reads what has changed, with a worker between."""

from __future__ import annotations

import httpx

from notifications import Notifier
from settings import Settings
from tests.api_server import Person, running
from tests.automations.engine import until
from tests.monitors.asking import create, given, start
from tests.monitors.watching import Scanner, addresses, scanned_as


async def ended(person: Person, monitor_id: str) -> str:
    """The path of a run that has begun by request, and ended."""
    path = f"/api/monitors/{monitor_id}/runs/{await start(person, monitor_id)}"

    async def look() -> bool:
        return (await given(person.key, path))["completed_at"] is not None

    await until(look)
    return path


async def told(client: httpx.AsyncClient, run: str) -> list[tuple[bool, dict[str, object] | None]]:
    return [(one["has_changes"], one["changes"]) for one in await given(client, f"{run}/results")]


async def test_what_a_run_by_request_has_found_is_read_by_request(
    watching_settings: Settings, notifier: Notifier, scanner: Scanner
) -> None:
    targets = addresses(3)
    async with running(watching_settings, local_only=False) as api:
        person = await api.person(credits=10)
        body = {"monitor_type": "ip", "change_detection": "full_refresh", "targets": targets}
        monitor_id = (await create(person.key, **body))["id"]
        assert await told(person.key, await ended(person, monitor_id)) == [(False, None)] * 3
        scanner.greynoise = scanned_as("malicious")
        run = await ended(person, monitor_id)
        results = await given(person.key, f"{run}/results", changes_only=True)
        assert [one["target"] for one in results] == targets
        change = results[0]["changes"]["threat.classification"]
        assert change == {"old": "benign", "new": "malicious"}
        assert results[0]["data"]["threat"]["classification"] == "malicious"
        assert results[0]["change_details"]["threat.classification"]["sources"] == ["greynoise"]
        file = (await person.key.get(f"{run}/results/download")).text
        assert [line.split(",")[:2] for line in file.splitlines()[1:]] == [[one, "true"] for one in targets]
        assert (await given(person.key, "/api/credits"))["balance"] == 4


async def test_without_credits_a_run_goes_to_its_end_and_says_0(
    watching_settings: Settings, notifier: Notifier, scanner: Scanner
) -> None:
    async with running(watching_settings, local_only=False, credits="off") as api:
        person = await api.person(credits=0)
        monitor_id = (await create(person.key, monitor_type="ip", targets=addresses(3)))["id"]
        run = await given(person.key, await ended(person, monitor_id))
        assert (run["status"], run["processed_records"], run["credits_used"]) == ("completed", 3, 0)
        assert (await given(person.key, "/api/credits/ledger"))["entries"] == []
