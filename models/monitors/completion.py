"""The end of a monitor's run: its credits are settled and its events emitted, once, by the first caller."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, LiteralString, NamedTuple
from uuid import UUID

import orjson

from database import Connection
from metrics import Tally
from models.credits import credits, ledger
from models.credits.credits import Booking
from models.errors import NotFound
from models.events import event_triggers, events
from models.events.event_data import (
    ChangedTarget,
    EventData,
    Failure,
    MonitorRunCompleted,
    MonitorRunFailed,
    MonitorSourceBack,
    MonitorSourceSilent,
    SilentSource,
    ToldChange,
)
from models.monitors import sources
from models.monitors.telling import count_fitting, with_items
from models.stats import entries

SHOWN_CHANGES, _SHOWN_BYTES = 100, 512 * 1024
"""The most changed targets that the runs of waiting workflows get, and their size in bytes."""
SENT_BYTES = 64 * 1024
"""The part of it in the event, which many webhooks may get."""


class RunEffects(NamedTuple):
    """The effects of a run's end, of which others must be notified after the commit.

    Attributes:
        told: whether an event was emitted.
        accepted: the number of runs of workflows that were accepted.
    """

    told: bool = False
    accepted: int = 0


def hold_reference(run_id: UUID) -> str:
    """Return the reference under which the credits of a run are held and settled."""
    return f"monitor-run/{run_id}"


async def finish(
    connection: Connection, run_id: UUID, error: Mapping[str, str] | None = None
) -> RunEffects | None:
    """End a run that is under way; call it in a transaction.

    The run has failed if there is an error, or if every target failed; else it is completed, even with failed
    targets.

    Returns:
        The effects to notify others of; None if the run had ended before.
    """
    run = await _lock(connection, run_id)
    if run is None or run["completed_at"] is not None:
        return None
    if error is None and run["failed_records"] == run["total_records"] > 0:
        error = {"code": "all_targets_failed", "message": "None of the targets could be looked up."}
    run = await _end(connection, run, "completed" if error is None else "failed", error)
    turned = await _tell_turns(connection, run)
    if error is not None:
        told = await tell_failed(connection, run["account_id"], run_id)
    else:
        told = await _tell_changes(connection, run) if run["changes_detected"] else RunEffects()
    return RunEffects(told.told or turned.told, told.accepted + turned.accepted)


async def cancel(connection: Connection, account_id: UUID, monitor_id: UUID, run_id: UUID) -> None:
    """Cancel a run that has not ended; call it in a transaction.

    Results so far stay, and are paid. A worker of the run notices the cancellation at its next write.

    Raises:
        NotFound: the run is unknown, of another monitor, or another account's.
    """
    run = await _lock(connection, run_id)
    if run is None or run["account_id"] != account_id or run["monitor_id"] != monitor_id:
        raise NotFound("run")
    if run["completed_at"] is None:
        await _end(connection, run, "cancelled", None)


async def _lock(connection: Connection, run_id: UUID) -> dict[str, Any] | None:
    """Return the run, locked against changes until the transaction ends; its monitor is locked first."""
    await connection.execute(
        "select from monitors where id = (select monitor_id from monitor_runs where id = %s)"
        " for no key update",
        (run_id,),
    )
    cursor = await connection.execute("select * from monitor_runs where id = %s for no key update", (run_id,))
    return await cursor.fetchone()


async def _end(
    connection: Connection, run: Mapping[str, Any], status: str, error: Mapping[str, str] | None
) -> dict[str, Any]:
    silent = await sources.find_silent(connection, run["id"])
    cursor = await connection.execute(
        "update monitor_runs set status = %s, error = %s, completed_at = clock_timestamp(),"
        " resumes_at = null,"
        " sources_silent = %s where id = %s returning *",
        (status, error and _json(error), _json(silent), run["id"]),
    )
    ended = await cursor.fetchone()
    assert ended is not None
    await connection.execute("delete from monitor_run_chunks where run_id = %s", (run["id"],))
    await connection.execute(
        "update monitors set run_id = null, last_run_at = now(), results = results + %s,"
        " changed = changed + %s where id = %s and run_id = %s",
        (ended["processed_records"], ended["changes_detected"], run["monitor_id"], run["id"]),
    )
    found = Tally(run["account_id"], "changes", str(run["monitor_id"]), "", ended["changes_detected"])
    await entries.add(connection, [found] if found.amount else [])
    reference, what = hold_reference(run["id"]), "Targets of which something was heard"
    if await ledger.has_hold(connection, reference):
        await credits.settle(connection, Booking(run["account_id"], ended["heard_records"], reference, what))
    return ended


def _json(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_UTC_Z).decode()


_MONITOR: LiteralString = (
    "select r.*, m.name from monitor_runs r join monitors m on m.id = r.monitor_id where r.id = %s"
)


async def _with_name(connection: Connection, run_id: UUID) -> dict[str, Any]:
    cursor = await connection.execute(_MONITOR, (run_id,))
    row = await cursor.fetchone()
    assert row is not None
    return row


async def tell_failed(connection: Connection, account_id: UUID, run_id: UUID) -> RunEffects:
    """Emit the event of a failed run; call it in the transaction in which the run failed."""
    run = await _with_name(connection, run_id)
    data = MonitorRunFailed(
        monitor_id=run["monitor_id"],
        monitor_name=run["name"],
        run_id=run_id,
        total_records=run["total_records"],
        processed_records=run["processed_records"],
        credits_used=run["heard_records"],
        error=Failure(**run["error"]),
    )
    return await _tell(connection, account_id, data, {"changes": [], "more": 0})


async def _tell_turns(connection: Connection, run: Mapping[str, Any]) -> RunEffects:
    """Emit the events of sources that have been silent for long, and of sources that are heard again."""
    turns = await sources.note_run(connection, run)
    if not turns.silent and not turns.back:
        return RunEffects()
    name = (await _with_name(connection, run["id"]))["name"]
    told: list[EventData] = []
    for type, rows in ((MonitorSourceSilent, turns.silent), (MonitorSourceBack, turns.back)):
        for row in rows:
            known = row | {"monitor_name": name, "run_id": run["id"]}
            told.append(type(**{field: known[field] for field in type.model_fields}))
    ended = [await _tell(connection, run["account_id"], data, {"changes": [], "more": 0}) for data in told]
    return RunEffects(True, sum(one.accepted for one in ended))


async def _tell_changes(connection: Connection, run: Mapping[str, Any]) -> RunEffects:
    named = await _with_name(connection, run["id"])
    shown = await _first_changes(connection, run["id"])
    sent = shown[: count_fitting(shown, SENT_BYTES)]
    data = MonitorRunCompleted(
        monitor_id=run["monitor_id"],
        monitor_name=named["name"],
        run_id=run["id"],
        total_records=run["total_records"],
        changes_detected=run["changes_detected"],
        targets_partial=run["targets_partial"],
        sources_silent=[SilentSource.model_validate(one, strict=False) for one in run["sources_silent"]],
        credits_used=run["heard_records"],
        changes=[_as_sent(**one) for one in sent],
        more=run["changes_detected"] - len(sent),
    )
    more = {"changes": shown, "more": run["changes_detected"] - len(shown)}
    return await _tell(connection, run["account_id"], data, more)


def _as_sent(target: str, changes: Mapping[str, Mapping[str, Any]]) -> ChangedTarget:
    return ChangedTarget(
        target=target, changes={path: ToldChange(**change) for path, change in changes.items()}
    )


async def _first_changes(connection: Connection, run_id: UUID) -> list[dict[str, Any]]:
    cursor = await connection.execute(
        "with first as (select position, target, changes, details from monitor_results"
        " where run_id = %(run_id)s and has_changes order by position limit %(count)s)"
        " select target, changes, details from (select *,"
        " sum(octet_length(changes::text) + coalesce(octet_length(details::text), 0))"
        " over (order by position) as size from first) as sized where size <= %(bytes)s order by position",
        {"run_id": run_id, "count": SHOWN_CHANGES, "bytes": _SHOWN_BYTES},
    )
    return [
        {"target": row["target"], "changes": with_items(row["changes"], row["details"] or {})}
        for row in await cursor.fetchall()
    ]


async def _tell(
    connection: Connection, account_id: UUID, data: EventData, more: Mapping[str, Any]
) -> RunEffects:
    event_id = await events.emit(connection, account_id, data)
    accepted = await event_triggers.start_runs(connection, account_id, event_id, data, more)
    return RunEffects(True, len(accepted))
