"""Workflows in files: what YAML stands for, and at which line each field is."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from cli.documents import NoDocument, place_of, read_document, write_yaml
from cli.errors import BadInput
from cli.workflows import read_input

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXTS
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["1e3", "yes", "No", "on", "~", "null", "2026-01-01", "12:30", "007", ".5", "<<"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)  # fmt: skip


@settings(max_examples=40)
@given(st.dictionaries(TEXTS, JSON, min_size=1, max_size=4))
def test_what_is_written_is_read_as_the_same(value: dict[str, Any]) -> None:
    assert read_document("x", write_yaml(value).encode()).value == value


@settings(max_examples=40)
@given(st.dictionaries(TEXTS, JSON, max_size=4))
def test_json_is_read_as_json(value: dict[str, Any]) -> None:
    assert read_document("x", orjson.dumps(value)).value == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", "yes"),
        ("on", "on"),
        ("2026-01-01", "2026-01-01"),
        ("12:30", "12:30"),
        ("007", "007"),
        ("1_000", "1_000"),
        (".inf", ".inf"),
        ("'5'", "5"),
        ("!!str 5", "5"),
        ("!!str true", "true"),
        ("5", 5),
        ("-0.5", -0.5),
        ("1e3", 1000.0),
        ("true", True),
        ("~", None),
        ("", None),
        ("[a, {b: c}]", ["a", {"b": "c"}]),
        ("|\n  one\n  two\n", "one\ntwo\n"),
    ],
)
def test_yaml_is_read_by_the_core_schema(text: str, value: Any) -> None:
    assert read_document("x", f"field: {text}".encode()).value == {"field": value}


def test_an_alias_stands_for_what_it_names() -> None:
    assert read_document("x", b"a: &one {b: 1}\nc: *one").value == {"a": {"b": 1}, "c": {"b": 1}}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "f: There is nothing in it."),
        (b"\xff", "f: This is not UTF-8 text."),
        (b"a: 1\na: 2\n", "f:2: The field 'a' is there twice."),
        (b"a:\n- [1\n", "f:"),
        (b"a: b: c", "f:1: This is not YAML: mapping values are not allowed"),
        (b"a: 1\nb: !!python/object:os.system x", "f:2: The tag "),
        (b"a: !own {}", "f:1: The tag !own is not known"),
        (b"? [a]\n: 1", "f:1: The name of a field is a text."),
        (b"a: 1\n---\nb: 1\n", "f:2: This is not YAML"),
        (b'{"a":\n}', "f:2: This is not JSON"),
        (b"a: 1\nb: 1e999", "f:2: This number is too large."),
        (b"a: 1\nb: " + b"9" * 5000, "f:2: This number is too large."),
        (b"a: &a [*a]", "f: An alias stands for what it is in itself."),
        (b"a: &a [x, x]\nb: &b [*a, *a]\nc: " + b"&c [" + b"*b, " * 15_000 + b"*b]", "f:"),
    ],
    ids=[
        "empty",
        "bytes",
        "twice",
        "cut",
        "nested",
        "python",
        "own",
        "key",
        "two",
        "json",
        "inf",
        "digits",
        "itself",
        "aliases",
    ],
)
def test_what_is_no_document_is_told_with_its_line(text: bytes, said: str) -> None:
    with pytest.raises(NoDocument) as caught:
        read_document("f", text)
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize("text", ["NaN", '{"a": Infinity}', "1e999", '"\\ud800"', "{"])
def test_an_input_that_json_has_not_names_the_option(text: str) -> None:
    with pytest.raises(BadInput, match=r"^--input: This is not JSON"):
        read_input(text, "--input")


@pytest.mark.parametrize("text", ["[" * 100_000, "- " * 100_000])
def test_what_is_nested_very_deep_is_refused(text: str) -> None:
    with pytest.raises(NoDocument):
        read_document("f", text.encode())


DOCUMENT = b"name: x\nsteps:\n- id: a\n  config:\n    on/off: |\n      long\n    b~: 1\n"


@pytest.mark.parametrize(
    ("pointer", "line"),
    [
        ("", 1), ("/steps", 2), ("/steps/0", 3), ("/steps/0/config/on~1off", 5), ("/steps/0/config/b~0", 7),
        ("/steps/0/config/absent/x", 4), ("/absent", 1),
    ],
)  # fmt: skip
def test_each_field_has_its_line_and_an_absent_one_that_of_what_it_is_missing_from(
    pointer: str, line: int
) -> None:
    assert read_document("f", DOCUMENT).line_of(pointer) == line
    assert read_document("f", orjson.dumps(yaml.safe_load(DOCUMENT))).line_of(pointer) == 1


def test_a_place_is_written_as_people_do() -> None:
    assert place_of("/steps/2/config/on~1off") == "steps[2].config.on/off"
