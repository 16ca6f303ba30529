"""What we sign is verified by two libraries that share no code, down to SHA-256, with us or each other."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import standardwebhooks

from outbound.signing import new_secret, signed_headers
from tests.pinned_packages import npm_packages, run

Verify = Callable[[str, bytes, dict[str, str]], bool]

JAVASCRIPT = Path(__file__).parent / "javascript"
MESSAGE_ID = "019ab0a2-5f00-7d14-8a61-3e9b5c7d1f20"
BODY = '{"event":"key.created","data":{"name":"Zoë 🔑"}}'.encode()


def python_verifies(secret: str, body: bytes, headers: dict[str, str]) -> bool:
    try:
        standardwebhooks.Webhook(secret).verify(body, headers)
    except standardwebhooks.WebhookVerificationError:
        return False
    return True


def javascript_verifies(secret: str, body: bytes, headers: dict[str, str]) -> bool:
    packages = npm_packages(JAVASCRIPT / "package-lock.json")
    given = json.dumps({"secret": secret, "body": body.decode(), "headers": headers})
    said = run("node", JAVASCRIPT / "verify.js", given=given, NODE_PATH=str(packages))
    return {"genuine\n": True, "refused\n": False}[said]


@pytest.fixture(
    params=[python_verifies, pytest.param(javascript_verifies, marks=pytest.mark.node)],
    ids=["python", "javascript"],
)
def verifies(request: pytest.FixtureRequest) -> Verify:
    return request.param


def now() -> int:
    return int(time.time())


def test_a_request_is_verified_with_its_secret(verifies: Verify) -> None:
    secret = new_secret()
    assert verifies(secret, BODY, signed_headers([secret], MESSAGE_ID, now(), BODY))


def test_a_request_is_verified_with_each_of_two_secrets(verifies: Verify) -> None:
    new, old = new_secret(), new_secret()
    headers = signed_headers([new, old], MESSAGE_ID, now(), BODY)
    assert verifies(new, BODY, headers)
    assert verifies(old, BODY, headers)


def test_a_request_is_refused_with_another_secret(verifies: Verify) -> None:
    assert not verifies(new_secret(), BODY, signed_headers([new_secret()], MESSAGE_ID, now(), BODY))


def test_a_request_with_another_body_is_refused(verifies: Verify) -> None:
    secret = new_secret()
    headers = signed_headers([secret], MESSAGE_ID, now(), BODY)
    assert not verifies(secret, BODY.replace(b"created", b"revoked"), headers)


@pytest.mark.parametrize("name", ["webhook-id", "webhook-timestamp"])
def test_a_request_with_another_header_is_refused(verifies: Verify, name: str) -> None:
    secret, moment = new_secret(), now()
    headers = signed_headers([secret], MESSAGE_ID, moment, BODY)
    others = signed_headers([secret], MESSAGE_ID[:-1] + "1", moment - 1, BODY)
    assert headers[name] != others[name]
    assert not verifies(secret, BODY, headers | {name: others[name]})


@pytest.mark.parametrize("seconds", [-600, 600])
def test_a_request_of_ten_minutes_ago_or_ahead_is_refused(verifies: Verify, seconds: int) -> None:
    secret = new_secret()
    assert not verifies(secret, BODY, signed_headers([secret], MESSAGE_ID, now() + seconds, BODY))


def test_the_newest_secret_signs_first() -> None:
    new, old = new_secret(), new_secret()
    both, first = (signed_headers(secrets, MESSAGE_ID, 1, BODY) for secrets in ([new, old], [new]))
    assert both["webhook-signature"].split(" ")[0] == first["webhook-signature"]


def test_a_secret_is_32_random_bytes() -> None:
    secrets = {new_secret() for _ in range(100)}
    assert len(secrets) == 100
    for secret in secrets:
        assert secret.startswith("whsec_")
        assert len(base64.b64decode(secret.removeprefix("whsec_"), validate=True)) == 32


def test_a_signature_is_that_of_the_published_example() -> None:
    secret, body = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", b'{"test": 2432232314}'
    headers = signed_headers([secret], "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body)
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
