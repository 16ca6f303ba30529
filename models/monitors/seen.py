"""The changes of monitors that an account has seen: those of all runs of a monitor up to one."""

from __future__ import annotations

from typing import LiteralString
from uuid import UUID

from database import Connection
from models import audit
from models.audit import Actor, Target
from models.errors import NotFound
from models.monitors import monitors

# A run under way may still find changes: they count as seen only after its end. Nothing is ever unseen again.
_MARK: LiteralString = """
update monitors m set seen_run_id = n.id, seen_at = clock_timestamp(),
  seen_changed = greatest(0, m.changed - (
    select coalesce(sum(l.changes_detected), 0) from monitor_runs l
    where l.monitor_id = m.id and l.id > n.id and l.completed_at is not null))
from (select id from monitor_runs where monitor_id = %(monitor_id)s and id <= %(run_id)s
        and completed_at is not null order by id desc limit 1) n
where m.id = %(monitor_id)s and (m.seen_run_id is null or m.seen_run_id < n.id)
"""


async def mark(connection: Connection, actor: Actor, monitor_id: UUID, run_id: UUID) -> None:
    """Mark the changes of a monitor's ended runs as seen, up to this run; call it in a transaction.

    Args:
        connection: inside a transaction.
        actor: the owner of the monitor, and the one who has looked.
        monitor_id: the monitor.
        run_id: a run of it.

    Raises:
        NotFound: the monitor or the run is unknown, or another account's.
    """
    # The lock makes the ends of runs wait, so that the count and the runs agree.
    name = (await monitors.lock(connection, actor.account_id, monitor_id)).row["name"]
    wanted = {"monitor_id": monitor_id, "run_id": run_id}
    known = "select from monitor_runs where monitor_id = %(monitor_id)s and id = %(run_id)s"
    if await (await connection.execute(known, wanted)).fetchone() is None:
        raise NotFound("run")
    cursor = await connection.execute(_MARK, wanted)
    if cursor.rowcount:
        target = Target("monitor", monitor_id, name)
        await audit.record(connection, actor, "monitor.seen", target, {"run_id": str(run_id)})
