"""Confirmations of bulk actions: what a dry run gives, and the action itself asks for.

A confirmation is not stored: it has the id of the action to be, whose first bits are the moment of the dry
run, and a signature over everything that the action must have in common with the dry run.
"""

from __future__ import annotations

import base64
import hmac
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any, Literal
from uuid import UUID

import orjson

from models.errors import Conflict
from sealing import Keyring, decode_base64url

Action = Literal["retry", "cancel"]
RetriedVersion = Literal["same", "newest"]
MINUTES = 10
"""The life of a confirmation."""
_PURPOSE = "bulk action"
_ID_BYTES, _MAC_BYTES = 16, 24


@dataclass(frozen=True, slots=True)
class Wish:
    """A wish to do something to many runs.

    Attributes:
        account_id: the owner of the runs.
        credential_id: of the key or the session that asks.
        action: what to do.
        version: the workflow's version of a retry: that of the run, or the current one.
        filter: of the runs, as it was sent.
    """

    account_id: UUID
    credential_id: UUID
    action: Action
    version: RetriedVersion
    filter: dict[str, Any]


def make_confirmation(keyring: Keyring, action_id: UUID, wish: Wish) -> str:
    """Return the confirmation of an action: 54 characters that need no escaping in a URL."""
    mac = _mac(keyring.derive_keys(_PURPOSE)[0], action_id, wish)
    return base64.urlsafe_b64encode(action_id.bytes + mac).decode().rstrip("=")


def read_confirmation(keyring: Keyring, text: str, wish: Wish) -> UUID:
    """Return the id of the action that a confirmation allows, however old it is.

    Raises:
        Conflict: `confirmation_mismatch`, unless this installation gave it for this wish.
    """
    given = decode_base64url(text)
    if given is not None and len(given) == _ID_BYTES + _MAC_BYTES:
        action_id, mac = UUID(bytes=given[:_ID_BYTES]), given[_ID_BYTES:]
        # All keys are tried, so that a key rotation ends no confirmation.
        if any(hmac.compare_digest(_mac(k, action_id, wish), mac) for k in keyring.derive_keys(_PURPOSE)):
            return action_id
    message = (
        "This confirmation is of another credential, filter, action or version: make a dry run of this one."
    )
    raise Conflict("confirmation_mismatch", message)


def check_age(action_id: UUID) -> None:
    """Refuse a confirmation that is too old.

    Raises:
        Conflict: `confirmation_expired`.
    """
    if moment_of(action_id) < datetime.now(UTC) - timedelta(minutes=MINUTES):
        message = f"A confirmation is good for {MINUTES} minutes: make the dry run again."
        raise Conflict("confirmation_expired", message)


def moment_of(action_id: UUID) -> datetime:
    """Return when the dry run was."""
    return datetime.fromtimestamp((action_id.int >> 80) / 1000, UTC)


def _mac(key: bytes, action_id: UUID, wish: Wish) -> bytes:
    signed = action_id.bytes + orjson.dumps(wish, option=orjson.OPT_SORT_KEYS)
    return hmac.new(key, signed, sha256).digest()[:_MAC_BYTES]
