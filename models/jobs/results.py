"""Results: the rows of a job with their answers, read in pieces."""

from __future__ import annotations

from typing import LiteralString, NamedTuple
from uuid import UUID

from database import Connection

# A piece of this size is written as CSV within some milliseconds. A row may have 250,000 characters, and so
# may the names of its columns, which come with each row in JSON.
_PIECE_BYTES = 256 * 1024


class Result(NamedTuple):
    """A row in its stored form: texts are JSON, and None is null.

    Attributes:
        position: of the row, from 0.
        cells: as the client sent them.
        data: None if there is no answer, or the target is invalid.
        partial: whether some source did not answer; None without data.
        error: None if the target could be looked up.
    """

    position: int
    cells: str
    data: str | None
    partial: bool | None
    error: str | None


# Without the offset, Postgres reads all answers for each row if its statistics are from small jobs.
_READ: LiteralString = """
with names as (
  select coalesce(max(octet_length(header::text)), 0) as bytes from jobs where id = %(job_id)s
), found as (
  select r.position, r.cells::text as cells, a.data::text as data,
    case when a.data is not null then a.partial end as partial, coalesce(r.error, a.error)::text as error
  from job_rows r left join lateral (
    select query, data, partial, error from job_answers where job_id = r.job_id and query = r.query offset 0
  ) a on true
  where r.job_id = %(job_id)s and r.position > %(after)s and (r.query is null or a.query is not null)
  order by r.position limit %(limit)s
), measured as (
  select *, sum(octet_length(cells) + coalesce(octet_length(data), 0) + n.bytes) over
    (order by position rows between unbounded preceding and 1 preceding) as bytes_before
  from found, names n
)
select position, cells, data, partial, error from measured
where bytes_before is null or bytes_before < %(piece)s order by position
"""


async def read_after(connection: Connection, job_id: UUID, *, after: int, limit: int) -> list[Result]:
    """Read finished rows of a job in order, up to the limit and 256 KiB.

    Args:
        connection: inside or outside a transaction.
        job_id: a job that the caller may see.
        after: the position before the first row to read; -1 for the start.
        limit: the highest number of rows.
    """
    cursor = await connection.execute(
        _READ, {"job_id": job_id, "after": after, "limit": limit, "piece": _PIECE_BYTES}
    )
    return [Result(**row) for row in await cursor.fetchall()]
