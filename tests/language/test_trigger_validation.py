"""Triggers: checked in full when they are saved, whether they fire yet or not."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter

from language.triggers import Trigger, readable_request
from tests.language.documents import Found, errors, message, report


def schedule(**given: Any) -> dict[str, Any]:
    return {"type": "schedule", "schedule": given}


SIGNATURE = {"scheme": "github", "secret": "KEY"}
TRIGGERS: dict[str, tuple[dict[str, Any], Found]] = {
    "manual": ({"type": "manual"}, set()),
    "a webhook": ({"type": "webhook", "dedupe": "trigger.id"}, set()),
    "a dedupe of the request": ({"type": "webhook", "dedupe": 'request.headers."x-id"'}, set()),
    "a dedupe that reads a step": (
        {"type": "webhook", "dedupe": "a.id"}, {("/trigger/dedupe", "unknown_reference")},
    ),
    "a dedupe that compares with a name": ({"type": "webhook", "dedupe": 'trigger.x == "y"'}, set()),
    "a bad dedupe": ({"type": "webhook", "dedupe": "a["}, {("/trigger/dedupe", "bad_expression")}),
    "a signature": ({"type": "webhook", "signature": SIGNATURE | {"header": "X-Signature"}}, set()),
    "a signature with no such secret": (
        {"type": "webhook", "signature": SIGNATURE | {"secret": "NOPE"}},
        {("/trigger/signature/secret", "unknown_secret")},
    ),
    "a signature of no scheme": (
        {"type": "webhook", "signature": SIGNATURE | {"scheme": "rot13"}},
        {("/trigger/signature/scheme", "not_allowed")},
    ),
    "a signature in no header": (
        {"type": "webhook", "signature": SIGNATURE | {"header": "a b"}},
        {("/trigger/signature/header", "invalid_format")},
    ),
    "a cron": (schedule(cron="*/5 9-17 * * MON-FRI", timezone="America/New_York"), set()),
    "a bare cron": ({"type": "schedule", "schedule": "0 9 1 * *", "input": {"a": 1}}, set()),
    "a leap day": (schedule(cron="0 0 29 2 *"), set()),
    "the last day": (schedule(cron="0 0 L * *"), set()),
    "a cron of six fields": (schedule(cron="0 0 9 * * *"), {("/trigger/schedule/cron", "bad_cron")}),
    "a cron by name": (schedule(cron="@daily"), {("/trigger/schedule/cron", "bad_cron")}),
    "a bad minute": (schedule(cron="60 * * * *"), {("/trigger/schedule/cron", "bad_cron")}),
    "a bad hour": (schedule(cron="0 24 * * *"), {("/trigger/schedule/cron", "bad_cron")}),
    "a bad day": (schedule(cron="0 0 32 * *"), {("/trigger/schedule/cron", "bad_cron")}),
    "a bad month": (schedule(cron="0 0 1 13 *"), {("/trigger/schedule/cron", "bad_cron")}),
    "a bad weekday": (schedule(cron="0 0 * * 8"), {("/trigger/schedule/cron", "bad_cron")}),
    "a bad step": (schedule(cron="*/0 * * * *"), {("/trigger/schedule/cron", "bad_cron")}),
    "31 February": (schedule(cron="0 0 31 2 *"), {("/trigger/schedule/cron", "never_fires")}),
    "31 April and June": (schedule(cron="0 0 31 4,6 *"), {("/trigger/schedule/cron", "never_fires")}),
    "a bad bare cron": ({"type": "schedule", "schedule": "x"}, {("/trigger/schedule", "bad_cron")}),
    "no such zone": (
        schedule(cron="0 9 * * *", timezone="Mars/Base"),
        {("/trigger/schedule/timezone", "unknown_timezone")},
    ),
    "a path for a zone": (
        schedule(frequency="daily", timezone="../UTC"), {("/trigger/schedule/timezone", "unknown_timezone")},
    ),
    "every minute": (schedule(every={"minutes": 1}), set()),
    "every year": (schedule(every={"days": 365}), set()),
    "every moment": (
        schedule(every={"minutes": 0}), {("/trigger/schedule/every/minutes", "out_of_range")},
    ),
    "every half minute": (
        schedule(every={"minutes": 0.5}), {("/trigger/schedule/every/minutes", "wrong_type")},
    ),
    "every 366 days": (schedule(every={"days": 366}), {("/trigger/schedule/every/days", "out_of_range")}),
    "every nothing": (schedule(every={}), {("/trigger/schedule/every", "one_duration")}),
    "every this and that": (
        schedule(every={"hours": 1, "days": 1}), {("/trigger/schedule/every", "one_duration")},
    ),
    "a period in a zone": (
        schedule(every={"hours": 1}, timezone="UTC"), {("/trigger/schedule/timezone", "not_allowed")},
    ),
    "a frequency": (schedule(frequency="quarterly", timezone="Asia/Tokyo"), set()),
    "no such frequency": (schedule(frequency="often"), {("/trigger/schedule/frequency", "not_allowed")}),
    "no time at all": (schedule(timezone="UTC"), {("/trigger/schedule", "one_schedule")}),
    "two times": (
        schedule(cron="0 9 * * *", frequency="daily"), {("/trigger/schedule", "one_schedule")},
    ),
    "a schedule that is a number": (
        {"type": "schedule", "schedule": 5}, {("/trigger/schedule", "wrong_type")},
    ),
    "no schedule": ({"type": "schedule"}, {("/trigger/schedule", "required")}),
    "a file": ({"type": "file_upload", "mode": "whole_file", "column_map": {"E-Mail": "email"}}, set()),
    "a column of a file that is named twice": (
        {"type": "file_upload", "column_map": {"E-Mail": "a", "e-mail": "b", "Name": "c"}},
        {(f"/trigger/column_map/{name}", "duplicate_column") for name in ("E-Mail", "e-mail")},
    ),
    "columns of a file that get one name": (
        {"type": "file_upload", "column_map": {"a/b": " x", "c": "x ", "d": "y"}},
        {(f"/trigger/column_map/{name}", "duplicate_column") for name in ("a~1b", "c")},
    ),
    "a column of a file without a name": (
        {"type": "file_upload", "column_map": {"a": " "}}, {("/trigger/column_map/a", "too_short")},
    ),
    "a column of a file with a long name": (
        {"type": "file_upload", "column_map": {"a": "x" * 201}}, {("/trigger/column_map/a", "too_long")},
    ),
    "a file in no mode": ({"type": "file_upload", "mode": "x"}, {("/trigger/mode", "not_allowed")}),
    "a monitor": (
        {"type": "monitor_event", "monitor_id": "0191e4a8-7a5e-7bb0-8f86-5d1b8a4a9b10",
         "event": "monitor.run.failed"},
        set(),
    ),
    "any monitor": ({"type": "monitor_event"}, set()),
    "a monitor without an id": (
        {"type": "monitor_event", "monitor_id": "x"}, {("/trigger/monitor_id", "wrong_type")},
    ),
    "no such event": ({"type": "monitor_event", "event": "x"}, {("/trigger/event", "not_allowed")}),
}  # fmt: skip


@pytest.mark.parametrize("case", TRIGGERS)
def test_triggers_are_checked_in_full(case: str) -> None:
    trigger, expected = TRIGGERS[case]
    assert errors(trigger=trigger, status="draft") == expected


def test_a_dedupe_that_compares_with_a_name_is_warned_of() -> None:
    found = report(trigger={"type": "webhook", "dedupe": 'trigger.x == "y"'}).warnings
    assert [finding[:2] for finding in found] == [("/trigger/dedupe", "doubtful_expression")]


def read_trigger(**given: Any) -> Trigger:
    return TypeAdapter[Trigger](Trigger).validate_python(given)


CREDENTIALS = [
    "Authorization", "Proxy-Authorization", "X-Authorization", "Cookie", "X-Api-Key", "X-Functions-Key",
    "apikey", "X-Gitlab-Token", "X-Auth-Token", "Token", "X-Goog-Channel-Token",
    "X-Telegram-Bot-Api-Secret-Token", "X-Secret", "Client-Secret-Id", "X-Password",
    "X-Slack-Signature", "X-Hub-Signature-256", "X-Hub-Signature", "webhook-signature", "Stripe-Signature",
    "X-Signature", "X-Signature-Ed25519", "Signature-Input", "X-Shopify-Hmac-Sha256",
]  # fmt: skip


@pytest.mark.parametrize("name", CREDENTIALS)
def test_a_callers_credentials_are_not_for_expressions_to_read(name: str) -> None:
    headers = [(name, "canary"), ("X-Shop-Id", "5"), ("Idempotency-Key", "a"), ("X-Tokens-Left", "3")]
    assert readable_request(read_trigger(type="webhook"), headers, {"a": "b"}) == {
        "headers": {"x-shop-id": "5", "idempotency-key": "a", "x-tokens-left": "3"}, "query": {"a": "b"},
    }  # fmt: skip


def test_nor_is_the_header_that_the_trigger_has_its_signature_in() -> None:
    signed = read_trigger(type="webhook", signature=SIGNATURE | {"header": "X-Proof"})
    headers = [("x-proof", "canary"), ("X-Shop-Id", "5")]
    assert readable_request(signed, headers, {})["headers"] == {"x-shop-id": "5"}


def test_a_bad_cron_is_answered_with_an_example() -> None:
    assert "*/15" in message(trigger=schedule(cron="x * * * *"), status="draft")
    assert "0 9 * * MON-FRI" in message(trigger=schedule(cron="5"), status="draft")


@pytest.mark.parametrize("given", ["90m", 90])
def test_a_period_that_is_no_object_is_answered_with_an_example(given: Any) -> None:
    assert '{"minutes": 90}' in message(trigger=schedule(every=given), status="draft")
    assert '{"minutes": 90}' in message(trigger={"type": "schedule", "schedule": 90}, status="draft")
