"""Resume tokens: the owner of one can post, once, the answer that a step of a run waits for.

A token is not stored: it contains the run and the step, and is signed. Therefore it exists as soon as the run
does, and a workflow can send it before it waits.
"""

from __future__ import annotations

import base64
import hmac
from hashlib import sha256
from typing import NamedTuple
from uuid import UUID

from sealing import Keyring, decode_base64url

_PURPOSE = "resume"
_ID_BYTES, _POSITION_BYTES, _MAC_BYTES = 16, 2, 24


class StepPosition(NamedTuple):
    """The step that a token is for: its position, from 0, in the version that the run executes."""

    run_id: UUID
    position: int


def make_token(keyring: Keyring, place: StepPosition) -> str:
    """Return the token of a step: 56 characters that need no escaping in a URL."""
    named = place.run_id.bytes + place.position.to_bytes(_POSITION_BYTES)
    return base64.urlsafe_b64encode(named + _mac(keyring.derive_keys(_PURPOSE)[0], named)).decode()


def read_token(keyring: Keyring, token: str) -> StepPosition | None:
    """Read a token; return None unless this installation made it, in this spelling."""
    given = decode_base64url(token)
    if given is None:
        return None
    named, mac = given[:-_MAC_BYTES], given[-_MAC_BYTES:]
    if len(named) != _ID_BYTES + _POSITION_BYTES:
        return None
    # All keys are tried, so that tokens from before a key rotation stay valid.
    if not any(hmac.compare_digest(_mac(key, named), mac) for key in keyring.derive_keys(_PURPOSE)):
        return None
    return StepPosition(UUID(bytes=named[:_ID_BYTES]), int.from_bytes(named[_ID_BYTES:]))


def resume_url(keyring: Keyring, address: str, place: StepPosition) -> str:
    """Return the resume URL of a step at the service's public `address`."""
    return f"{address}/api/workflows/resume/{make_token(keyring, place)}"


def _mac(key: bytes, named: bytes) -> bytes:
    return hmac.new(key, named, sha256).digest()[:_MAC_BYTES]
