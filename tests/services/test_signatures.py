"""Signatures of events: right by the services' own examples and libraries, and never by chance."""

from __future__ import annotations

import base64
import hashlib
import hmac
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pytest
import standardwebhooks
from starlette.datastructures import Headers

from language.triggers import Signature
from services.signatures import (
    TOLERANCE_SECONDS,
    InvalidSignature,
    Signed,
    flaw_of,
    headers_of,
    repeat_key,
    verify,
)

SLACK_BODY = (
    "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V"
    "&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text="
    "&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN"
    "&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
)
STRIPE_BODY = '{"id": "evt_1MqqbKLt4dXK03v5qaIbiNCC", "object": "event", "type": "customer.created"}'


class Example(NamedTuple):
    """A request as its service sends it."""

    scheme: str
    secret: str
    headers: dict[str, str]
    body: str
    now: int = 0
    header: str | None = None

    @property
    def signature(self) -> Signature:
        given = {"scheme": self.scheme, "secret": "KEY", "header": self.header}
        return Signature.model_validate(given)


def check(example: Example) -> Signed:
    body = example.body.encode()
    return verify(example.signature, example.secret, Headers(example.headers), body, example.now)


def refused(example: Example) -> bool:
    try:
        check(example)
    except InvalidSignature:
        return True
    return False


OURS = "a secret of ours"
PLAIN = hmac.new(OURS.encode(), b"{}", hashlib.sha256)
EXAMPLES = {
    "GitHub's own": Example(
        "github", "It's a Secret to Everybody",
        {"X-Hub-Signature-256": "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"},
        "Hello, World!",
    ),
    "Slack's own": Example(
        "slack", "8f742231b10e8888abcd99yyyzzz85a5",
        {
            "X-Slack-Request-Timestamp": "1531420618",
            "X-Slack-Signature": "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
        },
        SLACK_BODY, 1531420618,
    ),
    "of Stripe's library": Example(
        "stripe", "whsec_test_secret",
        {
            "Stripe-Signature": "t=1492774577,"
            "v0=6ffbb59b2300aae63f272406069a9788598b792a944a07aba816edb039989a39,"
            "v1=999a18c4955474250b917a303cc28544fb45a128393ed5866514a83a25e0a6f6"
        },
        STRIPE_BODY, 1492774577,
    ),
    "of Standard Webhooks' specification": Example(
        "standard-webhooks", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        {
            "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek", "webhook-timestamp": "1614265330",
            "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
        },
        '{"test": 2432232314}', 1614265330,
    ),
    "in hex": Example("hmac-sha256", OURS, {"X-Signature": PLAIN.hexdigest()}, "{}"),
    "in hex, upper case": Example("hmac-sha256", OURS, {"X-Signature": PLAIN.hexdigest().upper()}, "{}"),
    "in hex with its algorithm": Example(
        "hmac-sha256", OURS, {"X-Signature": f"sha256={PLAIN.hexdigest()}"}, "{}"
    ),
    "in base64 in a header of its own": Example(
        "hmac-sha256", OURS, {"X-Shop-Hmac": base64.b64encode(PLAIN.digest()).decode()}, "{}", 0,
        "X-Shop-Hmac",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", EXAMPLES)
def test_a_request_that_was_signed_with_the_secret_is_the_senders(case: str) -> None:
    assert check(EXAMPLES[case]).scheme == EXAMPLES[case].scheme


@pytest.mark.parametrize("case", EXAMPLES)
def test_with_another_secret_body_or_header_it_is_not(case: str) -> None:
    example = EXAMPLES[case]
    other_key = "whsec_" + base64.b64encode(b"another key, as long").decode()
    others = [
        example._replace(secret=other_key),
        example._replace(body=example.body + " "),
        example._replace(headers={}),
        *(
            example._replace(headers={**example.headers, name: value})
            for name in example.headers
            for value in ("", "0", "x" * 100, example.headers[name][:-2], example.headers[name][::-1], "ü=,é")
        ),
    ]
    assert [other for other in others if not refused(other)] == []


TIMED = [case for case, example in EXAMPLES.items() if example.now]


@pytest.mark.parametrize("case", TIMED)
def test_a_time_counts_for_five_minutes_in_either_direction(case: str) -> None:
    example = EXAMPLES[case]
    seconds = (-TOLERANCE_SECONDS - 1, -TOLERANCE_SECONDS, TOLERANCE_SECONDS, TOLERANCE_SECONDS + 1)
    taken = [not refused(example._replace(now=example.now + by)) for by in seconds]
    assert taken == [False, True, True, False]


TIMES = ["", "-1", "1e3", "1.0", " 1531420618", "+1531420618", "1" * 30, "١", "nan"]


@pytest.mark.parametrize("timestamp", TIMES)
def test_a_time_that_is_no_number_of_seconds_is_refused_although_it_was_signed(timestamp: str) -> None:
    signed = hmac.new(OURS.encode(), f"v0:{timestamp}:{{}}".encode("latin-1", "replace"), hashlib.sha256)
    headers = {
        "X-Slack-Request-Timestamp": timestamp.encode("latin-1", "replace").decode("latin-1"),
        "X-Slack-Signature": f"v0={signed.hexdigest()}",
    }
    assert refused(Example("slack", OURS, headers, "{}", 1531420618))


def standard(message_id: str, now: int, *secrets: str, body: str = "{}") -> dict[str, str]:
    """Headers as the library of Standard Webhooks makes them."""
    moment = datetime.fromtimestamp(now, UTC)
    signatures = [standardwebhooks.Webhook(secret).sign(message_id, moment, body) for secret in secrets]
    return {
        "webhook-id": message_id, "webhook-timestamp": str(now), "webhook-signature": " ".join(signatures)
    }  # fmt: skip


OLD, NEW = ("whsec_" + base64.b64encode(bytes([n]) * 32).decode() for n in (1, 2))


@pytest.mark.parametrize("secret", [OLD, NEW])
def test_while_a_secret_is_replaced_either_signature_counts(secret: str) -> None:
    headers = standard("m1", 1000, OLD, NEW)
    assert check(Example("standard-webhooks", secret, headers, "{}", 1000)).name == "m1"


def test_of_stripes_signatures_each_v1_counts_and_no_other() -> None:
    example = EXAMPLES["of Stripe's library"]
    time, other, right = example.headers["Stripe-Signature"].split(",")
    rotated = f"{time},{other.replace('v0', 'v1')},{right}"
    assert not refused(example._replace(headers={"Stripe-Signature": rotated}))
    assert refused(example._replace(headers={"Stripe-Signature": f"{time},{right.replace('v1', 'v0')}"}))


def test_standard_webhooks_under_other_names_are_found_by_the_name_of_their_signature() -> None:
    named = {name.replace("webhook", "svix"): value for name, value in standard("m1", 1000, OLD).items()}
    example = Example("standard-webhooks", OLD, named, "{}", 1000, "Svix-Signature")
    assert headers_of(example.signature) == ("Svix-id", "Svix-timestamp", "Svix-Signature")
    assert check(example).name == "m1"


def test_a_part_of_the_body_is_not_taken_for_the_time() -> None:
    """What was signed at 1000 with the body 9000.5 reads as if signed at 9000."""
    headers = standard("m1", 1000, OLD, body="9000.5") | {
        "webhook-id": "m1.1000", "webhook-timestamp": "9000"
    }  # fmt: skip
    assert refused(Example("standard-webhooks", OLD, headers, "5", 9000))


@pytest.mark.parametrize("secret", ["whsec_not base64", "no/base64!", "whsec_", "", "whsec_c2hvcnQ="])
def test_a_secret_that_is_none_for_the_scheme_is_told_from_a_wrong_signature(secret: str) -> None:
    with pytest.raises(ValueError):
        check(EXAMPLES["of Standard Webhooks' specification"]._replace(secret=secret))


SECRETS = {
    "github": ["x" * 16, "ключ" * 2], "stripe": ["whsec_" + "x" * 10], "hmac-sha256": ["x" * 16],
    "slack": ["8f742231b10e8888abcd99yyyzzz85a5"],
    "standard-webhooks": ["whsec_" + base64.b64encode(b"x" * 16).decode(), OLD],
}  # fmt: skip
WEAK = {
    "github": ["", "x" * 15], "stripe": ["whsec_"], "slack": ["x"], "hmac-sha256": ["password"],
    "standard-webhooks": ["whsec_", "whsec_" + base64.b64encode(b"x" * 15).decode(), "x" * 16 + "!"],
}  # fmt: skip


@pytest.mark.parametrize("scheme", SECRETS)
def test_a_secret_that_signs_has_sixteen_bytes(scheme: str) -> None:
    assert [secret for secret in SECRETS[scheme] if flaw_of(scheme, secret) is not None] == []
    assert [secret for secret in WEAK[scheme] if flaw_of(scheme, secret) is None] == []
    for secret in WEAK[scheme]:
        example = next(one for one in EXAMPLES.values() if one.scheme == scheme)
        empty = hmac.new(b"", example.body.encode(), hashlib.sha256).hexdigest()
        with pytest.raises(ValueError):
            check(example._replace(secret=secret, headers={"X-Signature": empty}))


def key_of(example: Example, payload: Any) -> str | None:
    return repeat_key(check(example), payload)


def test_stripe_and_slack_sign_each_attempt_anew_and_the_event_tells_a_repeat() -> None:
    example = EXAMPLES["of Stripe's library"]
    later = example.now + 3600
    signed = hmac.new(example.secret.encode(), f"{later}.{STRIPE_BODY}".encode(), hashlib.sha256)
    again = example._replace(headers={"Stripe-Signature": f"t={later},v1={signed.hexdigest()}"}, now=later)
    assert key_of(example, {"id": "evt_1"}) == key_of(again, {"id": "evt_1"})
    assert key_of(example, {"id": "evt_1"}) != key_of(example, {"id": "evt_2"})
    assert key_of(example, {}) != key_of(again, {})
    slack = EXAMPLES["Slack's own"]
    assert key_of(slack, {"event_id": "Ev1"}) != key_of(slack, {"event_id": "Ev2"})


UNTOLD: list[Any] = [None, [], "x", 5, {"id": 5}, {"id": ""}, {"id": None}, {"other": "x"}]


@pytest.mark.parametrize("payload", UNTOLD, ids=repr)
def test_without_an_id_in_the_body_all_that_was_signed_tells_a_repeat(payload: Any) -> None:
    example = EXAMPLES["of Stripe's library"]
    upper = example.headers["Stripe-Signature"].replace("999a18c", "999A18C")
    respelt = example._replace(headers={"Stripe-Signature": f"v1={'0' * 64}, {upper}"})
    assert key_of(example, payload) == key_of(respelt, payload) is not None


def test_an_id_of_any_length_is_a_key_of_some() -> None:
    headers = standard("m" * 9000, 1000, OLD)
    key = key_of(Example("standard-webhooks", OLD, headers, "{}", 1000), {})
    assert key is not None and len(key) < 300


def test_of_a_plain_hmac_the_body_tells_a_repeat_however_it_is_written() -> None:
    keys = {key_of(EXAMPLES[name], {}) for name in ("in hex", "in hex, upper case")}
    assert len(keys) == 1
