"""What agents see of what happens in the account."""

from __future__ import annotations

from database import Database
from metrics import Tally
from models.stats import entries
from tests.api_server import Api
from tests.mcp.clients import Agent
from tests.runs.workflows import create


async def test_an_agent_reads_figures_and_activity(api: Api, database: Database) -> None:
    person = await api.person()
    await create(person, name="shop")
    async with database.connection() as connection:
        await entries.add(connection, [Tally(person.account.id, "deliveries", "", "delivered", 3)])
    agent = Agent(api.url, person.secret)
    figures = await agent.call("get_stats", window="2h")
    assert figures["totals"]["deliveries"]["delivered"] == 3
    assert "buckets" not in figures
    activity = await agent.call("list_activity", limit=5)
    assert [entry["title"] for entry in activity["entries"]] == ["shop"]
    assert activity["untrusted"] == ["entries[].title"]
