"""Agents start bulk jobs and monitors, follow them and read what they have found."""

from __future__ import annotations

import pytest

from tests.api_server import Api, Person
from tests.mcp.clients import MODES, Agent, connected

pytestmark = pytest.mark.usefixtures("notifier")


async def test_a_job_is_started_followed_and_read_in_pages(agent: Agent) -> None:
    targets = ["8.8.8.8", "nonsense", "1.1.1.1"]
    job = await agent.call("start_bulk_job", type="ip", targets=targets, name="Visitors")
    ended = await agent.call("get_bulk_job", job_id=job["id"], wait_seconds=60)
    assert (ended["status"], ended["succeeded_rows"], ended["failed_rows"]) == ("completed", 2, 1)
    page = await agent.call("get_bulk_job_results", job_id=job["id"], limit=2)
    assert [row["target"] for row in page["rows"]] == targets[:2]
    rest = await agent.call("get_bulk_job_results", job_id=job["id"], offset=2)
    assert [row["location.country_code"] for row in rest["rows"]] == ["AU"]


async def test_a_job_with_the_same_key_is_one_job(agent: Agent) -> None:
    asked = {"type": "ip", "targets": ["8.8.8.8"], "idempotency_key": "k1"}
    first = await agent.call("start_bulk_job", **asked)
    assert (await agent.call("start_bulk_job", **asked))["id"] == first["id"]


async def test_keys_that_no_header_can_hold_are_refused_rather_than_mixed_up(agent: Agent) -> None:
    for key in ("ключ", "замо"):
        text = await agent.refused("start_bulk_job", type="ip", targets=["8.8.8.8"], idempotency_key=key)
        assert text.startswith("invalid_idempotency_key")


async def test_rows_of_an_unknown_job_are_not_found(agent: Agent) -> None:
    assert (await agent.refused("get_bulk_job_results", job_id="nonsense")).startswith("not_found: ")


async def test_a_monitor_is_made_run_and_read(agent: Agent, person: Person) -> None:
    targets = ["8.8.8.8", "1.1.1.1"]
    made = await agent.call("create_monitor", name="Ours", type="ip", targets=targets, frequency="daily")
    assert (await agent.refused("get_monitor_results", monitor_id=made["id"])).startswith("not_found: ")
    run = await agent.call("run_monitor", monitor_id=made["id"], wait_seconds=60)
    assert (run["status"], run["processed_records"]) == ("completed", 2)
    changed = await agent.call("get_monitor_results", monitor_id=made["id"])
    assert changed["total"] == 0 and "results" not in changed
    every = await agent.call("get_monitor_results", monitor_id=made["id"], changes_only=False)
    assert [one["target"] for one in every["results"]] == targets
    assert every["results"][0]["data"]["location"]["country"] == "United States"
    listed = (await agent.call("list_monitors"))["monitors"]
    assert [one["name"] for one in listed] == ["Ours"]


@pytest.mark.parametrize(("tool", "member"), [("list_contact_lists", "lists"), ("list_monitors", "monitors")])
async def test_of_many_each_can_be_seen(agent: Agent, tool: str, member: str) -> None:
    create = "create_contact_list" if member == "lists" else "create_monitor"
    names = {f"{'n' * 80} {number}" for number in range(10)}
    for name in names:
        await agent.call(create, name=name, type="ip", targets=["8.8.8.8"])
    pages = [await agent.call(tool, type="ip", limit=5, offset=start) for start in range(0, 10, 5)]
    assert all("omitted" not in page and page["total"] == 10 for page in pages)
    assert {one["name"] for page in pages for one in page[member]} == names


async def test_a_monitor_watches_a_contact_list(agent: Agent) -> None:
    made = await agent.call("create_contact_list", name="Hosts", type="ip", targets=["8.8.8.8", "nonsense"])
    assert made["target_count"] == 1 and len(made["invalid"]) == 1
    [listed] = (await agent.call("list_contact_lists", type="ip"))["lists"]
    monitor = await agent.call("create_monitor", name="List", type="ip", list_id=listed["id"])
    assert monitor["data_source_ref"] == made["id"]


@pytest.mark.parametrize("mode", MODES)
async def test_a_client_is_told_how_far_a_job_is(api: Api, person: Person, agent: Agent, mode: str) -> None:
    job = await agent.call("start_bulk_job", type="ip", targets=["8.8.8.8"])
    told: list[tuple[float, float | None]] = []

    async def progress(done: float, total: float | None, message: str | None) -> None:
        told.append((done, total))

    async with connected(api.url, person.secret, mode) as client:
        asked = {"job_id": job["id"], "wait_seconds": 60}
        await client.call_tool("get_bulk_job", asked, progress_callback=progress)
    assert told[-1] == (1, 1)


async def test_the_documentation_is_found_by_its_words(agent: Agent) -> None:
    found = (await agent.call("search_docs", query="retry webhook step", limit=3))["sections"]
    assert "workflows" in [section["page"] for section in found]
    assert any("max_attempts" in section["text"] for section in found)
