"""Resume tokens: who has one can post the answer that a step of a run waits for, once.

A token is not kept anywhere: it names the run and the step, and is signed. So it is there as soon as the run
is, and a workflow can send it before it waits.
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


class Place(NamedTuple):
    """What a token is for: the step at a position, from 0, of the version that a run runs."""

    run_id: UUID
    position: int


def make_token(keyring: Keyring, place: Place) -> str:
    """Make the token of a step: 56 characters that stand in a URL as they are."""
    named = place.run_id.bytes + place.position.to_bytes(_POSITION_BYTES)
    return base64.urlsafe_b64encode(named + _mac(keyring.derived(_PURPOSE)[0], named)).decode()


def read_token(keyring: Keyring, token: str) -> Place | None:
    """Read a token; None if this installation has never made it, in this spelling."""
    given = decode_base64url(token)
    if given is None:
        return None
    named, mac = given[:-_MAC_BYTES], given[-_MAC_BYTES:]
    if len(named) != _ID_BYTES + _POSITION_BYTES:
        return None
    # Of all keys, so that what was sent before a rotation stays good.
    if not any(hmac.compare_digest(_mac(key, named), mac) for key in keyring.derived(_PURPOSE)):
        return None
    return Place(UUID(bytes=named[:_ID_BYTES]), int.from_bytes(named[_ID_BYTES:]))


def resume_url(keyring: Keyring, address: str, place: Place) -> str:
    """Give the resume URL of a step; `address`: where this service is reached."""
    return f"{address}/api/workflows/resume/{make_token(keyring, place)}"


def _mac(key: bytes, named: bytes) -> bytes:
    return hmac.new(key, named, sha256).digest()[:_MAC_BYTES]
