"""Uploaded tables: which column has the targets, what each row is, what is refused, and what that takes."""

from __future__ import annotations

import asyncio
import gzip
import io
import subprocess
import sys
import zipfile
from collections.abc import AsyncGenerator
from typing import Any
from uuid import uuid4

import pytest

from models.errors import FieldError, Invalid
from models.jobs.acceptance import RowInput
from providers.registry import KINDS
from services.disk_buffer import buffer_to_disk
from services.target_files import Upload, open_csv, open_targets
from tests.api_server import shared_pool
from tests.stacks import ROOT

ACCOUNT = uuid4()
MIB = 1024 * 1024


async def cut(data: bytes, size: int = 64 * 1024) -> AsyncGenerator[bytes]:
    """The bytes in chunks of a size."""
    for begin in range(0, len(data), size):
        yield data[begin : begin + size]


async def opened(data: bytes | str, type: str = "email", column: str | None = None) -> Upload:
    raw = data.encode() if isinstance(data, str) else data
    return await open_csv(shared_pool, ACCOUNT, type, cut(raw), column)


async def rows_of(upload: Upload) -> list[RowInput]:
    return [row async for batch in upload.rows() for row in batch]


async def refusal(data: bytes | str, type: str = "email", column: str | None = None) -> FieldError:
    """Return what is wrong with a file, be it said when it is opened or when it is read."""
    with pytest.raises(Invalid) as refused:
        await rows_of(await opened(data, type, column))
    [error] = refused.value.errors
    return error


async def test_a_row_has_its_cells_and_the_normal_form_of_its_target() -> None:
    upload = await opened("Name,E-Mail\nAda, ADA@Example.com \n")
    assert (upload.header, upload.column) == (["Name", "E-Mail"], 1)
    assert await rows_of(upload) == [RowInput(["Ada", " ADA@Example.com "], "ada@example.com", None)]


async def test_an_invalid_cell_and_an_empty_one_are_rows_with_an_error() -> None:
    rows = await rows_of(await opened("email,name\nnobody,a\n,b\n  ,c\nada@example.com,d\n"))
    codes = [row.error and row.error[0] for row in rows]
    assert codes == ["invalid_email", "empty_target", "empty_target", None]
    assert [row.target for row in rows] == [None, None, None, "ada@example.com"]


@pytest.mark.parametrize("type", KINDS)
async def test_rows_of_every_type_are_read(type: str) -> None:
    example = KINDS[type].example
    upload = await opened(f"id,target\n1,{example}\n2,\n", type)
    first, second = await rows_of(upload)
    assert (first.target, second.error and second.error[0]) == (example, "empty_target")


async def test_what_is_no_address_can_be_validated() -> None:
    [row] = await rows_of(await opened("email\n nobody \n", "validate"))
    assert row == RowInput([" nobody "], "nobody", None)


async def test_targets_come_as_a_table_of_one_column() -> None:
    upload = open_targets(shared_pool, ACCOUNT, "ip", ["8.8.8.8", "", "::FFFF:1.1.1.1", "x"])
    assert (upload.header, upload.column) == (["target"], 0)
    rows = await rows_of(upload)
    assert [row.cells for row in rows] == [["8.8.8.8"], [""], ["::FFFF:1.1.1.1"], ["x"]]
    assert [row.target for row in rows] == ["8.8.8.8", None, "1.1.1.1", None]


@pytest.mark.parametrize("type", ["ip", "phone"])
async def test_rows_come_in_batches_of_a_thousand(type: str) -> None:
    targets = [KINDS[type].example, "x"] * 1_250
    text = "\n".join(["target", *targets])
    for upload in (await opened(text, type), open_targets(shared_pool, ACCOUNT, type, targets)):
        batches = [batch async for batch in upload.rows()]
        assert [len(batch) for batch in batches] == [1_000, 1_000, 500]
        rows = [row for batch in batches for row in batch]
        assert [row.cells[0] for row in rows] == targets
        assert [row.target for row in rows] == [KINDS[type].example, None] * 1_250


async def test_a_column_is_found_by_its_name_in_any_case() -> None:
    assert (await opened("email,Work Mail\na@x.com,b@x.com\n", column=" WORK mail ")).column == 1


async def test_an_unknown_column_is_refused_with_the_names_of_those_there_are() -> None:
    error = await refusal("mail,name\na@x.com,b\n", column="email")
    assert (error.row, error.code) == (1, "no_such_column")
    assert "mail, name" in error.message


@pytest.mark.parametrize(
    ("type", "header"),
    [
        ("email", "id,E-mail"), ("breach", "name,e_mail"), ("validate", "x,Email Address"),
        ("ip", "a,IP-Address"), ("phone", "name,Mobile"), ("phone", "no,Tel."), ("domain", "x,Website"),
        ("company", "email,Organisation"), ("company", "id,Name"), ("username", "site,handle"),
        ("websearch", "n,Query"), ("darkweb", "n,query"), ("darkweb", "n,Target"),
    ],
)  # fmt: skip
async def test_a_column_is_found_by_a_usual_name(type: str, header: str) -> None:
    assert (await opened(f"{header}\nx,y\n", type)).column == 1


async def test_the_likeliest_of_usual_names_is_taken() -> None:
    assert (await opened("mail,target,email\na,b,c\n")).column == 2


@pytest.mark.parametrize("type", KINDS)
async def test_the_only_column_is_taken_whatever_its_name(type: str) -> None:
    assert (await opened("whatever\nx\n", type)).column == 0


@pytest.mark.parametrize("type", ["email", "breach", "validate", "ip", "phone", "domain"])
async def test_the_column_with_most_targets_is_taken_where_no_name_says_which(type: str) -> None:
    good = KINDS[type].example
    assert (await opened(f"a,b,c\nx,{good},{good}\ny,{good},z\n", type)).column == 1


@pytest.mark.parametrize("type", ["company", "username", "websearch", "darkweb"])
async def test_a_column_must_be_named_where_any_text_is_a_target(type: str) -> None:
    error = await refusal("a,b\nx,y\n", type)
    assert (error.row, error.code) == (1, "column_required")
    assert "field column" in error.message and "a, b" in error.message


@pytest.mark.parametrize("rows", ["x,y", "8.8.8.8,1.1.1.1"])
async def test_a_column_must_be_named_where_no_one_has_most_targets(rows: str) -> None:
    assert (await refusal(f"a,b\n{rows}\nx,y\n", "ip")).code == "column_required"


@pytest.mark.parametrize(
    ("type", "first"),
    [
        ("email", "ada@example.com"), ("email", "1,ada@example.com"), ("ip", "8.8.8.8"), ("ip", "x,::1"),
        ("phone", "+14155552671"), ("domain", "example.com"), ("darkweb", "ada@example.com"),
        ("username", "8.8.8.8"),
    ],
)  # fmt: skip
async def test_a_first_row_that_is_no_header_is_refused(type: str, first: str) -> None:
    error = await refusal(f"{first}\n{first}\n", type)
    assert (error.row, error.code) == (1, "no_header")


async def test_a_column_that_is_named_like_a_domain_can_be_taken() -> None:
    assert (await opened("id,company.name\n1,example.com\n", "domain", "company.name")).column == 1


async def test_a_wrong_header_is_told_with_its_row() -> None:
    for text, column in [("\n\na,b\nx,y\n", "c"), ("\n\na,b\nx,y\n", None), ("\n\na@x.com\nb@x.com\n", None)]:
        assert (await refusal(text, column=column)).row == 3


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
async def test_quoted_cells_may_span_lines_whatever_the_delimiter(delimiter: str) -> None:
    text = f'email{delimiter}note\n"ada@example.com"{delimiter}"two\nlines, ""quoted"""\n'
    assert await rows_of(await opened(text)) == [
        RowInput(["ada@example.com", 'two\nlines, "quoted"'], "ada@example.com", None)
    ]


def zipped(data: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("table.csv", data)
    return file.getvalue()


GOOD = "email,name\nada@example.com,Zoë\n"
BAD: dict[str, tuple[bytes | str, int, str]] = {
    "empty": ("", 1, "no_rows"),
    "header only": ("email\n", 1, "no_rows"),
    "Latin-1": (GOOD.encode("latin-1"), 2, "bad_encoding"),
    "UTF-16 without BOM": (GOOD.encode("utf-16-le"), 1, "nul_character"),
    "NUL": ("email\nada\0@example.com\n", 2, "nul_character"),
    "zip": (zipped(GOOD.encode()), 1, "not_csv"),
    "gzip": (gzip.compress(GOOD.encode()), 1, "not_csv"),
    "gzip that unpacks to 1 GiB": (gzip.compress(bytes(MIB)) * 1024, 1, "not_csv"),
    "10,001 rows": ("email\n" + "ada@example.com\n" * 10_001, 10_002, "too_many_rows"),
    "10,000 columns": ("c," * 9_999 + "email\n" + "," * 9_999 + "ada@example.com\n", 1, "too_many_columns"),
    "long cell": ("email\n" + "x" * 10_001 + "\n", 2, "cell_too_long"),
    "open quote": ('email\n"ada@example.com\n', 2, "bad_quoting"),
}


@pytest.mark.parametrize("case", BAD)
async def test_a_bad_file_is_refused_with_its_row(case: str) -> None:
    data, row, code = BAD[case]
    error = await refusal(data)
    assert (error.row, error.code) == (row, code)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
async def test_files_in_utf_8_are_read_and_in_utf_16_with_a_bom(encoding: str) -> None:
    [row] = await rows_of(await opened(GOOD.encode(encoding)))
    assert row == RowInput(["ada@example.com", "Zoë"], "ada@example.com", None)


async def test_as_many_rows_as_a_file_may_have_are_read() -> None:
    assert len(await rows_of(await opened("ip\n" + "8.8.8.8\n" * 10_000, "ip"))) == 10_000


async def test_a_field_of_50_mb_by_an_open_quote_is_not_read_to_its_end() -> None:
    taken = 0

    async def chunks() -> AsyncGenerator[bytes]:
        nonlocal taken
        yield b'email\n"'
        for _ in range(800):
            taken += 1
            yield b"x" * 64 * 1024

    with pytest.raises(Invalid) as refused:
        await rows_of(await open_csv(shared_pool, ACCOUNT, "email", chunks(), None))
    assert [(error.row, error.code) for error in refused.value.errors] == [(2, "cell_too_long")]
    assert taken < 10


def test_memory_stays_flat_however_large_the_file() -> None:
    # In a process of its own: what else goes on in this one would be counted, too.
    command = [sys.executable, "-m", "tests.uploads.large_upload"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    count, peak = map(int, done.stdout.split())
    assert count == 2_000  # 20 MB, and 80 in memory
    assert peak < 32 * MIB


async def test_all_rows_are_checked_before_the_first_is_given() -> None:
    good = "ip\n" + "8.8.8.8\n" * 3_000
    async with buffer_to_disk((await opened(good, "ip")).rows()) as batches:
        assert [len(batch) async for batch in batches] == [1_000, 1_000, 1_000]
    async with buffer_to_disk((await opened(good, "ip")).rows()) as batches:
        assert [row async for batch in batches for row in batch] == await rows_of(await opened(good, "ip"))
    with pytest.raises(Invalid):
        async with buffer_to_disk((await opened(good + "1,2\n", "ip")).rows()):
            pytest.fail("a row was wrong")


async def test_others_go_on_while_a_file_is_read_that_is_all_at_hand() -> None:
    upload = await opened("ip,note\n" + f"8.8.8.8,{'x' * 1_000}\n" * 5_000, "ip")
    steps: list[Any] = []

    async def others() -> None:
        while True:
            steps.append(None)
            await asyncio.sleep(0)

    task = asyncio.create_task(others())
    assert len(await rows_of(upload)) == 5_000
    task.cancel()
    assert len(steps) > 5 * MIB / (128 * 1024)
