"""JSON of conversations, sealed at rest: each value opens only in the row that it was sealed for."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import orjson

from sealing import Keyring

PURPOSE = "chat"


def seal(keyring: Keyring, account_id: UUID, place: object, value: Any) -> bytes:
    """Seal a value of an account for a place: the id of its row, or the id and a number."""
    return keyring.seal(PURPOSE, orjson.dumps(value), f"{account_id}/{place}")


def unseal(keyring: Keyring, account_id: UUID, place: object, sealed: bytes) -> Any:
    """Return a sealed value.

    Raises:
        UnsealError: no key of the ring opens it here.
    """
    return orjson.loads(keyring.open(PURPOSE, sealed, f"{account_id}/{place}"))
