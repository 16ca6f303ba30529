"""`respond`: what of it can be saved, and what it makes of a run."""

from __future__ import annotations

from typing import Any

import pytest

from language.expressions import Budget, ExpressionError
from language.responding import MAX_BODY_BYTES, MAX_HEADER_LENGTH, RespondError, Response, ResponseTemplates
from language.triggers import Respond
from tests.language.documents import Found, errors, report, step, transform

STEPS = [transform("first"), transform("with-hyphen")]
BODY, HEADERS, STATUS = "/trigger/respond/body", "/trigger/respond/headers", "/trigger/respond/status"


def trigger(**respond: Any) -> dict[str, Any]:
    return {"type": "webhook", "respond": respond}


def header(name: str, value: str = "x") -> dict[str, Any]:
    return {"headers": {name: value}}


SAVED: dict[str, tuple[dict[str, Any], Found]] = {
    "nothing": ({}, set()),
    "all of it": (
        {"status": 201, "headers": {"X-Reply-Kind": "{{ trigger.kind }}"}, "body": {"a": ["{{ first }}", 1]}},
        set(),
    ),
    "all that it may read": (
        {"body": ["{{ trigger.a }}", "{{ request.query.q }}", "{{ run.id }}", "{{ workflow.name }}",
                  "{{ steps.first.status }}", '{{ "with-hyphen" }}', "{{ @ }}"]},
        set(),
    ),
    "no such field": ({"code": 200}, {("/trigger/respond/code", "unknown_field")}),
    "a step that is not there": ({"body": {"a": "{{ frist.x }}"}}, {(f"{BODY}/a", "unknown_reference")}),
    "one by steps": ({"body": ["{{ steps.other.output }}"]}, {(f"{BODY}/0", "unknown_reference")}),
    "in a header": (header("X-Reply-A", "{{ nobody }}"), {(f"{HEADERS}/X-Reply-A", "unknown_reference")}),
    "in the status": ({"status": "{{ nobody }}"}, {(STATUS, "unknown_reference")}),
    "a resume URL": ({"body": "{{ run.resume_urls.first }}"}, {(BODY, "resume_url_not_allowed")}),
    "a secret": ({"body": {"a": "x{{ secrets.KEY }}"}}, {(f"{BODY}/a", "secret_not_allowed")}),
    "a secret in a header": (
        header("X-Reply-A", "{{ secrets.KEY }}"), {(f"{HEADERS}/X-Reply-A", "secret_not_allowed")},
    ),
    "an item": ({"body": "{{ item }}"}, {(BODY, "item_outside_for_each")}),
    "a bad expression": ({"body": {"a/b": "{{ a[ }}"}}, {(f"{BODY}/a~1b", "bad_expression")}),
    "a template without an end": ({"body": "{{ a"}, {(BODY, "bad_expression")}),
    "a header name that is none": (header("X A"), {(f"{HEADERS}/X A", "invalid_format")}),
    "a header twice": (
        {"headers": {"X-Reply-A": "1", "x-reply-a": "2"}}, {(f"{HEADERS}/x-reply-a", "duplicate_field")},
    ),
    "a header with a line break": (
        header("X-Reply-A", "a\r\nSet-Cookie: b"), {(f"{HEADERS}/X-Reply-A", "not_allowed")},
    ),
    "a header that is no text": ({"headers": {"X-Reply-A": 5}}, {(f"{HEADERS}/X-Reply-A", "wrong_type")}),
    "a page": (header("Content-Type", "text/html"), {(f"{HEADERS}/Content-Type", "not_allowed")}),
    "a status as text": ({"status": "204"}, set()),
    "a status that is a word": ({"status": "ok"}, {(STATUS, "out_of_range")}),
    "a status that is a truth": ({"status": True}, {(STATUS, "wrong_type")}),
}  # fmt: skip


@pytest.mark.parametrize("case", SAVED)
def test_what_is_wrong_is_found_at_its_place_when_it_is_saved(case: str) -> None:
    respond, expected = SAVED[case]
    assert errors(*STEPS, trigger=trigger(**respond)) == expected


@pytest.mark.parametrize("status", [0, 100, 101, 199, 205, 304, 600, -200])
def test_a_status_that_no_answer_can_have_is_refused(status: int) -> None:
    assert errors(trigger=trigger(status=status)) == {(STATUS, "out_of_range")}


TYPES = {
    "application/json": True, "application/problem+json": True, "Text/Plain": True,
    "text/plain; charset=UTF-8": True, "application/json;charset=utf-8": True, "text/html": False,
    "text/plain; charset=utf-16": False, "text/plain, text/html": False, "application/xhtml+xml": False,
    "image/svg+xml": False, "application/xml": False, "text/xml": False, "text/javascript": False,
    "application/javascript": False, "text/css": False, "multipart/mixed": False, "*/*": False, "": False,
}  # fmt: skip


@pytest.mark.parametrize("media_type", TYPES)
def test_an_answer_is_json_or_plain_text(media_type: str) -> None:
    found = errors(trigger=trigger(headers={"content-type": media_type}))
    assert (found == set()) == TYPES[media_type]
    given = trigger_respond(headers={"content-type": "{{ trigger }}"}, body="x")
    answer = rendered(given, trigger=media_type)
    assert answer.content in (b"x", b'"x"')
    assert TYPES[media_type] or answer.headers == JSON


REFUSED = [
    "Set-Cookie", "transfer-encoding", "Content-Security-Policy-Report-Only", "X-Accel-Redirect",
    "X-Sendfile",
    "X-Reproxy-URL", "X-Lighttpd-Send-File", "Access-Control-Allow-Origin", "Link", "Content-Disposition",
    "Refresh", "Content-Location", "Cache-Control", "Vary", "ETag", "Server", "X-Reply-", "X-Replyx", "Age",
]  # fmt: skip
ALLOWED = {"Content-Language": "de", "retry-after": "5", "X-Reply-Kind": "new", "x-reply-a.b": ""}


@pytest.mark.parametrize("name", REFUSED)
def test_a_header_that_is_not_of_the_list_is_refused_and_never_sent(name: str) -> None:
    found = report(trigger=trigger(**header(name))).errors
    assert [finding[:2] for finding in found] == [(f"{HEADERS}/{name}", "forbidden_header")]
    assert "X-Reply-" in found[0].message and "Content-Type" in found[0].message
    assert rendered(trigger_respond(**header(name))).headers == {}


def test_headers_of_the_list_are_saved_and_sent() -> None:
    assert errors(trigger=trigger(headers=ALLOWED)) == set()
    sent = rendered(trigger_respond(headers=ALLOWED)).headers
    assert sent == {name.lower(): value for name, value in ALLOWED.items()}


# What stands there, what `trigger` is, and whether it can be saved and is sent.
LOCATIONS: list[tuple[str, str, bool, bool]] = [
    ("/thanks", "", True, True),
    ("https://example.com", "", True, True),
    ("https://example.com/thanks?x=1#y", "", True, True),
    ("https://example.com/o/{{ trigger }}", "7", True, True),
    ("https://example.com/o?{{ trigger }}", "@evil.example", True, True),
    ("/orders/{{ trigger }}", "7", True, True),
    ("{{ trigger }}", "/orders/7", True, True),
    ("{{ trigger }}", "https://evil.example/", True, False),
    ("{{ trigger }}", "//evil.example", True, False),
    ("{{ trigger }}", "/\\evil.example", True, False),
    ("{{ trigger }}", "\\\\evil.example", True, False),
    ("{{ trigger }}", "/\t/evil.example", True, False),
    ("{{ trigger }}", "/a b", True, False),
    ("{{ trigger }}", "javascript:alert(1)", True, False),
    ("{{ trigger }}", "orders", True, False),
    ("{{ trigger }}", "", True, False),
    ("/{{ trigger }}", "/evil.example", True, False),
    ("/{{ trigger }}", "\\evil.example", True, False),
    ("/a{{ trigger }}", "\r\nSet-Cookie: a=b", True, False),
    ("https://example.com{{ trigger }}", ".evil.example/", False, False),
    ("https://{{ trigger }}/", "evil.example", False, False),
    ("https://example.com@{{ trigger }}/", "evil.example", False, False),
    ("https://a@evil.example/", "", False, False),
    ("https:{{ trigger }}", "//evil.example", False, False),
    ("//evil.example", "", False, False),
    ("/\\evil.example", "", False, False),
    ("javascript:alert(1)", "", False, False),
    ("ftp://example.com/", "", False, False),
    ("orders", "", False, False),
]


@pytest.mark.parametrize(("text", "value", "saved", "sent"), LOCATIONS)
def test_a_redirect_leads_to_a_site_that_is_written_out_or_to_a_path_of_this_one(
    text: str, value: str, saved: bool, sent: bool
) -> None:
    respond = {"status": 302, "headers": {"Location": text}}
    assert (errors(trigger=trigger(**respond)) == set()) == saved
    answer = rendered(trigger_respond(**respond), trigger=value)
    assert ("location" in answer.headers) == sent


@pytest.mark.parametrize("status", [200, 201, 404, 503])
def test_a_location_goes_with_a_redirect_alone(status: int) -> None:
    headers = {"headers": {"Location": "/thanks"}}
    assert errors(trigger=trigger(status=status, **headers)) == {(f"{HEADERS}/Location", "not_allowed")}
    templated = trigger_respond(status="{{ trigger }}", **headers)
    assert rendered(templated, trigger=status).headers == {}
    assert rendered(templated, trigger=307).headers == {"location": "/thanks"}


def test_its_expressions_count_with_those_of_the_steps() -> None:
    body = ["{{ trigger }}"] * 600
    steps = [step("a", "transform", mapping={f"n{n}": "trigger" for n in range(600)})]
    assert errors(*steps, trigger=trigger(body=body)) == {("/steps", "too_many_expressions")}


def test_what_is_doubtful_in_it_is_warned_of() -> None:
    found = report(trigger=trigger(body='{{ trigger.x == "y" }}')).warnings
    assert [finding[:2] for finding in found] == [(BODY, "doubtful_expression")]


SIGNED = {"type": "webhook", "signature": {"scheme": "stripe", "secret": "KEY"}}


def test_a_dedupe_of_a_signed_event_reads_what_was_signed() -> None:
    read = SIGNED | {"dedupe": "request.headers.id"}
    assert errors(trigger=read) == {("/trigger/dedupe", "unsigned_reference")}
    assert errors(trigger=SIGNED | {"dedupe": "trigger.id"}) == set()


def trigger_respond(**given: Any) -> Respond:
    return Respond.model_validate(given)


def rendered(respond: Respond, **scope: Any) -> Response:
    return ResponseTemplates(respond).render(scope, Budget())


JSON, TEXT = {"content-type": "application/json"}, {"content-type": "text/plain; charset=utf-8"}
PLAIN = {"headers": {"Content-Type": "text/plain"}}
RENDERED: dict[str, tuple[dict[str, Any], Any, tuple[int, dict[str, str], bytes]]] = {
    "nothing": ({}, None, (200, {}, b"")),
    "a status": ({"status": "{{ trigger }}"}, 418, (418, {}, b"")),
    "a status that is text": ({"status": "{{ trigger }}"}, "201", (201, {}, b"")),
    "a status that was computed": ({"status": "{{ trigger }}"}, 202.0, (202, {}, b"")),
    "no content, although there is some": ({"status": 204, "body": "x"}, None, (204, {}, b"")),
    "an object": ({"body": {"a": "{{ trigger }}", "b": 1}}, [None], (200, JSON, b'{"a":[null],"b":1}')),
    "a value": ({"body": "{{ trigger }}"}, 5, (200, JSON, b"5")),
    "null": ({"body": "{{ trigger }}"}, None, (200, JSON, b"null")),
    "a text": ({"body": "hello {{ trigger }}"}, "Ada", (200, JSON, b'"hello Ada"')),
    "plain text": (PLAIN | {"body": "{{ trigger }}"}, "<b>é", (200, TEXT, "<b>é".encode())),
    "a value as plain text": (PLAIN | {"body": "{{ trigger }}"}, {"a": 1}, (200, TEXT, b'{"a":1}')),
    "nothing as plain text": (PLAIN | {"body": "{{ trigger }}"}, None, (200, TEXT, b"")),
    "a header": (header("X-Reply-N", "{{ trigger }}"), 5, (200, {"x-reply-n": "5"}, b"")),
    "a header of nothing": (header("X-Reply-N", " {{ trigger }} "), None, (200, {"x-reply-n": ""}, b"")),
    "what looks like a template is none": (
        {"body": "{{ trigger }}"}, "{{ secrets.KEY }}", (200, JSON, b'"{{ secrets.KEY }}"'),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", RENDERED)
def test_it_is_rendered_over_what_the_run_has(case: str) -> None:
    respond, value, expected = RENDERED[case]
    assert rendered(trigger_respond(**respond), trigger=value) == expected


FAILING: dict[str, tuple[dict[str, Any], Any]] = {
    "a status out of range": ({"status": "{{ trigger }}"}, 99),
    "a status without a body": ({"status": "{{ trigger }}"}, 304),
    "no status": ({"status": "{{ trigger }}"}, None),
    "half a status": ({"status": "{{ trigger }}"}, 200.5),
    "a truth for a status": ({"status": "{{ trigger }}"}, True),
    "a status in other digits": ({"status": "{{ trigger }}"}, "２００"),
    "a large body": ({"body": ["{{ trigger }}", "x" * 1000]}, "y" * (MAX_BODY_BYTES - 500)),
    "a lone surrogate": ({"body": "{{ trigger }}"}, "\ud800"),
    "one in plain text": (PLAIN | {"body": "{{ trigger }}"}, "\ud800"),
}  # fmt: skip


@pytest.mark.parametrize("case", FAILING)
def test_what_may_not_be_sent_fails_by_a_message_without_the_value(case: str) -> None:
    respond, value = FAILING[case]
    with pytest.raises((RespondError, ExpressionError)) as raised:
        rendered(trigger_respond(**respond), trigger=value)
    assert str(value) not in str(raised.value) or value in (None, 99, 304, True)


UNSENDABLE = {
    "a line break": "a\r\nSet-Cookie: a=b", "a lone line feed": "a\nb", "a NUL": "a\0", "beyond ASCII": "é",
    "too long": "x" * (MAX_HEADER_LENGTH + 1),
}  # fmt: skip


@pytest.mark.parametrize("value", UNSENDABLE.values(), ids=UNSENDABLE)
def test_a_header_with_a_value_that_cannot_be_sent_is_left_out(value: str) -> None:
    respond = trigger_respond(headers={"X-Reply-A": "{{ trigger }}", "X-Reply-B": "b"}, body=1)
    assert rendered(respond, trigger=value) == Response(200, JSON | {"x-reply-b": "b"}, b"1")


def test_a_body_that_is_too_deep_to_be_written_fails() -> None:
    deep: Any = "{{ trigger }}"
    for _ in range(99):
        deep = [deep]
    value: Any = 1
    for _ in range(170):
        value = [value]
    with pytest.raises(RespondError):
        rendered(trigger_respond(body=deep), trigger=value)
