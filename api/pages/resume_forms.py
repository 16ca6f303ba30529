"""The form that answers a waiting step: its fields from the step's `input_schema`, and their values.

An object has a field for each property; any other answer has one field. Strings, numbers, booleans and enums
have fields of their own kind; anything else is written as JSON.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast
from urllib.parse import parse_qsl

from api.http.json_body import parse_json
from api.problems import Problem
from language.expressions.values import compact_json
from language.findings import pointer_of
from models.errors import FieldError

JSONObject = dict[str, Any]
Kind = Literal["text", "number", "boolean", "choice", "json"]

MAX_FIELDS = 2000
_KIND_OF_TYPE: dict[str, Kind] = {
    "string": "text",
    "number": "number",
    "integer": "number",
    "boolean": "boolean",
}
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_LONG_TEXT = 100


@dataclass(frozen=True)
class FormField:
    """A field of the form.

    Attributes:
        name: of the property; None for the answer as a whole.
        key: its name in the form.
        choices: the choices of a boolean or an enum; the form sends the index.
        given: the initial value.
    """

    name: str | None
    key: str
    kind: Kind
    label: str
    hint: str
    required: bool
    choices: Sequence[Any] = ()
    given: str = ""
    is_long: bool = False


@dataclass
class Answer:
    """The content of a submitted form.

    Attributes:
        body: the answer, in the form of a JSON body.
        entered: the text of each field, by its key.
        errors: the error of a field, by its key; of the form as a whole, by the empty one.
    """

    body: Any = None
    entered: dict[str, str] = field(default_factory=dict[str, str])
    errors: dict[str, str] = field(default_factory=dict[str, str])


def fields_of(schema: JSONObject | None) -> list[FormField]:
    """Return the fields of a form; without a schema one for any JSON, which may be left empty."""
    if schema is None:
        hint = "JSON, such as true or a text in quotes. It may stay empty."
        return [FormField(None, "answer", "json", "Answer", hint, required=False)]
    properties: Any = schema.get("properties")
    if _kind_of(schema) != "json" or not isinstance(properties, dict) or not properties:
        return [_field(None, "answer", schema, required=True)]
    required: Any = schema.get("required", [])
    named = enumerate(cast(JSONObject, properties).items())
    return [_field(name, f"field{n}", one, required=name in required) for n, (name, one) in named]


def _field(name: str | None, key: str, schema: Any, *, required: bool) -> FormField:
    kind = _kind_of(schema)
    facts = cast(JSONObject, schema) if isinstance(schema, dict) else {}
    choices: list[Any] = facts["enum"] if kind == "choice" else [True, False] if kind == "boolean" else []
    hint = _text(facts.get("description"))
    if kind == "json":
        hint = f"{hint} Written as JSON.".strip()
    return FormField(
        name=name,
        key=key,
        kind=kind,
        label=_text(facts.get("title")) or name or "Answer",
        hint=hint,
        required=required,
        choices=choices,
        given=_show_answer(facts, kind, choices),
        is_long=kind == "text" and facts.get("maxLength", _LONG_TEXT + 1) > _LONG_TEXT,
    )


def _kind_of(schema: Any) -> Kind:
    facts = cast(JSONObject, schema) if isinstance(schema, dict) else {}
    if isinstance(facts.get("enum"), list):
        return "choice"
    types: Any = facts.get("type")
    known = [types] if isinstance(types, str) else [one for one in types or () if one != "null"]
    return _KIND_OF_TYPE.get(known[0], "json") if len(known) == 1 else "json"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _show_answer(facts: JSONObject, kind: Kind, choices: list[Any]) -> str:
    if "default" not in facts:
        return ""
    value = facts["default"]
    if kind in ("boolean", "choice"):
        return str(choices.index(value)) if value in choices else ""
    return value if kind == "text" and isinstance(value, str) else compact_json(value)


def read_form(raw: bytes, fields: Sequence[FormField]) -> Answer:
    """Read a submitted form. Empty fields are left out.

    Args:
        raw: the body: `application/x-www-form-urlencoded`, in UTF-8.
        fields: of the form.
    """
    answer = Answer()
    try:
        pairs = parse_qsl(raw.decode(errors="replace"), keep_blank_values=True, max_num_fields=MAX_FIELDS)
    except ValueError:
        answer.errors[""] = "The form has too many fields."
        return answer
    answer.entered = {key: value.replace("\r\n", "\n") for key, value in pairs}
    found: JSONObject = {}
    for one in fields:
        text = answer.entered.get(one.key, "")
        if not text.strip():
            continue
        try:
            found[one.name or ""] = _value(one, text)
        except ValueError as error:
            answer.errors[one.key] = str(error)
    answer.body = found.get("") if fields[0].name is None else found
    return answer


def _value(one: FormField, text: str) -> Any:
    """Return the value of a field.

    Raises:
        ValueError: it is not of the field's kind; the message names valid values.
    """
    if one.kind == "text":
        if "\0" in text:
            raise ValueError("Text may not contain NUL characters.")
        return text
    text = text.strip()
    if one.kind in ("boolean", "choice"):
        if not text.isdecimal() or int(text[:6]) >= len(one.choices):
            raise ValueError("Choose one of the answers.")
        return one.choices[int(text[:6])]
    if one.kind == "number" and not _NUMBER.fullmatch(text):
        raise ValueError("Give a number, such as 12 or 0.5.")
    try:
        return parse_json(text.encode())
    except Problem as problem:
        if one.kind == "number":
            raise ValueError("This number is too large.") from None
        raise ValueError(f"Give JSON, with texts in double quotes. {problem.detail}") from None


def note_errors(answer: Answer, fields: Sequence[FormField], errors: Sequence[FieldError]) -> None:
    """Attach the schema errors of an answer to the fields that they concern."""
    whole = fields[0].key if fields[0].name is None else ""
    for error in errors:
        keys = (
            one.key
            for one in fields
            if one.name is not None and f"{error.pointer}/".startswith(f"{pointer_of([one.name])}/")
        )
        key = next(keys, whole)
        place = error.pointer if key == whole else ""
        answer.errors.setdefault(key, f"{place}: {error.message}" if place else error.message)
