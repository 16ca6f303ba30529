"""Signatures of requests to endpoints: Standard Webhooks 1.0.0, with a shared secret."""

from __future__ import annotations

import base64
import hmac
import secrets as randomness
from collections.abc import Sequence

_PREFIX = "whsec_"
_RANDOM_BYTES = 32


def new_secret() -> str:
    """Return a new secret: `whsec_` and 32 random bytes in base64."""
    return _PREFIX + base64.b64encode(randomness.token_bytes(_RANDOM_BYTES)).decode()


def signed_headers(secrets: Sequence[str], message_id: str, moment: int, body: bytes) -> dict[str, str]:
    """Return the headers that prove the sender, content and time of a request.

    Args:
        secrets: those that receivers may have, newest first; each signs.
        message_id: the same for all attempts of a message; without a dot, which would end it.
        moment: the time of this request, in Unix seconds.
        body: the raw bytes of the request.
    """
    signed = f"{message_id}.{moment}.".encode() + body
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(moment),
        "webhook-signature": " ".join(_signature(secret, signed) for secret in secrets),
    }


def _signature(secret: str, signed: bytes) -> str:
    key = base64.b64decode(secret.removeprefix(_PREFIX))
    return "v1," + base64.b64encode(hmac.digest(key, signed, "sha256")).decode()
