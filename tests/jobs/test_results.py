"""The results of a job are a table: the columns that were given, how it went, and what was found."""

from __future__ import annotations

from uuid import UUID

import pytest

from database import Connection, Database
from models.identifiers import new_id
from models.jobs import results
from models.jobs.results import Result
from notifications import Notifier
from services.jobs import Table
from tests.jobs.jobs import Jobber
from tests.monitors.watching import Scanner, addresses

FOUND = Result(0, '["Ada","8.8.8.8"]', '{"ip_address":"8.8.8.8","location":{"city":"Paris"}}', False, None)
FAILED = Result(1, '["Bob",""]', None, None, '{"code":"empty_target","message":"The cell has no target."}')


def test_a_row_has_its_cells_how_it_went_and_the_fields_of_the_answer() -> None:
    table = Table("ip", ["name", "ip"], None)
    assert table.columns[:5] == ["name", "ip", "error", "partial", "ip_address"]
    row = dict(zip(table.columns, table.row(FOUND), strict=True))
    assert (row["name"], row["ip"], row["error"], row["partial"]) == ("Ada", "8.8.8.8", None, False)
    assert (row["location.city"], row["location.region"]) == ("Paris", None)
    assert {"providers", "sources", "credits", "cached"}.isdisjoint(table.columns)


def test_a_failed_row_says_why_and_has_nothing_else() -> None:
    table = Table("ip", ["name", "ip"], None)
    assert table.row(FAILED)[:4] == ["Bob", "", "empty_target: The cell has no target.", None]
    assert not any(table.row(FAILED)[4:])
    assert table.item(FAILED)["error"] == {"code": "empty_target", "message": "The cell has no target."}


def test_only_the_chosen_fields_have_columns() -> None:
    table = Table("ip", ["ip"], ["location.city", "asn"])
    assert table.columns[:3] == ["ip", "error", "partial"]
    assert {name.partition(".")[0] for name in table.columns[3:]} == {"asn", "location"}
    assert [name for name in table.columns if name.startswith("location")] == ["location.city"]


@pytest.mark.parametrize(
    ("header", "columns"),
    [
        (["error", "ip"], ["error", "ip", "ip.error", "partial"]),
        (["", "ip", "ip"], ["column_1", "ip", "ip_2", "error", "partial"]),
        (["ip.error", "error"], ["ip.error", "error", "ip.error_2", "partial"]),
        (["location.city"], ["location.city", "error", "partial", "ip.location.city"]),
    ],
    ids=["a column called error", "two of one name, and one of none", "both", "a found one"],
)
def test_every_column_has_a_name_of_its_own(header: list[str], columns: list[str]) -> None:
    table = Table("ip", header, ["location.city"])
    assert table.columns[: len(columns)] == columns
    assert len(set(table.columns)) == len(table.columns)


async def test_rows_are_read_in_their_order_in_pieces(
    jobber: Jobber, notifier: Notifier, scanner: Scanner
) -> None:
    first, second = addresses(2)
    job = await jobber.ended(await jobber.accept([second, None, first, second], notifier))
    read: list[Result] = []
    async with jobber.database.connection() as connection:
        while some := await results.read_after(
            connection, job.id, after=read[-1].position if read else -1, limit=3
        ):
            read.extend(some)
    assert [one.position for one in read] == [0, 1, 2, 3]
    table = Table("ip", ["ip"], None)
    assert [table.item(one)["ip_address"] for one in read] == [second, None, first, second]


async def test_a_row_that_nobody_could_answer_is_not_said_to_be_whole_or_partial(
    jobber: Jobber, notifier: Notifier
) -> None:
    job_id = await jobber.accept(["-"], notifier, type="company")
    await jobber.ended(job_id)
    async with jobber.database.connection() as connection:
        [row] = await results.read_after(connection, job_id, after=-1, limit=10)
    assert (row.data, row.partial) == (None, None)


async def fill(connection: Connection, job_id: UUID, rows: int) -> None:
    await connection.execute(
        "insert into job_rows (job_id, position, cells, query)"
        " select %s, n, '[]', n from generate_series(0, %s) n",
        (job_id, rows - 1),
    )
    await connection.execute(
        "insert into job_answers (job_id, query, data, partial)"
        " select job_id, query, '{}', false from job_rows where job_id = %s",
        (job_id,),
    )


async def rows_looked_at(connection: Connection) -> int:
    """Return how many rows of jobs and of their answers the transaction has looked at."""
    cursor = await connection.execute(
        "select sum(seq_tup_read + idx_tup_fetch)::int as n from pg_stat_xact_user_tables"
        " where relname in ('job_rows', 'job_answers')"
    )
    row = await cursor.fetchone()
    assert row is not None
    return row["n"]


async def test_a_piece_is_read_without_the_rest_although_postgres_expects_small_jobs(
    database: Database,
) -> None:
    small, large = new_id(), new_id()
    async with database.connection() as connection, connection.transaction(force_rollback=True):
        await connection.execute("delete from job_rows")
        await connection.execute("delete from job_answers")
        await fill(connection, small, 10)
        await connection.execute("analyze job_rows, job_answers")
        await fill(connection, large, 2000)
        before = await rows_looked_at(connection)
        piece = await results.read_after(connection, large, after=999, limit=50)
        assert [one.position for one in piece] == list(range(1000, 1050))
        assert await rows_looked_at(connection) - before <= 150


async def pieces_of(jobber: Jobber, job_id: UUID) -> list[list[int]]:
    """The positions of the rows of a job as they are read."""
    pieces: list[list[int]] = []
    async with jobber.database.connection() as connection:
        while some := await results.read_after(
            connection, job_id, after=pieces[-1][-1] if pieces else -1, limit=100
        ):
            pieces.append([one.position for one in some])
    return pieces


async def test_rows_with_much_text_are_read_few_at_a_time(jobber: Jobber, notifier: Notifier) -> None:
    job_id = await jobber.accept(["x" * 200_000] * 5, notifier, type="company")
    await jobber.ended(job_id)
    assert await pieces_of(jobber, job_id) == [[0, 1], [2, 3], [4]]


async def test_rows_whose_columns_have_long_names_are_read_few_at_a_time(
    jobber: Jobber, notifier: Notifier
) -> None:
    job_id = await jobber.accept([None] * 5, notifier)
    await jobber.ended(job_id)
    async with jobber.database.transaction() as connection:
        await connection.execute("update jobs set header = %s where id = %s", (["x" * 200_000], job_id))
    assert await pieces_of(jobber, job_id) == [[0, 1], [2, 3], [4]]
