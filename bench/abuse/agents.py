"""Agents over MCP that try to approve in a person's place, find hidden objects, or read secrets."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import orjson

from bench.abuse.cases import Tally, case
from bench.abuse.target import Account, Target

_ACCEPT = {"Accept": "application/json, text/event-stream"}
_LINK = "{{ run.resume_urls.approval }}"
_WAIT: dict[str, Any] = {"id": "approval", "type": "wait", "config": {"timeout": 600}}


class _Agent:
    """Calls tools by plain requests, as any client can."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    async def __call__(self, tool: str, **arguments: Any) -> tuple[bool, str]:
        """Call a tool; return whether it succeeded, and its answer."""
        params = {"name": tool, "arguments": arguments}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        answer = await self._http.post("/mcp", json=message, headers=_ACCEPT)
        assert answer.status_code == 200, answer.text
        line = next(line for line in answer.text.splitlines() if '"result"' in line or '"error"' in line)
        result: dict[str, Any] = orjson.loads(line.removeprefix("data:"))["result"]
        return not result.get("isError", False), result["content"][0]["text"]


def _asking(target: Target) -> list[dict[str, Any]]:
    url = target.receiver.url
    return [
        {"id": "ask", "type": "webhook", "config": {"url": f"{url}/people", "body": {"url": _LINK}}},
        _WAIT,
        {"id": "act", "type": "webhook", "config": {"url": f"{url}/act"}},
    ]


def _ways_round(target: Target) -> dict[str, dict[str, Any]]:
    ask, wait, act = _asking(target)
    mine = {"id": "mine", "type": "webhook", "config": {"url": f"{target.receiver.url}/agent", "body": _LINK}}
    hasty = wait | {"config": {"timeout": 0.1, "on_timeout": "continue"}}
    return {
        "sends itself the URL": {"steps": [mine, ask, wait, act]},
        "has the URL sent to itself": {"steps": [ask | {"config": mine["config"]}, wait, act]},
        "takes the step out": {"steps": [act]},
        "skips the step": {"steps": [ask, wait | {"if": "`false`"}, act]},
        "does not need the step": {"steps": [ask, wait, act | {"needs": []}]},
        "does not wait for long": {"steps": [ask, hasty, act]},
        "goes on without it": {"steps": [ask, wait | {"on_error": "continue"}, act]},
        "acts before": {"steps": [act, ask, wait]},
        "names it otherwise": {"name": "nothing to worry about"},
        "hides it": {"agents": False},
        "empties it, and pauses it": {"status": "paused", "steps": []},
    }


@case("A13 approvals", "an agent answers for a person: by URL, by change, by retry, by deletion, by a copy")
async def approvals(target: Target, tally: Tally) -> None:
    """Check that a step that waits for a person continues only by a person's answer."""
    account = await target.account()
    agent = _Agent(account.key)
    workflow = await account.workflow(_asking(target))
    for way, changes in _ways_round(target).items():
        done, text = await agent(
            "update_workflow", workflow_id=workflow["id"], base_version=1, changes=changes
        )
        tally.check(not done and text.startswith("person_required"), f"an agent {way}", text[:100])
    done, text = await agent("delete_workflow", workflow_id=workflow["id"])
    tally.check(not done, "an agent deletes it", text[:100])
    outer = await account.workflow(
        [{"id": "sub", "type": "workflow", "config": {"workflow_id": workflow["id"]}}]
    )
    done, text = await agent(
        "update_workflow", workflow_id=outer["id"], base_version=1, changes={"steps": []}
    )
    tally.check(not done, "an agent changes a workflow that runs it", text[:100])
    for name, definition in {
        "of its own": {"name": "mine", "steps": _asking(target)},
        "from a template": {"template_id": "approve-by-link", "steps": _asking(target)},
        "to an address that it stores": {
            "template_id": "approve-by-link",
            "secrets": {"SLACK_WEBHOOK_URL": f"{target.receiver.url}/agent"},
        },
    }.items():
        done, text = await agent("create_workflow", definition=definition)
        tally.check(not done, f"an agent makes one that sends the URL, {name}", text[:100])
    await _retries(target, tally, account, agent)
    done, text = await agent("run_workflow", workflow_id=workflow["id"], wait_seconds=3)
    run = orjson.loads(text)
    token = _token_of(target)
    _, whole = await agent("get_workflow_run", run_id=run["id"], full=True)
    tally.check(token is not None and token not in text + whole, "no answer has the token")
    seen = [request["path"] for request in target.receiver.requests]
    tally.check("/act" not in seen and "/agent" not in seen, "nothing is done", seen[-5:])


async def _retries(target: Target, tally: Tally, account: Account, agent: _Agent) -> None:
    """Retry a version from before a person added the step."""
    act = {
        "id": "act",
        "type": "webhook",
        "config": {"url": f"{target.receiver.url}/early", "success": "418"},
    }
    workflow = await account.workflow([act])
    run = await account.run(workflow, None)
    await account.key.patch(f"/api/workflows/{workflow['id']}", json={"steps": [_WAIT, act]})
    before = len(target.receiver.requests)
    for version in ({}, {"version": 1}):
        done, text = await agent("retry_workflow_run", run_id=run["id"], wait_seconds=0, **version)
        tally.check(not done, f"an agent retries without the step {version}", text[:100])
    tally.check(len(target.receiver.requests) == before, "no request is sent")


def _token_of(target: Target) -> str | None:
    """Return the token of the last resume URL that was sent to people."""
    bodies = [one["body"] for one in target.receiver.requests if one["path"] == "/people"]
    return orjson.loads(bodies[-1])["url"].rpartition("/")[2] if bodies else None


@case("A13 hidden workflows", "an agent that looks for, runs, ends or hears of what is hidden from agents")
async def hidden_workflows(target: Target, tally: Tally) -> None:
    """Check that a hidden workflow does not exist for an agent: not in lists, events, or names of secrets."""
    account = await target.new_account()
    agent = _Agent(account.key)
    await account.key.post("/api/workflows/secrets", json={"name": "CANARY", "value": "canary-in-a-secret"})
    headers = {"X": "{{ secrets.CANARY }}"}
    step = {"id": "send", "type": "webhook", "config": {"url": target.receiver.url, "headers": headers}}
    workflow = await account.workflow([step], name="canary-of-a-name", agents=False)
    run = await account.run(workflow, None)
    ids = {"workflow_id": workflow["id"]}
    calls: list[tuple[str, dict[str, Any]]] = [
        ("get_workflow", ids), ("run_workflow", ids), ("delete_workflow", ids), ("list_workflow_runs", ids),
        ("set_workflow_status", ids | {"status": "paused"}),
        ("update_workflow", ids | {"base_version": 1, "changes": {"agents": True}}),
        ("get_workflow_run", {"run_id": run["id"]}), ("cancel_workflow_run", {"run_id": run["id"]}),
        ("retry_workflow_run", {"run_id": run["id"]}),
        *(("create_webhook", {"url": f"{target.receiver.url}/hooks", "events": [events]})
          for events in ("*", "workflow.*", "workflow.run.completed", "lookup.completed")),
    ]  # fmt: skip
    for tool, arguments in calls:
        done, text = await agent(tool, **arguments)
        tally.check(not done, f"{tool} of a hidden workflow", text[:100])
    token = workflow["webhook_url"].rpartition("/")[2]
    for tool in ("list_workflows", "list_secrets", "list_webhooks", "list_workflow_templates"):
        _, text = await agent(tool)
        found = [
            one for one in ("canary-of-a-name", "canary-in-a-secret", token, workflow["id"]) if one in text
        ]
        tally.check(not found, f"{tool} tells of it", found)
    left = (await account.key.get(f"/api/workflows/{workflow['id']}")).json()
    tally.check((left["status"], left["version"]) == ("active", 1), "it is as it was", left["status"])


_REFUSED_HEADERS = [
    "X-Accel-Redirect", "X-Sendfile", "X-Reproxy-URL", "Access-Control-Allow-Origin", "Link", "Refresh",
    "Content-Disposition", "Set-Cookie", "Content-Security-Policy", "Location",
]  # fmt: skip
_ELSEWHERE = [
    "https://evil.example/", "//evil.example", "/\\evil.example", "/\t/evil.example", "\\\\evil.example",
    "javascript:alert(1)", "/x\r\nSet-Cookie: a=b", "http:evil.example",
]  # fmt: skip


@case("A12 headers of answers", "respond that tells proxies and browsers what to do, redirects by event")
async def headers_of_answers(target: Target, tally: Tally) -> None:
    """Check that answers have headers of a short list, and redirects stay on a site that the author named."""
    account, http = await target.account(), await target.client()
    for name in _REFUSED_HEADERS:
        trigger = {"type": "webhook", "respond": {"headers": {name: "/etc/passwd"}}}
        answer = await account.key.post("/api/workflows", json={"name": "abuse", "trigger": trigger})
        tally.check(answer.status_code == 400, f"a workflow that answers with {name}", answer.status_code)
    respond = {"status": "{{ trigger.status }}", "headers": {"Location": "{{ trigger.to }}"}, "body": "x"}
    workflow = await account.workflow([], trigger={"type": "webhook", "respond": respond})
    path = workflow["webhook_url"].removeprefix(target.url)

    async def answered(status: int, to: str) -> httpx.Response:
        return await http.post(f"{path}?wait=20", json={"status": status, "to": to})

    for to in _ELSEWHERE:
        answer = await answered(307, to)
        led = {"location", "set-cookie"} & set(answer.headers)
        tally.check(answer.status_code == 307 and not led, f"an event leads to {to[:20]!r}", led)
    own = await answered(303, "/thanks")
    tally.check(own.headers.get("location") == "/thanks", "an event leads to a path", own.status_code)
    other = await answered(200, "/thanks")
    tally.check("location" not in other.headers, "a Location without a redirect", other.status_code)


@case("A8 weak signing secrets", "events signed with empty and short keys, which anybody can compute")
async def weak_signing_secrets(target: Target, tally: Tally) -> None:
    """Check that no workflow is saved that uses them, and no existing one changes to one."""
    account = await target.new_account()
    weak = ["whsec_", "whsec_AA==", "hunter2", "123456789012345"]
    for scheme in ("standard-webhooks", "github", "stripe", "slack", "hmac-sha256"):
        trigger = {"type": "webhook", "signature": {"scheme": scheme, "secret": "SIGNING"}}
        document = {"name": "abuse", "trigger": trigger}

        async def stored(value: str) -> int:
            body = {"name": "SIGNING", "value": value}
            return (await account.key.post("/api/workflows/secrets", json=body)).status_code

        for value in weak:
            await stored(value)
            answer = await account.key.post("/api/workflows", json=document)
            tally.check(answer.status_code == 400, f"{scheme} with {value[:8]}", answer.status_code)
        await stored("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
        answer = await account.key.post("/api/workflows", json=document)
        assert answer.status_code == 201, answer.text
        statuses = await asyncio.gather(*map(stored, weak))
        tally.check(set(statuses) == {400}, f"{scheme}: a weak one instead of a good one", statuses)
        await account.key.delete(f"/api/workflows/{answer.json()['id']}")
