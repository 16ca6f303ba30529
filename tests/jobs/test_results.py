"""The results of a job are a table: the columns that were given, how it went, and what was found."""

from __future__ import annotations

import pytest

from database import Notifier
from models.jobs import results
from models.jobs.results import Result
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
