"""The data of a workflow that accepting a run needs: one small query on the busiest path."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, LiteralString
from uuid import UUID

from database import Connection
from language.definition import Definition
from language.triggers import Trigger
from models.automations.automations import Status
from models.automations.ingest_tokens import hash_token
from models.errors import Conflict, NotFound
from models.inputs.inputs import InputSchema
from models.priorities import BULK, INTERACTIVE

# A version never changes, so it is read once; one with a large input_schema takes some 100 KB.
_REMEMBERED = 4096


@dataclass(frozen=True)
class TriggerSpec:
    """The requirements of a version of a workflow for the events that start it.

    Attributes:
        skips: whether events are skipped, without a run, while the limit of runs under way is reached.
        search: the paths to the values of an event by which its run is found.
    """

    trigger: Trigger
    reads_request: bool
    input_schema: InputSchema | None
    skips: bool = False
    name: str = ""
    search: tuple[str, ...] = ()


@dataclass(frozen=True)
class RunTarget:
    """A workflow for which a run can be accepted.

    Attributes:
        token_hash: the hash of its ingest token, if it was found by that: accepting a run then checks that
            the workflow still has it, and is as it was read.
    """

    automation_id: UUID
    account_id: UUID
    status: Status
    version: int
    priority: int
    gate: UUID
    own: bool
    spec: TriggerSpec
    token_hash: bytes | None = None

    @property
    def trigger(self) -> Trigger:
        """The trigger of the workflow."""
        return self.spec.trigger

    @property
    def reads_request(self) -> bool:
        """Return whether expressions of the workflow read the headers or query of the triggering request."""
        return self.spec.reads_request


_HEAD = ("automation_id", "account_id", "status", "version", "priority", "gate", "own")
_COLUMNS: LiteralString = (
    "a.id as automation_id, a.account_id, a.status, a.version, %(priority)s::int as priority,"
    " case when a.concurrency_limit is null then '00000000-0000-0000-0000-000000000000'::uuid else a.id end"
    " as gate, coalesce(a.execution, '') = 'workflow' as own"
)
_TARGET: LiteralString = f"select {_COLUMNS} from automations a where a.deleted_at is null"
_BY_TOKEN: LiteralString = (
    f"select {_COLUMNS}, a.ingest_token_hash as token_hash from automations a"
    " where a.ingest_token_hash = any(%(hashes)s) and a.deleted_at is null"
)
_BY_FORMER_TOKEN: LiteralString = (
    f"select {_COLUMNS}, t.token_hash from former_ingest_tokens t"
    f" join automations a on a.id = t.automation_id"
    " where t.token_hash = any(%(hashes)s) and t.ends_at > now() and a.deleted_at is null"
)


async def ingest_targets(connection: Connection, tokens: Sequence[str]) -> list[RunTarget | Exception]:
    """Return the workflows of ingest tokens, in the order of the tokens.

    A failure takes the place of its workflow: NotFound for an unknown, revoked or malformed token alike;
    Conflict if the workflow is not active.
    """
    hashes = [hash_token(token) for token in tokens]
    targets: dict[bytes, RunTarget | Exception] = {}
    # As one statement, this would take twice as long to plan for every event. The second query finds a token
    # that was replaced between the two.
    queries: tuple[tuple[LiteralString, bool], ...] = ((_BY_TOKEN, True), (_BY_FORMER_TOKEN, False))
    for query, is_current in queries:
        if missing := [digest for digest in dict.fromkeys(hashes) if digest not in targets]:
            cursor = await connection.execute(query, {"priority": INTERACTIVE, "hashes": missing})
            for row in await cursor.fetchall():
                digest = bytes(row["token_hash"])
                try:
                    target = await _target(connection, row)
                    targets[digest] = replace(target, token_hash=digest) if is_current else target
                except Conflict as error:
                    targets[digest] = error
    return [targets.get(digest) or NotFound("workflow") for digest in hashes]


async def run_target(connection: Connection, account_id: UUID, automation_id: UUID) -> RunTarget:
    """Return the account's workflow, for a run that a person starts.

    Raises:
        NotFound: the workflow is unknown, or another account's.
        Conflict: the workflow is not active.
    """
    return await _target_at(connection, INTERACTIVE, account_id, automation_id)


async def event_target(connection: Connection, account_id: UUID, automation_id: UUID) -> RunTarget:
    """Return the account's workflow, for a run that an event or a schedule starts; as `run_target`."""
    return await _target_at(connection, BULK, account_id, automation_id)


async def _target_at(
    connection: Connection, priority: int, account_id: UUID, automation_id: UUID
) -> RunTarget:
    cursor = await connection.execute(
        _TARGET + " and a.account_id = %(account)s and a.id = %(id)s",
        {"priority": priority, "account": account_id, "id": automation_id},
    )
    return await _target(connection, await cursor.fetchone())


async def _target(connection: Connection, row: dict[str, Any] | None) -> RunTarget:
    if row is None:
        raise NotFound("workflow")
    if row["status"] != "active":
        raise Conflict("workflow_not_active", f"The workflow is {row['status']}; activate it first.")
    entry = await load_trigger_spec(connection, row["automation_id"], row["version"])
    return RunTarget(**{name: row[name] for name in _HEAD}, spec=entry)


_entries: dict[tuple[UUID, int], TriggerSpec] = {}


async def load_trigger_spec(connection: Connection, automation_id: UUID, version: int) -> TriggerSpec:
    """Load the requirements of a version of a workflow, which must exist, for its events."""
    known = _entries.get((automation_id, version))
    if known is not None:
        return known
    cursor = await connection.execute(
        "select definition->'name' as name, definition->'trigger' as trigger,"
        " definition->'input_schema' as input_schema, definition->'concurrency' as concurrency,"
        " definition->'search' as search, reads_request"
        " from automation_versions where automation_id = %s and version = %s",
        (automation_id, version),
    )
    row = await cursor.fetchone()
    assert row is not None
    names = ("name", "trigger", "input_schema", "concurrency", "search")
    given = {name: row[name] for name in names if row[name] is not None}
    definition = Definition.model_validate(given)
    schema = None if definition.input_schema is None else InputSchema(definition.input_schema)
    skips = definition.concurrency is not None and definition.concurrency.on_limit == "skip"
    entry = TriggerSpec(
        definition.trigger, row["reads_request"], schema, skips, definition.name, tuple(definition.search)
    )
    while len(_entries) >= _REMEMBERED:
        del _entries[next(iter(_entries))]
    _entries[automation_id, version] = entry
    return entry
