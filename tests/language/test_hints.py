"""An error of an expression says where it is, what was found, and what to write; and never misleads."""

from __future__ import annotations

from typing import Any

import pytest

from language import expressions
from language.expressions import ExpressionError, hints
from language.expressions.library import FUNCTIONS


def refused(text: str, scope: dict[str, Any] | None = None) -> ExpressionError:
    with pytest.raises(ExpressionError) as caught:
        expressions.compile(text).evaluate(scope or {})
    return caught.value


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("lenght", "Did you mean length()?"),
        ("lowr", "Did you mean lower()?"),
        ("strts_with", "Did you mean starts_with()?"),
        ("mix", "Did you mean max() or min()?"),
        ("Length", "Write length()."),
        ("startsWith", "Write starts_with()."),
        ("to_lower_case", "Write lower(x)."),
        ("toLowerCase", "Write lower(x)."),
        ("len", "Write length(x)."),
        ("size", "Write length(x)."),
        ("includes", "Write contains(x, y)."),
        ("substr", "Write join('', split(x, '')[0:3]) for the first three characters."),
        ("concat", "Write join('', [a, b]); for arrays [a, b][]."),
        ("now", "No function reads a clock;"),
        ("uuid", "No function gives chance;"),
        ("md5", "Write hash_sha256(x), the only digest."),
        ("default", "Write not_null(a, b), or a || b."),
        ("unique", "Write keys(from_items(x[*].[@, @])), which has each string once."),
    ],
)
def test_a_function_that_others_have_is_answered_with_what_to_write_here(name: str, hint: str) -> None:
    error = refused(f"a && {name}(b)")
    assert (error.code, error.position) == ("unknown_function", 5)
    assert error.message.startswith(f"At character 6: There is no such function. {hint}")


@pytest.mark.parametrize("name", ["nope", "foo", "slower", "ab", "x", "bake", "plan", "l" * 1000])
def test_a_name_that_is_like_nothing_is_answered_with_no_guess(name: str) -> None:
    assert refused(f"{name}(b)").reason == "There is no such function."


def test_what_a_hint_tells_to_write_is_an_expression() -> None:
    shown = [what.removeprefix("Write ") for what in hints._NAMES if what.startswith("Write ")]  # pyright: ignore[reportPrivateUsage]
    assert len(shown) > 40
    for what in shown:
        for text in what.rstrip(".").split("; ")[0].split(", or "):
            text = text.partition(" for ")[0].partition(" where ")[0].partition(": ")[0]
            text = text.partition(" or ")[0].partition(", which ")[0].partition(", the ")[0]
            expressions.compile(text.replace("time", "'2026-12-24'"))


def test_no_name_of_a_hint_is_that_of_a_function() -> None:
    assert hints._INSTEAD.keys() & {name.replace("_", "") for name in FUNCTIONS} == set()  # pyright: ignore[reportPrivateUsage]


DATA: dict[str, Any] = {"word": "x", "mixed": [1, 2, "x"], "rows": [{"n": 1}, {"n": None}], "list": [1, None]}


@pytest.mark.parametrize(
    ("text", "place", "reason"),
    [
        ("lower(nope)", 7, "lower() takes a string, not null."),
        ("word && lower(mixed)", 15, "lower() takes a string, not an array."),
        ("join(', ', mixed)", 12, "join() takes an array of strings, but element 0 is a number."),
        ("sum(list)", 5, "sum() takes an array of numbers, but element 1 is null."),
        ("sort(mixed)", 6, "sort() takes an array of numbers or of strings, but element 2 is a string."),
        ("[word, sort_by(rows, &n)]", 8,
         "The expression of sort_by() gives neither all numbers nor all strings: element 1 is null."),
        ("map(&lower(n), rows)", 12, "lower() takes a string, not a number."),
        ("word | lower(@.x)", 14, "lower() takes a string, not null."),
        ("abs()", 1, "abs() takes 1 argument, not 0."),
        ("trim()", 1, "trim() takes 1 to 2 arguments, not 0."),
        ("word || (", 10, "The expression ends too early."),
        ("date_add(word, 1, 'days')", 1,
         "date_add() takes a time with a zone, 2026-12-24T18:00:00Z, or a date, 2026-12-24."),
    ],
)  # fmt: skip
def test_an_error_names_the_character_what_was_wanted_and_the_type_found(
    text: str, place: int, reason: str
) -> None:
    assert refused(text, DATA).message == f"At character {place}: {reason}"
