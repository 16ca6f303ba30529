"""How much a page of GET /api/workflows has."""

from __future__ import annotations

from typing import Any

from tests.api_server import Api


async def test_a_page_has_4_mib_at_most_and_names_what_it_leaves_out(api: Api) -> None:
    person = await api.person()
    small = {"name": "small", "steps": [{"id": "a", "type": "transform", "config": {"expression": "'x'"}}]}
    created = await person.key.post("/api/workflows", json=small)
    filler = [{"id": f"s{n}", "type": "webhook", "config": {"url": "https://example.com", "body": "x" * 2000}}
              for n in range(100)]  # fmt: skip
    trigger = {"type": "webhook", "dedupe": "trigger.id"}
    large: dict[str, Any] = {"name": "large", "steps": filler, "agents": False, "trigger": trigger}
    for _ in range(24):
        assert (await person.key.post("/api/workflows", json=large)).status_code == 201

    response = await person.key.get("/api/workflows?limit=100")
    assert len(response.content) < 4 * 1024 * 1024
    workflows = response.json()["workflows"]
    assert len(workflows) == 25
    assert "omitted" not in workflows[-1] and workflows[-1]["steps"] == created.json()["steps"]
    omitted = [workflow for workflow in workflows if "omitted" in workflow]
    assert 1 < len(omitted) < 24
    one = omitted[0]
    assert (one["steps"], one["trigger"], one["agents"]) == ([], {"type": "webhook"}, False)
    whole = (await person.key.get(one["omitted"]["url"])).json()
    assert whole["id"] == one["id"] and len(whole["steps"]) == 100 and "omitted" not in whole
