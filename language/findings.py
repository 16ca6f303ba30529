"""The errors of a document: a place, a stable code, and a message that never repeats its values.

Only ids and names of the usual form may be repeated, because an author who fixes a reference must see which
one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple, cast

Message = str | Callable[[Mapping[str, Any]], str]

_KINDS: dict[str, tuple[str, Message]] = {
    "missing": ("required", "This field is required."),
    "extra_forbidden": ("unknown_field", "There is no such field here."),
    "json_invalid": ("invalid_json", "The body is not JSON."),
    "string_too_short": ("too_short", lambda c: f"At least {c['min_length']} characters are needed."),
    "string_too_long": ("too_long", lambda c: f"At most {c['max_length']} characters are allowed."),
    "too_short": ("too_few_items", lambda c: f"Needs {c['min_length']} or more items."),
    "too_long": ("too_many_items", lambda c: f"At most {c['max_length']} items are allowed."),
    "literal_error": ("not_allowed", lambda c: f"Must be {c['expected']}."),
    "enum": ("not_allowed", lambda c: f"Must be {c['expected']}."),
    "greater_than": ("out_of_range", lambda c: f"Must be more than {c['gt']}."),
    "greater_than_equal": ("out_of_range", lambda c: f"Must be {c['ge']} or more."),
    "less_than": ("out_of_range", lambda c: f"Must be less than {c['lt']}."),
    "less_than_equal": ("out_of_range", lambda c: f"Must be {c['le']} or less."),
    "multiple_of": ("out_of_range", lambda c: f"Must be a multiple of {c['multiple_of']}."),
    "finite_number": ("out_of_range", "Must be a finite number."),
    "string_pattern_mismatch": ("invalid_format", lambda c: f"Must fit {c['pattern'].strip('^$')}."),
    "timezone_aware": ("timezone_missing", "A time needs a zone, such as Z."),
    "datetime_future": ("not_in_future", "Must be in the future."),
    "union_tag_invalid": ("not_allowed", lambda c: f"Must be one of {c['expected_tags']}."),
    "union_tag_not_found": ("required", lambda c: f"The field {c['discriminator']} is required."),
}
_TYPE_NAMES = {
    "string": "a string", "int": "an integer", "float": "a number", "bool": "true or false",
    "list": "an array", "set": "an array", "tuple": "an array", "dict": "an object", "model": "an object",
    "dataclass": "an object", "mapping": "an object", "datetime": "a time in ISO 8601", "date": "a date",
    "time": "a time of day", "uuid": "a UUID", "url": "a URL", "decimal": "a number", "none": "null",
}  # fmt: skip
_EXAMPLES = {
    "Every": 'Must be an object: {"minutes": 90}, {"hours": 6} or {"days": 1}.',
    "Schedule": 'Must be an object, such as {"cron": "0 9 * * MON-FRI"} or {"every": {"minutes": 90}}.',
}
"""The messages about models that are often given in another shape, by class."""
_TYPE_SUFFIXES = (
    "_type", "_parsing", "_from_date_parsing", "_from_datetime_parsing", "_from_datetime_inexact",
    "_from_float", "_attributes_type", "_parsing_size", "_object_invalid",
)  # fmt: skip
_LONGEST_GUESSED = 64
_MOST_EDITS = 2
_IDENTIFIER = re.compile(r"[A-Za-z0-9_-]{1,64}")


class Finding(NamedTuple):
    """One error (or doubt) in a document, at a JSON pointer."""

    pointer: str
    code: str
    message: str


def meaning(kind: str, context: Mapping[str, Any]) -> tuple[str, str]:
    """Return code and message for one of Pydantic's errors, from its `type` and `ctx`."""
    if kind in _KINDS:
        code, message = _KINDS[kind]
        return code, message if isinstance(message, str) else message(context)
    if context.get("class_name") in _EXAMPLES:
        return "wrong_type", _EXAMPLES[context["class_name"]]
    for suffix in _TYPE_SUFFIXES:
        name = kind.removesuffix(suffix)
        if name != kind and name in _TYPE_NAMES:
            return "wrong_type", f"Must be {_TYPE_NAMES[name]}."
    return "invalid_value", "This is not a valid value."


def type_of(value: Any) -> Any:
    """Return the `type` of an object, or None."""
    return cast(dict[str, Any], value).get("type") if isinstance(value, dict) else None


def path_of(location: Sequence[int | str], document: Any, kind: str) -> list[int | str]:
    """Return the path of one of Pydantic's errors in the document, without the names of union members."""
    path: list[int | str] = []
    last = len(location) - 1
    in_arm = False
    for position, part in enumerate(location):
        # Pydantic names the member of a union where the document has its type; a field may have the same
        # name.
        in_arm = not in_arm and position < last and part == type_of(document)
        if in_arm:
            continue
        if isinstance(document, list) and isinstance(part, int) and part < len(cast(list[Any], document)):
            document = cast(list[Any], document)[part]
        elif isinstance(document, dict) and part in document:
            document = cast(dict[int | str, Any], document)[part]
        elif not (kind == "missing" and position == last):
            continue
        path.append(part)
    return path


def pointer_of(path: Iterable[int | str]) -> str:
    """Return a path as a JSON pointer."""
    return "".join(f"/{escape_name(str(part))}" for part in path)


def escape_name(name: str) -> str:
    """Return a name escaped as a part of a JSON pointer."""
    return name.replace("~", "~0").replace("/", "~1")


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that was probably meant, or None."""
    near = get_close_matches(name, list(known), n=1) if len(name) <= _LONGEST_GUESSED else []
    return near[0] if near else None


def near(name: str, known: Iterable[str]) -> list[str]:
    """Return the names that are surely misspelt as this one: same first letter, few edits; at most two."""
    if len(name) > _LONGEST_GUESSED:
        return []
    edits = {one: _edits(name.lower(), one.lower()) for one in known if one[:1].lower() == name[:1].lower()}
    least = min(edits.values(), default=_MOST_EDITS)
    # In a short name, two edits leave too little in common.
    found = [one for one, count in edits.items() if count == least <= min(_MOST_EDITS, len(name) // 3)]
    return found if len(found) <= 2 else []


def _edits(one: str, other: str) -> int:
    """Return the number of inserted, deleted, changed or swapped letters between two words."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        earlier, before, row = before, row, [i]
        for j, wanted in enumerate(other, 1):
            row.append(min(before[j] + 1, row[-1] + 1, before[j - 1] + (letter != wanted)))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == wanted:
                row[-1] = min(row[-1], earlier[j - 2] + 1)
    return row[-1]


def describe_named(noun: str, name: str) -> str:
    """Return `step abc`, if the name may be repeated; else `step of this name`."""
    return f"{noun} {name}" if _IDENTIFIER.fullmatch(name) else f"{noun} of this name"


def missing_secret(name: str, known: Iterable[str] = ()) -> str:
    """Return a message that a secret does not exist, with the way to store it."""
    command = f"vedette secrets set {name if _IDENTIFIER.fullmatch(name) else 'NAME'}"
    meant = suggestion(name, known)
    missing = f"There is no {describe_named('secret', name)}.{meant}"
    return f"{missing} Store it: POST /api/workflows/secrets, or {command}."


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return ` Did you mean that?` for the nearest name, or an empty text."""
    near = nearest(name, known)
    return f" Did you mean {near}?" if near else ""
