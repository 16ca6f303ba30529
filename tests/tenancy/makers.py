"""Things of an account, made through the API: each function returns the id that paths take."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from uuid import uuid4

from models.chat import approvals
from tests.api_server import Person
from tests.event_streams import streaming

Maker = Callable[[Person], Awaitable[str]]


async def a_key(owner: Person) -> str:
    return (await owner.session.post("/api/keys", json={"name": "theirs"})).json()["id"]


async def a_workflow(owner: Person) -> str:
    return (await owner.session.post("/api/workflows", json={"name": "theirs"})).json()["id"]


async def a_file_workflow(owner: Person) -> str:
    wanted = {"name": "theirs", "trigger": {"type": "file_upload"}}
    return (await owner.session.post("/api/workflows", json=wanted)).json()["id"]


async def a_batch(owner: Person) -> str:
    path = f"/api/workflows/{await a_file_workflow(owner)}/upload"
    return (await owner.session.post(path, files={"file": ("a.csv", "a\n1\n")})).json()["batch_id"]


async def a_run(owner: Person) -> str:
    workflow = await a_workflow(owner)
    return (await owner.session.post(f"/api/workflows/{workflow}/run", json={})).json()["run_id"]


async def a_run_of_steps(owner: Person) -> str:
    step = {"id": "a", "type": "transform", "config": {"expression": "'x'"}}
    workflow = await owner.session.post("/api/workflows", json={"name": "theirs", "steps": [step]})
    return (await owner.session.post(f"/api/workflows/{workflow.json()['id']}/run", json={})).json()["run_id"]


async def an_ended_run(owner: Person) -> str:
    run = await a_run(owner)
    await owner.session.post(f"/api/workflows/runs/{run}/cancel")
    return run


async def a_bulk_action(owner: Person) -> str:
    body = {"filter": {"workflow_id": await a_workflow(owner)}, "action": "cancel"}
    told = (await owner.session.post("/api/workflows/runs/bulk", json=body | {"dry": True})).json()
    confirmed = body | {"confirm": told["confirm"]}
    return (await owner.session.post("/api/workflows/runs/bulk", json=confirmed)).json()["id"]


CARD = {"name": "theirs", "type": "ip", "targets": ["8.8.8.8"]}
"""The arguments of the call that the model makes when it is asked for a list."""
HASH = approvals.hash_arguments("create_contact_list", CARD).hex()


async def a_conversation(owner: Person) -> str:
    host = (await owner.session.get("/api/chat")).json()["host"]
    await owner.session.put("/api/chat/consent", json={"host": host})
    return (await owner.session.post("/api/chat/conversations", json={})).json()["id"]


async def a_message(owner: Person) -> str:
    path = f"/api/chat/conversations/{await a_conversation(owner)}/messages"
    message = (await owner.session.post(path, json={"text": "Hello"})).json()["id"]
    await owner.session.get(f"{path}/{message}/events")  # to its end
    return message


async def an_approval(owner: Person) -> str:
    path = f"/api/chat/conversations/{await a_conversation(owner)}/messages"
    message = (await owner.session.post(path, json={"text": "Make a list"})).json()["id"]
    async with streaming(owner.session, f"{path}/{message}/events") as stream:
        while event := await stream.next():
            if event.name == "approval":
                return str(event.data["id"])
    raise AssertionError("there is no approval")


async def conversation_of(owner: Person, _: str) -> str:
    """The conversation of a message or an approval: the only one."""
    [found] = (await owner.session.get("/api/chat/conversations")).json()["conversations"]
    return found["id"]


async def a_secret(owner: Person) -> str:
    secret = {"name": f"S{uuid4().hex}", "value": f"theirs-{uuid4()}"}
    return (await owner.session.post("/api/workflows/secrets", json=secret)).json()["name"]


async def a_webhook(owner: Person) -> str:
    # A name that leads to this machine: nothing is ever sent there.
    wanted = {"url": f"http://localhost:8080/{uuid4()}", "events": ["*"]}
    return (await owner.session.post("/api/webhooks", json=wanted)).json()["id"]


async def a_delivery(owner: Person) -> str:
    webhook = await a_webhook(owner)
    return (await owner.session.post("/api/webhooks/test", json={"id": webhook})).json()["id"]


async def a_list(owner: Person) -> str:
    return (await owner.session.post("/api/lists", json={"name": "theirs"})).json()["id"]


async def a_monitor(owner: Person) -> str:
    wanted = {"name": "theirs", "targets": ["ada@example.com"]}
    return (await owner.session.post("/api/monitors", json=wanted)).json()["id"]


async def a_monitor_run(owner: Person) -> str:
    return (await owner.session.post(f"/api/monitors/{await a_monitor(owner)}/run")).json()["run_id"]


async def monitor_of(owner: Person, run_id: str) -> str:
    """The monitor that a run is of."""
    runs = (await owner.session.get("/api/monitoring/runs")).json()["runs"]
    return next(run["monitor_id"] for run in runs if run["id"] == run_id)


async def a_job(owner: Person) -> str:
    wanted = {"name": "theirs", "type": "ip", "targets": ["8.8.8.8"]}
    return (await owner.session.post("/api/bulk-jobs", json=wanted)).json()["id"]


async def an_ended_job(owner: Person) -> str:
    job = await a_job(owner)
    await owner.session.post(f"/api/bulk-jobs/{job}/cancel")
    return job
