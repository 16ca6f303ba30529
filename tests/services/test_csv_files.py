"""The CSV reader and writer: what they take, what they refuse and where, and that they fit each other."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.errors import FieldError, Invalid
from services.csv_files import MAX_CELL, Bounds, CsvReader, Row, cell_text, write_csv

Table = list[list[str]]


async def cut(data: bytes, size: int) -> AsyncGenerator[bytes]:
    """The bytes in chunks of a size."""
    for begin in range(0, len(data), size):
        yield data[begin : begin + size]


async def read(data: bytes | str, bounds: Bounds | None = None, size: int = 7) -> tuple[list[str], list[Row]]:
    """The header and the rows of a file."""
    raw = data.encode() if isinstance(data, str) else data
    reader = CsvReader(cut(raw, size), bounds)
    return await reader.read_header(), [row async for row in reader.rows()]


async def refusal(data: bytes | str, bounds: Bounds | None = None, size: int = 7) -> FieldError:
    """Return what is wrong with a file."""
    with pytest.raises(Invalid) as refused:
        await read(data, bounds, size)
    [error] = refused.value.errors
    assert error.message.startswith(f"Row {error.row}: ")
    return error


async def written(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[bytes]:
    async def given() -> AsyncGenerator[Sequence[Any]]:
        for row in rows:
            yield row

    return [piece async for piece in write_csv(header, given())]


@pytest.mark.parametrize("size", [1, 2, 3, 1_000])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
async def test_rows_are_numbered_from_the_header_and_blank_ones_count(end: str, size: int) -> None:
    text = end.join(["email,name", "a@x.com,Ada", "", "b@x.com,Bob", ",", "c@x.com,", ""])
    header, rows = await read(text, size=size)
    assert header == ["email", "name"]
    assert rows == [(2, ["a@x.com", "Ada"]), (4, ["b@x.com", "Bob"]), (6, ["c@x.com", ""])]


@pytest.mark.parametrize("size", [1, 2, 3, 1_000])
async def test_quoted_cells_may_hold_delimiters_quotes_and_line_ends(size: int) -> None:
    text = 'a,b\r\n"x,""y""\r\nz","1\r2\n3"\r\n"last"'
    _, rows = await read(text, size=size)
    assert rows == [(2, ['x,"y"\r\nz', "1\r2\n3"]), (3, ["last", ""])]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("size", [1, 1_000])
async def test_the_delimiter_is_the_one_that_the_header_has_most_of(delimiter: str, size: int) -> None:
    others = ",;\t|".replace(delimiter, "")
    text = f'a{delimiter}"{others * 2}"{delimiter}c\n1{delimiter}2{delimiter}{others}'
    header, rows = await read(text, size=size)
    assert header == ["a", (others * 2).strip(), "c"]
    assert rows == [(2, ["1", "2", others])]


@pytest.mark.parametrize("header", ["email", '"email"', '"e-mail; or, phone"'])
async def test_a_header_without_delimiters_is_one_column(header: str) -> None:
    _, rows = await read(f"{header}\na@x.com\n")
    assert rows == [(2, ["a@x.com"])]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("size", [1, 3, 1_000])
async def test_utf_8_is_read_and_utf_16_with_a_bom(encoding: str, size: int) -> None:
    data = "Straße,名前\nKöln,日本 𝔘\n".encode(encoding)
    assert await read(data, size=size) == (["Straße", "名前"], [(2, ["Köln", "日本 𝔘"])])


async def test_utf_16_may_have_its_bytes_in_either_order() -> None:
    data = b"\xfe\xff" + "a,b\né,ü\n".encode("utf-16-be")
    assert await read(data) == (["a", "b"], [(2, ["é", "ü"])])


async def test_a_column_is_found_by_its_name_in_any_case() -> None:
    reader = CsvReader(cut(b" Name , E-Mail\nx,y\n", 5))
    await reader.read_header()
    assert (reader.position_of("e-mail "), reader.position_of("NAME")) == (1, 0)
    with pytest.raises(Invalid) as refused:
        reader.position_of("phone")
    assert [(e.row, e.code) for e in refused.value.errors] == [(1, "no_such_column")]


SMALL = Bounds(rows=3, columns=3, cell=10)
WRONG: dict[str, tuple[bytes | str, int, str]] = {
    "nothing": ("", 1, "no_rows"),
    "a BOM alone": (b"\xef\xbb\xbf", 1, "no_rows"),
    "blank lines": ("\n\n\n", 1, "no_rows"),
    "header alone": ("a,b\n", 1, "no_rows"),
    "header and blank rows": ("a,b\n\n,\n", 3, "no_rows"),
    "Latin-1": ("a\nb\nKöln\n".encode("latin-1"), 3, "bad_encoding"),
    "Latin-1 in the header": ("Straße\nb\n".encode("latin-1"), 1, "bad_encoding"),
    "half a character at the end": ("a\nb\né".encode()[:-1], 3, "bad_encoding"),
    "half of one in UTF-16": ("a\nb\nc".encode("utf-16")[:-1], 3, "bad_encoding"),
    "a lone surrogate": (b"a\n\xed\xa0\x80\n", 2, "bad_encoding"),
    "UTF-16 without BOM": ("a,b\nc,d\n".encode("utf-16-le"), 1, "nul_character"),
    "NUL": ("a,b\nc,d\ne,\0\n", 3, "nul_character"),
    "open quote": ('a,b\nc,d\ne,"f\n', 3, "bad_quoting"),
    "open quote in the header": ('"a\n', 1, "bad_quoting"),
    "text after the quote": ('a,b\n"c"d,e\nf,g\n', 2, "bad_quoting"),
    "too many rows": ("a\n1\n2\n\n3\n4\n", 6, "too_many_rows"),
    "too many blank rows": ("a\n1\n" + "\n" * 40, 34, "too_many_rows"),
    "too many columns": ("a,b,c,d\n1,2,3,4\n", 1, "too_many_columns"),
    "more cells than columns": ("a,b\n1,2\n1,2,3\n", 3, "too_many_columns"),
    "long cell": ("a,b\n1,2\n1,12345678901\n", 3, "cell_too_long"),
    "long name": ("a,12345678901\n1,2\n", 1, "cell_too_long"),
    "long row without an end": ("a\n" + "x" * 1_000, 2, "cell_too_long"),
    "open quote before much": ('a\n"' + "x\n" * 1_000, 2, "bad_quoting"),
    "zip": (b"PK\x03\x04....", 1, "not_csv"),
    "gzip": (b"\x1f\x8b\x08", 1, "not_csv"),
    "xls": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", 1, "not_csv"),
}


@pytest.mark.parametrize("size", [1, 5, 100_000])
@pytest.mark.parametrize("case", WRONG)
async def test_what_is_wrong_is_said_with_its_row(case: str, size: int) -> None:
    data, row, code = WRONG[case]
    error = await refusal(data, SMALL, size)
    assert (error.row, error.code) == (row, code)


async def test_a_wrong_cell_is_said_with_its_column() -> None:
    assert (await refusal("a,b\n1,\0\n")).column == "b"
    assert (await refusal("a,b\n12345678901,\n", SMALL)).column == "a"


async def test_a_cell_beyond_what_the_csv_module_reads_is_too_long() -> None:
    bounds = Bounds(columns=3, cell=MAX_CELL)
    fits = f'a,b\n1,"{"x" * MAX_CELL}"\n'
    assert (await read(fits, bounds, 65_536))[1][0].cells[1] == "x" * MAX_CELL
    for cell in (f'"{"x" * 150_000}"', "x" * 150_000, f'"{"x" * 150_000}'):
        error = await refusal(f"a,b\n1,2\n1,{cell}\n", bounds, 65_536)
        assert (error.row, error.code) == (3, "cell_too_long")
    with pytest.raises(ValueError):
        Bounds(cell=MAX_CELL + 1)


@pytest.mark.parametrize("row", ["1," * 200_000, "x" * 300_000, '"1\n2",' * 50_000])
@pytest.mark.parametrize("end", ["", "\n", "\n3\n"])
async def test_a_row_beyond_all_bounds_is_too_long(row: str, end: str) -> None:
    error = await refusal(f"a\n1\n{row}{end}", size=10_000)
    assert (error.row, error.code) == (3, "cell_too_long")


async def test_the_rows_before_a_wrong_one_come() -> None:
    reader = CsvReader(cut("a\n1\n2\nKöln\n".encode("latin-1"), 1_000))
    await reader.read_header()
    rows: list[int] = []
    with pytest.raises(Invalid):
        async for row in reader.rows():
            rows.append(row.number)
    assert rows == [2, 3]


async def test_no_more_is_read_than_the_rows_that_are_taken_need() -> None:
    pieces = 0

    async def endless() -> AsyncGenerator[bytes]:
        nonlocal pieces
        yield b"a,b\n"
        while True:
            pieces += 1
            yield b"1,2\n" * 1_000

    reader = CsvReader(endless())
    await reader.read_header()
    async for row in reader.rows():
        if row.number == 500:
            break
    assert pieces == 1


cells = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=20)


@given(st.lists(st.lists(cells, min_size=2, max_size=2), min_size=1), st.integers(1, 50))
async def test_what_is_written_is_read_back(table: Table, size: int) -> None:
    pieces = await written(["one", "two"], table)
    header, rows = await read(b"".join([*pieces, b"end,end\r\n"]), size=size)
    assert header == ["one", "two"]
    expected = [[cell_text(cell) for cell in row] for row in table]
    assert [row.cells for row in rows[:-1]] == [row for row in expected if any(row)]


@given(
    st.lists(st.lists(cells, min_size=2, max_size=4), min_size=1, max_size=10),
    st.sampled_from(",;\t|"), st.sampled_from(["\n", "\r\n", "\r"]), st.integers(1, 50),
)  # fmt: skip
async def test_any_chunks_are_read_as_pythons_csv_module_reads_the_whole(
    table: Table, delimiter: str, end: str, size: int
) -> None:
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=delimiter, lineterminator=end, quoting=csv.QUOTE_ALL).writerows(
        [["w", "x", "y", "z"], *table, ["end"]]
    )
    header, rows = await read(text.getvalue(), size=size)
    assert header == ["w", "x", "y", "z"]
    whole = [row + [""] * (4 - len(row)) for row in [*table, ["end"]]]
    assert [row.cells for row in rows] == [row for row in whole if any(row)]


@given(st.one_of(st.binary(), st.text(',;"\r\n\0a ', max_size=60).map(str.encode)), st.integers(1, 20))
async def test_no_bytes_break_the_reader_and_chunks_make_no_difference(data: bytes, size: int) -> None:
    async def outcome(size: int) -> Any:
        try:
            return await read(data, SMALL, size)
        except Invalid as refused:
            return [(error.row, error.code, error.column) for error in refused.errors]

    assert await outcome(size) == await outcome(1_000)


TEXTS = {
    "=1+1": "'=1+1", "+1 415": "'+1 415", "-x": "'-x", "@SUM(A1)": "'@SUM(A1)", "\tx": "'\tx", "\rx": "'\rx",
    "\n=1": "'\n=1", "a=1": "a=1", "": "", "'x": "'x", " =1": "' =1", "\u00a0=1": "'\u00a0=1", "x y": "x y",
    "\ufeff=1": "'\ufeff=1", "\u200b\u200d=1": "'\u200b\u200d=1", "\u202e@x": "'\u202e@x",
    "＝1+1": "'＝1+1", "＋1": "'＋1", "－1": "'－1", "＠x": "'＠x", "﹣1": "'﹣1", "\ufeff＝1": "'\ufeff＝1",
    "\u3164=1": "'\u3164=1", "\u034f=1": "'\u034f=1", "\x1f=1": "'\x1f=1", " \t=1": "' \t=1", " x": " x",
    "Ünal": "Ünal", "é=1": "é=1", "字": "字", "(=1)": "(=1)", "\u200b": "\u200b",
}  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
async def test_no_text_that_a_spreadsheet_would_execute_is_written_as_it_is(text: str) -> None:
    assert cell_text(text) == TEXTS[text]
    pieces = await written([text], [[text]])
    assert list(csv.reader(io.StringIO(b"".join(pieces).decode(), newline=""))) == [[TEXTS[text]]] * 2


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""), (True, "true"), (0, "0"), (-1.5, "-1.5"), (["a", "b"], "a; b"), ([], ""),
        (["=x", 1, None, False], "'=x; 1; false"), ({"a": [1]}, '{"a":[1]}'), ([{"a": 1}], '[{"a":1}]'),
        ([["a"]], '[["a"]]'),
    ],
)  # fmt: skip
def test_values_become_texts(value: Any, text: str) -> None:
    assert cell_text(value) == text


async def test_rows_go_out_in_pieces() -> None:
    pieces = await written(["a"], [["x" * 1_000]] * 1_000)
    assert len(pieces) > 10
    assert max(map(len, pieces)) < 70_000
    assert len(b"".join(pieces).splitlines()) == 1_001
