"""Tables whose rows are written once: the database itself refuses to change or delete them."""

from __future__ import annotations

from sqlalchemy import DDL, Table, event

_FUNCTION = """
create or replace function refuse_change() returns trigger language plpgsql as $$
begin
    raise exception 'rows of % are written once', tg_table_name using errcode = 'restrict_violation';
end $$
"""


def append_only(table: Table, *, deletable: bool = False) -> None:
    """Make the database refuse updates of `table`'s rows and, unless `deletable`, deletes."""
    events = "update" if deletable else "update or delete"
    trigger = (
        f"create trigger written_once before {events} on {table.name}"
        " for each row execute function refuse_change()"
    )
    event.listen(table, "after_create", DDL(_FUNCTION.replace("%", "%%")))
    event.listen(table, "after_create", DDL(trigger))
