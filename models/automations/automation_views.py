"""The workflow object of the API, alone and in lists: read with its schedule and the counts of its runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString
from uuid import UUID

import pydantic
from pydantic import Field

from database import Connection
from language import responding
from language.definition import Execution, Status
from language.findings import Finding, escape_name
from models.automations import ingest_tokens
from models.errors import NotFound
from models.run_values import ROOM, Omitted
from models.views import View
from sealing import Keyring


class WorkflowView(View):
    """The workflow object of the API."""

    id: UUID = Field(description="The workflow's id.")
    name: str = Field(description="What it is called.")
    description: str = Field(description="What it is for; empty where nobody has said.")
    status: Status = Field(description="Only an active workflow starts runs.")
    trigger: dict[str, Any] = Field(description="What starts its runs, as it was saved.")
    steps: list[dict[str, Any]] = Field(description="What a run does, as it was saved.")
    input_schema: dict[str, Any] | None = Field(
        description="A JSON Schema that the input of every run must meet; null for none."
    )
    concurrency: dict[str, Any] | None = Field(
        description="How many runs of it there may be at a time, and what becomes of others; null for any."
    )
    on_failure: dict[str, Any] | None = Field(
        description="The workflow that runs when a run of it has failed; null for none."
    )
    search: list[str] = Field(description="Paths into the event: runs are found by the values there.")
    agents: bool = Field(description="Whether agents (MCP) may see it and use it.")
    execution: Execution | None = Field(
        description="What takes its runs forward: `workflow`, `shift` or `auto`; null for what the"
        " installation says."
    )
    version: int = Field(description='The number of the current version; `If-Match` takes it as `"v3"`.')
    webhook_url: str = Field(description="Its ingest URL: who has it can start runs.")
    created_at: datetime = Field(description="When it was made.")
    updated_at: datetime = Field(description="When it was last changed.")
    last_run_at: datetime | None = Field(
        default=None, description="When its latest run was accepted; null for never."
    )
    runs_total: int = Field(default=0, description="How many runs were accepted.")
    next_run_at: datetime | None = Field(
        default=None, description="When its schedule has it run next; null unless it is active and has one."
    )
    next_runs: list[datetime] = Field(
        default_factory=list[datetime],
        description="The next five times of its schedule; empty unless it is active and has one.",
    )
    warnings: list[dict[str, str]] | None = Field(
        default=None,
        description="What is doubtful about it, after it was saved; else what it says and no longer does, or"
        " null.",
    )
    omitted: Omitted | None = pydantic.Field(
        default_factory=lambda: None,
        exclude_if=lambda omitted: omitted is None,
        description="In a list that has no room for its definition, else absent: `steps` is empty then,"
        " `input_schema` null, and `trigger` the type alone. The URL has all of it.",
    )


_VIEW: tuple[LiteralString, LiteralString] = (
    "select a.*, ",
    " as definition, b.last_at as last_run_at, coalesce(b.runs, 0)::bigint as runs_total, s.next_run_at,"
    " coalesce(s.next_runs, '{}') as next_runs"
    " from automations a"
    " join automation_versions v on v.automation_id = a.id and v.version = a.version"
    " left join automation_schedules s on s.automation_id = a.id"
    " left join run_starts b on b.automation_id = a.id",
)


_CHOSEN: LiteralString = (
    " where a.account_id = %(account_id)s and a.deleted_at is null"
    " and (%(status)s::text is null or a.status = %(status)s)"
)
_OF_AGENTS: LiteralString = (
    " and (select coalesce((definition->>'agents')::boolean, true) from automation_versions"
    " where automation_id = a.id and version = a.version) = %(agents)s"
)


# Without parts that may be large: the list has no room for them.
_OUTLINE: LiteralString = (
    "json_build_object('trigger', json_build_object('type', v.definition->'trigger'->'type'),"
    " 'concurrency', v.definition->'concurrency', 'on_failure', v.definition->'on_failure',"
    " 'search', coalesce(v.definition->'search', '[]'),"
    " 'agents', coalesce(v.definition->'agents', 'true'), 'omitted_bytes', m.bytes)"
)
# The page is chosen before anything is measured; then the smallest definitions get room first.
_MEASURED: tuple[LiteralString, LiteralString] = (
    ", (select id, bytes, sum(bytes) over (order by bytes, id) as upto from (select c.id, ("
    "  select octet_length(definition::text) from automation_versions"
    "  where automation_id = c.id and version = c.version) as bytes from (select a.id, a.version"
    "  from automations a",
    " order by a.id desc limit %(limit)s offset %(offset)s) c) d) m where m.id = a.id order by a.id desc",
)


async def get(
    connection: Connection, keyring: Keyring, account_id: UUID, automation_id: UUID, address: str
) -> WorkflowView:
    """Return the workflow object.

    Raises:
        NotFound: the workflow is unknown, or another account's.
    """
    cursor = await connection.execute(
        _VIEW[0]
        + "v.definition"
        + _VIEW[1]
        + " where a.account_id = %s and a.deleted_at is null and a.id = %s",
        (account_id, automation_id),
    )
    row = await cursor.fetchone()
    if row is None:
        raise NotFound("workflow")
    return _view(row, keyring, address)


@dataclass(frozen=True, slots=True)
class WorkflowQuery:
    """A page of a list of workflows.

    Attributes:
        status: only workflows with this status.
        agents: only workflows that agents may see (True), or may not (False).
        page: the number of the page, from 1.
        limit: the highest number of workflows on it.
    """

    status: Status | None = None
    agents: bool | None = None
    page: int = 1
    limit: int = 20


async def list_page(
    connection: Connection, keyring: Keyring, account_id: UUID, address: str, query: WorkflowQuery
) -> tuple[list[WorkflowView], int]:
    """Return a page of the account's workflows, newest first, and their total number.

    Definitions that do not fit into the page are `Omitted`.

    Args:
        connection: inside or outside a transaction.
        keyring: opens their ingest tokens.
        account_id: the owner.
        address: the service's address, for their ingest URLs.
        query: the workflows to list.
    """
    wanted = {
        "account_id": account_id, "status": query.status, "agents": query.agents,
        "limit": query.limit, "offset": (query.page - 1) * query.limit, "room": ROOM,
    }  # fmt: skip
    chosen = _CHOSEN + (_OF_AGENTS if query.agents is not None else "")
    fitting: LiteralString = "case when m.upto > %(room)s then " + _OUTLINE + " else v.definition end"
    view = _VIEW[0] + fitting + _VIEW[1]
    cursor = await connection.execute(view + _MEASURED[0] + chosen + _MEASURED[1], wanted)
    views = [_view(row, keyring, address) for row in await cursor.fetchall()]
    cursor = await connection.execute("select count(*)::int as total from automations a" + chosen, wanted)
    row = await cursor.fetchone()
    return views, row["total"] if row else 0


def _view(row: dict[str, Any], keyring: Keyring, address: str) -> WorkflowView:
    definition: dict[str, Any] = row["definition"]
    shown: dict[str, Any] = {name: row[name] for name in row if name in WorkflowView.model_fields}
    shown["description"] = row["description"] or ""
    return WorkflowView(
        **shown,
        trigger=definition.get("trigger", {"type": "manual"}),
        steps=definition.get("steps", []),
        input_schema=definition.get("input_schema"),
        concurrency=definition.get("concurrency"),
        on_failure=definition.get("on_failure"),
        search=definition.get("search", []),
        agents=definition.get("agents", True),
        omitted=_omit_definition(row["id"], definition.get("omitted_bytes")),
        webhook_url=ingest_tokens.url_of(keyring, row["id"], row["ingest_token_sealed"], address),
        warnings=_warnings(definition) or None,
    )


def _warnings(definition: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return warnings for settings of an earlier release that no longer have an effect."""
    trigger: Any = definition.get("trigger") or {}
    respond: Any = trigger.get("respond") or {}
    headers: dict[str, str] = respond.get("headers") or {}
    message = "Answers are no longer sent with this header: leave it out, or call it X-Reply-…"
    return [
        Finding(f"/trigger/respond/headers/{escape_name(name)}", "header_left_out", message)._asdict()
        for name in responding.refused_headers(headers)
    ]


def _omit_definition(automation_id: UUID, size: int | None) -> Omitted | None:
    return Omitted(bytes=size, url=f"/api/workflows/{automation_id}") if size else None
