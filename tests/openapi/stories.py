"""One request and answer of every operation, told as a newcomer would go through them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import httpx

from tests.openapi.recording import Recorder

HOOK = "https://hooks.example.com/vedette"
WORKFLOW: dict[str, Any] = {
    "name": "Visitors from abroad",
    "trigger": {"type": "webhook", "dedupe": "trigger.id"},
    "steps": [
        {"id": "place", "type": "ip_lookup", "config": {"field": "trigger.ip"}},
        {
            "id": "abroad", "type": "condition",
            "config": {"expression": "place.location.country_code != 'US'"},
        },
        {
            "id": "visitor", "type": "transform",
            "config": {"mapping": {"ip": "place.ip_address", "city": "place.location.city"}},
        },
    ],
}  # fmt: skip
EACH: dict[str, Any] = {
    "id": "visitor", "type": "transform", "for_each": "trigger.ips", "config": {"mapping": {"ip": "item"}},
}  # fmt: skip
LIST: dict[str, Any] = {"name": "Name servers", "type": "ip", "targets": ["8.8.8.8"]}
EVENT = {"id": "visit-1", "ip": "1.1.1.1"}


async def _until(look: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(60):
        while not await look():
            await asyncio.sleep(0.05)


async def _ended(client: httpx.AsyncClient, path: str) -> None:
    async def look() -> bool:
        return (await client.get(path)).json()["completed_at"] is not None

    await _until(look)


async def lookups(tell: Recorder) -> None:
    """Lookups, by themselves and in bulk."""
    await tell("look_up_ip", {"ip": "8.8.8.8"})
    await tell("check_breaches", {"email": "ada@example.com"})
    await tell("look_up_email", {"email": "ada@example.com"})
    await tell("validate_email", {"email": "ada@example.com"})
    await tell("look_up_phone", {"phone": "+14159929960"})
    await tell("look_up_domain", {"domain": "example.com"})
    await tell("look_up_username", {"username": "octocat"})
    await tell("search_web", {"query": "Ada Lovelace", "limit": 3})
    await tell("search_company", {"company": "Example Bank", "limit": 2})
    await tell("search_darkweb", {"query": "example.com"})
    await tell("list_providers")
    await tell("search_companies", {"queries": ["Example Bank"]})
    await tell("search_web_in_bulk", {"queries": ["Ada Lovelace"]})
    await tell("search_domains", {"queries": ["example.com"]})
    await tell("search_ips", {"queries": ["8.8.8.8", "no address"]})
    await tell("look_up_emails", {"emails": ["ada@example.com"]})


async def jobs(tell: Recorder) -> None:
    """A job from its beginning to its end."""
    job = await tell("create_job", {"type": "ip", "targets": ["8.8.8.8", "1.1.1.1"], "name": "Visitors"})
    await _ended(tell.client, f"/api/bulk-jobs/{job['id']}")
    await tell("get_job", job_id=job["id"])
    await tell("list_jobs")
    await tell("download_job_results", job_id=job["id"], format="json")
    await tell("cancel_job", job_id=job["id"])
    await tell("delete_job", job_id=job["id"])


async def lists(tell: Recorder) -> None:
    """A list and its targets."""
    made = await tell(
        "create_list", {"name": "Name servers", "type": "ip", "targets": ["8.8.8.8", "no address"]}
    )
    await tell("list_lists")
    await tell("get_list", id=made["id"])
    await tell("change_list", {"name": "Public name servers"}, id=made["id"])
    await tell("add_targets", {"targets": ["1.1.1.1", "8.8.8.8"]}, id=made["id"])
    files = {"file": ("servers.csv", b"ip,name\n9.9.9.9,Quad9\nnobody,\n", "text/csv")}
    await tell("import_targets", files=files, id=made["id"])
    await tell("list_targets", id=made["id"])
    await tell("remove_targets", {"targets": ["8.8.8.8"]}, id=made["id"])
    await tell("delete_list", id=made["id"])


async def monitors(tell: Recorder) -> None:
    """A monitor, a run of it and what that has found."""
    body = {"name": "Name servers", "monitor_type": "ip", "frequency": "daily", "targets": ["8.8.8.8"]}
    await tell("validate_monitor", body)
    monitor = (await tell("create_monitor", body))["id"]
    await tell("list_monitors")
    await tell("get_monitor", id=monitor)
    await tell("change_monitor", {"cron": "0 9 * * MON-FRI", "timezone": "Europe/Berlin"}, id=monitor)
    await tell("pause_monitor", id=monitor)
    await tell("resume_monitor", id=monitor)
    await tell("add_monitor_targets", {"targets": ["1.1.1.1"]}, id=monitor)
    files = {"file": ("servers.csv", b"ip,name\n9.9.9.9,Quad9\nnobody,\n", "text/csv")}
    await tell("import_monitor_targets", files=files, id=monitor)
    await tell("list_monitor_targets", id=monitor)
    await tell("remove_monitor_targets", {"targets": ["1.1.1.1"]}, id=monitor)
    run = (await tell("run_monitor", id=monitor))["run_id"]
    await _ended(tell.client, f"/api/monitors/{monitor}/runs/{run}")
    await tell("list_monitor_runs", id=monitor)
    await tell("get_monitor_run", id=monitor, run_id=run)
    await tell("list_run_results", id=monitor, run_id=run)
    await tell("mark_monitor_run_seen", id=monitor, run_id=run)
    await tell("list_target_history", id=monitor, target="8.8.8.8")
    await tell("list_monitoring_runs")
    await tell("list_monitoring_results")
    await tell("list_monitoring_targets")
    await tell("cancel_monitor_run", id=monitor, run_id=run)
    await tell("delete_monitor", id=monitor)


async def workflows(tell: Recorder) -> None:
    """A workflow, its versions and what starts it."""
    await tell("list_workflow_templates")
    await tell("validate_workflow", WORKFLOW)
    made = await tell("create_workflow", WORKFLOW)
    workflow, token = made["id"], made["webhook_url"].rpartition("/")[2]
    await tell("list_workflows")
    await tell("get_workflow", workflow_id=workflow)
    await tell("change_workflow", {"description": "Tells where visitors are from"}, workflow_id=workflow)
    await tell("list_workflow_versions", workflow_id=workflow)
    await tell("get_workflow_version", workflow_id=workflow, version=1)
    await tell("get_workflow_graph", workflow_id=workflow, version=1)
    await tell("restore_workflow_version", workflow_id=workflow, version=1)
    await tell("export_workflow", workflow_id=workflow)
    await tell("test_workflow", {"input": EVENT}, workflow_id=workflow)
    await tell("run_workflow", {"input": EVENT}, workflow_id=workflow)
    await tell("run_workflow", {"input": EVENT}, workflow_id=workflow, wait=30)
    accepted = await tell("ingest", EVENT, token=token)
    await tell("ingest", EVENT, token=token, wait=30)
    await tell("get_run", run_id=accepted["run_id"])
    await tell("list_runs")
    await tell("list_approvals")
    await tell("cancel_run", run_id=accepted["run_id"])
    await tell("retry_run", {"from_step": "visitor"}, run_id=accepted["run_id"])
    many = {"filter": {"workflow_id": workflow, "status": "cancelled"}, "action": "retry"}
    forecast = await tell("change_runs", many | {"dry": True})
    action = await tell("change_runs", many | {"confirm": forecast["confirm"]})
    await tell("get_bulk_action", action_id=action["id"])
    await tell("cancel_bulk_action", action_id=action["id"])
    await tell("rotate_workflow_token", {"overlap_seconds": 3600}, workflow_id=workflow)
    await tell("list_workflow_audit", workflow_id=workflow)
    await tell("list_audit")
    await tell("delete_workflow", workflow_id=workflow)
    await _values(tell)


async def _values(tell: Recorder) -> None:
    """What a run and its steps were given and gave, one by one."""
    body = {"name": "Visitors", "steps": [EACH]}
    made = (await tell.client.post("/api/workflows", json=body)).json()
    event = {"input": {"ips": ["8.8.8.8", "1.1.1.1"]}}
    path = f"/api/workflows/{made['id']}/run"
    run = (await tell.client.post(path, json=event, params={"wait": 30})).json()["id"]
    await tell("get_run_input", run_id=run)
    await tell("get_run_output", run_id=run)
    await tell("get_step_input", run_id=run, step_id="visitor")
    await tell("get_step_output", run_id=run, step_id="visitor")
    await tell("list_step_items", run_id=run, step_id="visitor")
    await tell("get_item_output", run_id=run, step_id="visitor", item=0)


async def waits_and_files(tell: Recorder) -> None:
    """A step that waits, and the runs of a file."""
    config = {"timeout": 3600, "title": "Do you approve?", "message": "It costs 12 €."}
    steps = [{"id": "approval", "type": "wait", "config": config}]
    ask = {"name": "Ask", "steps": steps, "execution": "workflow"}
    waiting = (await tell.client.post("/api/workflows", json=ask)).json()
    started = (await tell.client.post(f"/api/workflows/{waiting['id']}/run", json={"input": {}})).json()
    path = f"/api/workflows/runs/{started['run_id']}"

    async def has_timer() -> bool:
        carrier = (await tell.client.get(f"{path}/carrier")).json()
        return bool(carrier["timers"] and carrier["progress"] and carrier["workflow_status"])

    await _until(has_timer)
    await tell("get_run_carrier", run_id=started["run_id"])
    run = (await tell.client.get(path)).json()
    token = run["resume_urls"]["approval"].rpartition("/")[2]
    await tell("get_resume_page", headers={"Accept": "application/json"}, token=token)
    await tell("resume", {"approved": True}, token=token)
    body = {"name": "Rows", "trigger": {"type": "file_upload"}}
    rows = (await tell.client.post("/api/workflows", json=body)).json()
    files = {"file": ("visitors.csv", b"ip\n8.8.8.8\n1.1.1.1\n", "text/csv")}
    batch = await tell("upload_file", files=files, workflow_id=rows["id"])
    await tell("get_batch", batch_id=batch["batch_id"])
    await tell("cancel_batch", batch_id=batch["batch_id"])


async def webhooks(tell: Recorder, receiver: str) -> None:
    """Secrets, a webhook and its deliveries."""
    secret = {"name": "CRM_TOKEN", "value": "a value that never comes back"}
    await tell("store_secret", secret)
    await tell("store_secret", secret)
    await tell("list_secrets")
    await tell("delete_secret", name="CRM_TOKEN")
    await tell.client.post("/api/workflows/secrets", json=secret)
    await tell("delete_secret_by_body", {"name": "CRM_TOKEN"})
    made = await tell("create_webhook", {"url": HOOK, "events": ["monitor.*"]})
    await tell("list_webhooks")
    await tell("get_webhook", webhook_id=made["id"])
    await tell("change_webhook", {"description": "To the chat"}, webhook_id=made["id"])
    await tell("replace_webhook", {"id": made["id"], "events": ["*"]})
    await tell("rotate_webhook_secret", {"overlap_seconds": 3600}, webhook_id=made["id"])
    await tell.client.patch(f"/api/webhooks/{made['id']}", json={"url": receiver})
    delivery = await tell("test_webhook", {"id": made["id"]})
    await tell("list_event_types")
    await tell("list_deliveries")
    await tell("get_delivery", delivery_id=delivery["id"])
    await tell("resend_delivery", delivery_id=delivery["id"])
    await tell("recover_deliveries", {"since": "2025-11-01T00:00:00Z"}, webhook_id=made["id"])
    await tell("delete_webhook", webhook_id=made["id"])
    made = (await tell.client.post("/api/webhooks", json={"url": HOOK, "events": ["*"]})).json()
    await tell("delete_webhook_by_body", {"id": made["id"]})


async def chat(tell: Recorder, host: str) -> None:
    """The assistant: a consent, and a conversation in which a call is approved."""
    await tell("agree_to_chat", {"host": host}, session=True)
    await tell("get_chat")
    made = (await tell("create_conversation", {"credit_budget": 20}))["id"]
    path = f"/api/chat/conversations/{made}"
    sent = await tell("send_message", {"text": "Keep our name servers as a list"}, id=made)
    cards: list[dict[str, Any]] = []

    async def look() -> bool:
        events = f"{path}/messages/{sent['id']}/events"
        async with tell.client.stream("GET", events) as response:
            named = ""
            async for line in response.aiter_lines():
                named = line.removeprefix("event: ") if line.startswith("event: ") else named
                if named == "approval" and line.startswith("data: "):
                    cards.append(json.loads(line.removeprefix("data: ")))
                    return True
        return False

    await _until(look)
    decision = {"decision": "approve", "arguments_hash": cards[0]["arguments_hash"]}
    await tell("decide_on_approval", decision, id=made, approval_id=cards[0]["id"])
    await _ended_in_chat(tell.client, path)
    await tell("cancel_message", id=made, message_id=sent["id"])
    await tell("get_conversation", id=made)
    await tell("list_conversations")
    await tell("delete_conversation", id=made)
    await tell("withdraw_from_chat", session=True)


async def _ended_in_chat(client: httpx.AsyncClient, path: str) -> None:
    async def look() -> bool:
        return (await client.get(path)).json()["messages"][0]["completed_at"] is not None

    await _until(look)


async def account(tell: Recorder) -> None:
    """Credits, keys, sessions, and the service itself."""
    await tell("set_credit_settings", {"low_balance_threshold": 100})
    wanted = {"enabled": True, "threshold": 100, "amount": 1000, "monthly_cap": 10000}
    await tell("set_auto_topup", wanted, session=True)
    await tell("get_credits")
    await tell("get_ledger")
    for revoke in ("delete_key", "delete_key_by_query"):
        key = await tell("create_key", {"name": "CI", "scopes": ["lookups"]})
        await tell("list_keys")
        await tell(revoke, id=key["id"])
    login = {"email": "ada@example.com", "password": "correct horse battery"}
    await tell("register", {**login, "name": "Ada"}, session=False)
    token = (await tell("login", login, session=False))["token"]
    ada = tell.whose({"Authorization": f"Bearer {token}"})
    await ada("me")
    await ada("list_sessions")
    await ada("get_stats", window="2h", bucket="1h")
    await tell("list_activity", limit=1)
    changed = {"current_password": login["password"], "new_password": "another horse, another battery"}
    await ada("change_password", changed)
    await ada("logout")
    await tell("get_limits")
    await tell("get_version")
    for name in ("get_index", "get_protected_resource", "get_protected_mcp_server"):
        await tell(name, session=False, headers={"Accept": "application/json"})
    await tell("healthz")
    await tell("readyz")
    await tell("get_error_page", code="insufficient_credits", headers={"Accept": "application/json"})
