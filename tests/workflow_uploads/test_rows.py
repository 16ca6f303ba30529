"""Files as what runs start with: names of columns, cells, schemas, bounds; without a server."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any
from uuid import uuid4

import pytest

from language.triggers import FileUploadTrigger, ManualTrigger
from models.automations.run_targets import RunTarget, TriggerSpec
from models.errors import Conflict, FieldError, Invalid
from models.gates import NONE
from models.inputs.inputs import InputSchema
from models.priorities import BULK
from services import workflow_files
from services.event_checks import EventChecks
from services.workflow_files import read_inputs
from tests.api_server import shared_pool


async def cut(data: bytes) -> AsyncGenerator[bytes]:
    for begin in range(0, len(data), 64 * 1024):
        yield data[begin : begin + 64 * 1024]


async def read(table: str | bytes, schema: dict[str, Any] | None = None, **trigger: Any) -> list[Any]:
    """Return what the runs of a file start with."""
    given = FileUploadTrigger.model_validate({"type": "file_upload", **trigger})
    entry = TriggerSpec(given, False, None if schema is None else InputSchema(schema))
    target = RunTarget(uuid4(), uuid4(), "active", 1, BULK, NONE, own=False, spec=entry)
    raw = table.encode() if isinstance(table, str) else table
    found = read_inputs(shared_pool, EventChecks(shared_pool), target, "table.csv", cut(raw))
    return [one async for batch in found for one in batch]


async def errors(table: str | bytes, schema: Any = None, **trigger: Any) -> list[FieldError]:
    with pytest.raises(Invalid) as refused:
        await read(table, schema, **trigger)
    return refused.value.errors


async def refusal(table: str | bytes, **trigger: Any) -> tuple[str, int | None, str | None]:
    [error] = await errors(table, **trigger)
    return error.code, error.row, error.column


# ---- cells and columns


async def test_a_row_is_its_cells_without_spaces_around_them_by_the_names_of_their_columns() -> None:
    found = await read(" E-Mail , note\n ada@x.com ,' a b '\nbob@x.com,=1+1\n")
    assert found == [
        {"E-Mail": "ada@x.com", "note": "' a b '"},
        {"E-Mail": "bob@x.com", "note": "=1+1"},
    ]


async def test_cells_stay_text() -> None:
    assert await read("a;b;c;d\n007;1,5;true;null\n") == [{"a": "007", "b": "1,5", "c": "true", "d": "null"}]


async def test_empty_cells_are_left_out() -> None:
    assert await read("a,b,c\n1,,3\n,  ,x\n4\n") == [{"a": "1", "c": "3"}, {"c": "x"}, {"a": "4"}]


async def test_columns_get_the_names_of_the_column_map_whatever_their_case() -> None:
    found = await read("E-MAIL,Name\na@x.com,Ada\n", column_map={" e-mail ": "email"})
    assert found == [{"email": "a@x.com", "Name": "Ada"}]


async def test_columns_can_swap_their_names() -> None:
    assert await read("a,b\n1,2\n", column_map={"a": "b", "b": "a"}) == [{"b": "1", "a": "2"}]


async def test_columns_that_the_file_lacks_are_named() -> None:
    given = {"email": "e", "name": "n", "Age": "age"}
    found = await errors("\nmail,name\na@x.com,Ada\n", column_map=given)
    assert [(error.code, error.row, error.column) for error in found] == [
        ("no_such_column", 2, "email"), ("no_such_column", 2, "Age"),
    ]  # fmt: skip
    assert "column email" in found[0].message and "mail, name" in found[0].message


async def test_all_that_is_wrong_with_the_header_is_said_at_once() -> None:
    found = await errors(f"a,,A,b,{'x' * 201}\n1,2,3,4,5\n")
    assert [(error.code, error.row, error.column) for error in found] == [
        ("duplicate_column", 1, "a"), ("empty_column_name", 1, None), ("duplicate_column", 1, "A"),
        ("too_long", 1, None),
    ]  # fmt: skip
    assert "Column 2" in found[1].message


async def test_a_mapped_name_that_another_column_has_is_refused() -> None:
    found = await refusal("mail,email\n1,2\n", column_map={"mail": "email"})
    assert found == ("duplicate_column", 1, "email")


NO_TABLES = {
    "nothing": ("", ("no_rows", 1, None)),
    "a header alone": ("a,b\n", ("no_rows", 1, None)),
    "a workbook": (b"PK\x03\x04" + b"\0" * 100, ("not_csv", 1, None)),
    "another encoding": ("a\nx\né\n".encode("latin-1"), ("bad_encoding", 3, None)),
    "too many cells": ("a,b\n1,2\n1,2,3\n", ("too_many_columns", 3, None)),
    "a quote that stays open": ('a\n"x\n', ("bad_quoting", 2, None)),
}


@pytest.mark.parametrize("mode", ["per_row", "whole_file"])
@pytest.mark.parametrize("case", NO_TABLES)
async def test_what_is_no_csv_file_is_refused_as_for_bulk_jobs(case: str, mode: str) -> None:
    table, expected = NO_TABLES[case]
    assert await refusal(table, mode=mode) == expected


async def test_a_file_has_10_000_rows_at_most() -> None:
    assert len(await read("a\n" + "1\n" * 10_000)) == 10_000
    assert await refusal("a\n" + "1\n" * 10_001) == ("too_many_rows", 10_002, None)


async def test_a_workflow_with_another_trigger_takes_no_files() -> None:
    entry = TriggerSpec(ManualTrigger(type="manual"), False, None)
    target = RunTarget(uuid4(), uuid4(), "active", 1, BULK, NONE, own=False, spec=entry)
    with pytest.raises(Conflict) as refused:
        await anext(read_inputs(shared_pool, EventChecks(shared_pool), target, None, cut(b"a\n1\n")))
    assert (refused.value.code, "manual" in refused.value.message) == ("no_file_upload_trigger", True)


# ---- bounds


async def test_the_names_of_columns_do_not_blow_up_what_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workflow_files, "MAX_BYTES", 100_000)
    header = ",".join(f"{n:0200}" for n in range(100))
    assert await refusal(header + ("\n" + ",".join("1" * 100)) * 100) == ("too_large", 6, None)


async def test_a_row_has_a_mebibyte_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workflow_files, "MAX_INPUT_BYTES", 1_000)
    assert await refusal(f"a\n{'x' * 900}\n{'é' * 900}\n") == ("too_large", 3, None)


async def test_a_whole_file_has_a_mebibyte_at_most_and_is_told_of_the_other_mode() -> None:
    found = await errors("a\n" + ("x" * 1_000 + "\n") * 1_100, mode="whole_file")
    assert [error.code for error in found] == ["too_large"]
    assert "per_row" in found[0].message


# ---- whole files


async def test_a_whole_file_is_its_name_its_columns_and_its_rows() -> None:
    found = await read("E-Mail,b\na@x.com,\n,2\n", mode="whole_file", column_map={"e-mail": "email"})
    rows = [{"email": "a@x.com"}, {"b": "2"}]
    assert found == [{"filename": "table.csv", "columns": ["email", "b"], "rows": rows}]


async def test_rows_of_a_whole_file_that_do_not_meet_the_schema_have_their_numbers() -> None:
    schema = {
        "properties": {
            "rows": {"items": {"required": ["a"]}}, "columns": {"maxItems": 1},
        }
    }  # fmt: skip
    found = await errors("a,b\n1,2\n\n,2\n", schema, mode="whole_file")
    assert {(e.pointer, e.code, e.row) for e in found} == {
        ("/rows/4/a", "required", 4), ("/columns", "too_many_items", None),
    }  # fmt: skip
    assert {e.column for e in found} == {"a", None}


# ---- schemas

PEOPLE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "email": {"type": "string", "format": "email"},
        "phone": {"type": "string", "minLength": 5},
    },
    "required": ["email"],
    "additionalProperties": False,
}


async def test_rows_that_meet_the_schema_are_given() -> None:
    found = await read("email,phone\na@x.com,\nb@x.com,12345\n", PEOPLE)
    assert found == [{"email": "a@x.com"}, {"email": "b@x.com", "phone": "12345"}]


async def test_rows_that_do_not_meet_the_schema_are_named_by_their_numbers_in_the_file() -> None:
    table = "Mail,phone\na@x.com,12345\n\nnobody,1\n,12345\n"
    found = await errors(table, PEOPLE, column_map={"mail": "email"})
    assert sorted((e.pointer, e.code, e.row, e.column) for e in found) == [
        ("/rows/4/email", "invalid_format", 4, "Mail"), ("/rows/4/phone", "too_short", 4, "phone"),
        ("/rows/5/email", "required", 5, "Mail"),
    ]  # fmt: skip


async def test_a_column_with_a_slash_in_its_name_is_found_again() -> None:
    [error] = await errors("a/b\n1\n", {"properties": {"a/b": {"minLength": 2}}})
    assert (error.pointer, error.column) == ("/rows/2/a~1b", "a/b")


async def test_a_hundred_places_are_named_at_most() -> None:
    found = await errors("email\n" + "x\n" * 3_000, PEOPLE)
    assert [error.row for error in found] == list(range(2, 102))


async def test_what_is_wrong_in_a_late_row_refuses_the_file() -> None:
    found = await errors("email\n" + "a@x.com\n" * 2_000 + "x\n", PEOPLE)
    assert [error.row for error in found] == [2_002]


async def test_a_row_that_takes_too_much_to_check_is_refused() -> None:
    forty = {name: [{"$ref": f"#/$defs/{name}"}] * 40 for name in "ab"}
    schema = {"allOf": forty["a"], "$defs": {"a": {"allOf": forty["b"]}, "b": {"minProperties": 0}}}
    [error] = await errors("a\nx\n", schema)
    assert (error.pointer, error.code, error.row) == ("/rows/2", "too_much_to_check", 2)
