"""Another account's id answers exactly as an id that nobody has, on every route that takes one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.api_server import Api, Person, openapi_document
from tests.tenancy.makers import (
    HASH,
    Maker,
    a_batch,
    a_bulk_action,
    a_conversation,
    a_delivery,
    a_file_workflow,
    a_job,
    a_key,
    a_list,
    a_message,
    a_monitor,
    a_monitor_run,
    a_run,
    a_run_of_steps,
    a_secret,
    a_webhook,
    a_workflow,
    an_approval,
    an_ended_job,
    an_ended_run,
    conversation_of,
    monitor_of,
)


@dataclass(frozen=True)
class Case:
    """How to make the thing whose id the route takes, and what else path and request need.

    A list filtered by an id that the account does not have is empty, and answers 200. Where `of` is given,
    the thing belongs to another, whose id the path takes as `id`.
    """

    make: Maker
    json: Any = None
    files: Any = None
    query: str | None = None
    in_body: str | None = None
    other: dict[str, str] = field(default_factory=dict[str, str])
    status: int = 404
    of: Callable[[Person, str], Awaitable[str]] | None = None


_STEP = {"step_id": "a"}
# Every route with an id in its path or in a query parameter, and those with one in a field of the body.
MATRIX = {
    "DELETE /api/keys": Case(a_key, query="id"),
    "DELETE /api/keys/{id}": Case(a_key),
    "GET /api/workflows/{workflow_id}": Case(a_workflow),
    "PUT /api/workflows/{workflow_id}": Case(a_workflow, json={"name": "changed"}),
    "PATCH /api/workflows/{workflow_id}": Case(a_workflow, json={"name": "changed"}),
    "DELETE /api/workflows/{workflow_id}": Case(a_workflow),
    "GET /api/workflows/{workflow_id}/audit": Case(a_workflow),
    "GET /api/workflows/{workflow_id}/export": Case(a_workflow),
    "GET /api/workflows/{workflow_id}/versions": Case(a_workflow),
    "GET /api/workflows/{workflow_id}/versions/{version}": Case(a_workflow, other={"version": "1"}),
    "GET /api/workflows/{workflow_id}/versions/{version}/graph": Case(a_workflow, other={"version": "1"}),
    "POST /api/workflows/{workflow_id}/versions/{version}/restore": Case(a_workflow, other={"version": "1"}),
    "POST /api/workflows/{workflow_id}/run": Case(a_workflow, json={}),
    "POST /api/workflows/{workflow_id}/upload": Case(a_file_workflow, files={"file": ("a.csv", "a\n1\n")}),
    "GET /api/workflows/batches/{batch_id}": Case(a_batch),
    "POST /api/workflows/batches/{batch_id}/cancel": Case(a_batch),
    "POST /api/workflows/{workflow_id}/rotate-token": Case(a_workflow, json={}),
    "DELETE /api/workflows/secrets": Case(a_secret, in_body="name"),
    "DELETE /api/workflows/secrets/{name}": Case(a_secret),
    "POST /api/workflows/{workflow_id}/test": Case(a_workflow, json={}),
    "GET /api/workflows/runs": Case(a_workflow, query="workflow_id", status=200),
    "GET /api/workflows/runs?limit=1": Case(a_batch, query="batch_id", status=200),
    "GET /api/workflows/runs/{run_id}": Case(a_run),
    "GET /api/workflows/runs/{run_id}/carrier": Case(a_run),
    "GET /api/workflows/runs/{run_id}/events": Case(an_ended_run),
    "GET /api/workflows/runs/{run_id}/input": Case(a_run),
    "GET /api/workflows/runs/{run_id}/output": Case(a_run),
    "GET /api/workflows/runs/{run_id}/steps/{step_id}/input": Case(a_run_of_steps, other=_STEP),
    "GET /api/workflows/runs/{run_id}/steps/{step_id}/output": Case(a_run_of_steps, other=_STEP),
    "GET /api/workflows/runs/{run_id}/steps/{step_id}/items": Case(a_run_of_steps, other=_STEP),
    "GET /api/workflows/runs/{run_id}/steps/{step_id}/items/{item}/output": Case(
        a_run_of_steps, other=_STEP | {"item": "0"}
    ),
    "POST /api/workflows/runs/{run_id}/cancel": Case(a_run),
    "POST /api/workflows/runs/{run_id}/retry": Case(an_ended_run, json={}),
    "GET /api/bulk-actions/{action_id}": Case(a_bulk_action),
    "POST /api/bulk-actions/{action_id}/cancel": Case(a_bulk_action),
    "GET /api/chat/conversations/{id}": Case(a_conversation),
    "DELETE /api/chat/conversations/{id}": Case(a_conversation),
    "POST /api/chat/conversations/{id}/messages": Case(a_conversation, json={"text": "Hello"}),
    "GET /api/chat/conversations/{id}/messages/{message_id}/events": Case(a_message, of=conversation_of),
    "POST /api/chat/conversations/{id}/messages/{message_id}/cancel": Case(a_message, of=conversation_of),
    "POST /api/chat/conversations/{id}/approvals/{approval_id}": Case(
        an_approval, json={"decision": "deny", "arguments_hash": HASH}, of=conversation_of
    ),
    "GET /api/bulk-jobs/{job_id}": Case(a_job),
    "GET /api/bulk-jobs/{job_id}/events": Case(an_ended_job),
    "GET /api/bulk-jobs/{job_id}/results": Case(an_ended_job),
    "POST /api/bulk-jobs/{job_id}/cancel": Case(a_job),
    "DELETE /api/bulk-jobs/{job_id}": Case(a_job),
    "PUT /api/webhooks": Case(a_webhook, in_body="id"),
    "DELETE /api/webhooks": Case(a_webhook, query="id"),
    "POST /api/webhooks/test": Case(a_webhook, in_body="id"),
    "GET /api/webhooks/{webhook_id}": Case(a_webhook),
    "PATCH /api/webhooks/{webhook_id}": Case(a_webhook, json={"description": "changed"}),
    "DELETE /api/webhooks/{webhook_id}": Case(a_webhook),
    "POST /api/webhooks/{webhook_id}/rotate-secret": Case(a_webhook),
    "POST /api/webhooks/{webhook_id}/recover": Case(a_webhook, json={"since": "2026-11-01T00:00:00Z"}),
    "GET /api/webhooks/deliveries": Case(a_webhook, query="webhook_id", status=200),
    "GET /api/webhooks/deliveries/{delivery_id}": Case(a_delivery),
    "POST /api/webhooks/deliveries/{delivery_id}/resend": Case(a_delivery),
}
_OF_LISTS = {"GET": None, "PATCH": {"name": "changed"}, "DELETE": None}
_OF_TARGETS = {"GET": None, "POST": ["ada@example.com"], "DELETE": ["ada@example.com"]}
for _list in ("/api/lists/{id}", "/api/agent/lists/{id}"):
    for _path, _bodies in (("", _OF_LISTS), ("/emails", _OF_TARGETS), ("/targets", _OF_TARGETS)):
        MATRIX.update(
            {f"{method} {_list}{_path}": Case(a_list, json=body) for method, body in _bodies.items()}
        )
for _mount, _makes in (("lists", a_list), ("monitors", a_monitor)):
    for _prefix in ("/api", "/api/agent"):
        _name = f"POST {_prefix}/{_mount}/{{id}}/targets/import"
        MATRIX[_name] = Case(_makes, files={"file": ("a.csv", "email\nada@example.com\n")})
_OF_MONITORS: dict[str, Any] = {
    "GET ": None, "PUT ": {"name": "changed"}, "PATCH ": {"name": "changed"}, "DELETE ": None,
    "POST /pause": None, "POST /resume": None, "POST /run": None, "GET /runs": None, "GET /targets": None,
    "POST /targets": ["bob@example.com"], "DELETE /targets": ["ada@example.com"],
    "GET /targets/history?target=ada@example.com": None,
}  # fmt: skip
_OF_MONITOR_RUNS = ("GET ", "POST /cancel", "POST /seen", "GET /results", "GET /results/download")
for _monitor in ("/api/monitors/{id}", "/api/agent/monitors/{id}"):
    for _name, _body in _OF_MONITORS.items():
        _method, _path = _name.split(" ")
        MATRIX[f"{_method} {_monitor}{_path}"] = Case(a_monitor, json=_body)
    for _name in _OF_MONITOR_RUNS:
        _method, _path = _name.split(" ")
        MATRIX[f"{_method} {_monitor}/runs/{{run_id}}{_path}"] = Case(a_monitor_run, of=monitor_of)
for _prefix in ("/api", "/api/agent"):
    MATRIX[f"GET {_prefix}/monitoring/results"] = Case(a_monitor, query="monitor_id", status=200)
# Ids that are not an account's: tokens of ingest and resuming are credentials, error codes and pages for all.
EXEMPT = {
    "POST /api/workflows/ingest/{token}", "POST /api/workflows/resume/{token}",
    "GET /api/workflows/resume/{token}", "POST /api/workflows/resume/{token}/form", "GET /errors/{code}",
    "GET /docs/{page}.md",
}  # fmt: skip

# No key may use it; tests/dashboard/test_sign_in.py has it with the session of another account.
OF_SESSIONS = {"DELETE /api/auth/sessions/{session_id}"}


def operations() -> dict[str, dict[str, Any]]:
    paths: dict[str, Any] = openapi_document()["paths"]
    return {
        f"{method.upper()} {path}": operation
        for path, methods in paths.items()
        for method, operation in methods.items()
    }


def takes_an_id(name: str, operation: dict[str, Any]) -> bool:
    parameters = operation.get("parameters", [])
    return any(p["in"] == "path" or p["name"] == "id" or p["name"].endswith("_id") for p in parameters)


def test_every_route_that_takes_an_id_is_in_the_matrix() -> None:
    taking = {name for name, operation in operations().items() if takes_an_id(name, operation)}
    in_bodies = {name for name, case in MATRIX.items() if case.in_body}
    assert taking == {name.partition("?")[0] for name in MATRIX.keys() - in_bodies} | EXEMPT | OF_SESSIONS


def test_every_route_needs_a_credential_but_those_that_are_public() -> None:
    public = {name for name, operation in operations().items() if not operation.get("security")}
    assert public == EXEMPT | {
        "POST /api/auth/register", "POST /api/auth/login", "GET /healthz", "GET /readyz", "GET /metrics",
        "GET /", "GET /auth.md", "GET /llms.txt", "GET /docs/workflow.schema.json",
        "GET /.well-known/security.txt",
        "GET /.well-known/oauth-protected-resource", "GET /.well-known/oauth-protected-resource/mcp",
    }  # fmt: skip


async def ask(client: httpx.AsyncClient, name: str, case: Case, id: str) -> httpx.Response:
    method, path = name.split(" ")
    path = path.format_map(defaultdict(lambda: id, case.other))
    query = {case.query: id} if case.query else None
    body = {case.in_body: id} if case.in_body else case.json
    return await client.request(method, path, params=query, json=body, files=case.files)


def shown(response: httpx.Response, id: str) -> tuple[int, str, set[str]]:
    """Return what a client can tell answers apart by, but for what differs from request to request."""
    text = response.text.replace(id, "ID").replace(response.headers["x-request-id"], "REQUEST")
    return response.status_code, text, set(response.headers)


@pytest.mark.parametrize("name", MATRIX)
async def test_anothers_id_answers_as_nobodys(api: Api, name: str) -> None:
    case = MATRIX[name]
    owner, stranger = await api.person(credits=10), await api.person()
    theirs = await case.make(owner)
    if case.of is not None:
        case = replace(case, other={"id": await case.of(owner, theirs)})
    nobodys, malformed = str(uuid4()), "not-an-id"
    answers = [await ask(stranger.key, name, case, id) for id in (theirs, nobodys, malformed)]
    seen = [shown(answer, id) for answer, id in zip(answers, (theirs, nobodys, malformed), strict=True)]
    assert seen[0] == seen[1] == seen[2]
    assert answers[0].status_code == case.status
    assert (await ask(owner.key, name, case, theirs)).is_success, "the stranger's request did nothing to it"


@pytest.mark.parametrize("name", MATRIX)
async def test_without_a_credential_an_id_answers_401(api: Api, name: str) -> None:
    assert (await ask(api.http, name, MATRIX[name], str(uuid4()))).status_code == 401


async def test_listings_show_nothing_of_another_account(api: Api) -> None:
    owner, stranger = await api.person(credits=77), await api.person()
    makers = (
        a_key, a_list, a_monitor, a_monitor_run, a_workflow, a_run, a_batch, a_secret, a_webhook, a_delivery,
        a_job,
    )  # fmt: skip
    ids = [await make(owner) for make in makers]
    listings = [name for name in operations() if name.startswith("GET /api/")]
    for name in listings:
        path = name.split(" ")[1]
        if "{" not in path and path != "/api/stream":  # which has no end
            text = (await stranger.key.get(path)).text
            assert not [id for id in (*ids, str(owner.account.id), owner.account.email) if id in text], name
