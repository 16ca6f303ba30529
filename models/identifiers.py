"""Identifiers: UUIDv7, so that an index on them grows at its end and ids sort by time."""

from __future__ import annotations

import os
import threading
import time
from datetime import datetime
from uuid import UUID

_lock = threading.Lock()
_last = 0


def id_at(moment: datetime) -> UUID:
    """Return the least id that is made at this moment: ids are ordered by their time."""
    return UUID(int=min(max(int(moment.timestamp() * 1000), 0), 2**48 - 1) << 80)


def new_id() -> UUID:
    """Return a new UUIDv7 (RFC 9562): 48 bits of Unix milliseconds, then 74 random bits.

    Within a process each id is greater than the one before, even in the same millisecond.
    """
    global _last
    value = time.time_ns() // 1_000_000 << 80 | int.from_bytes(os.urandom(10), "big")
    value = value & ~(0xF000 << 64) & ~(0xC000 << 48) | 0x7000 << 64 | 0x8000 << 48
    with _lock:
        # Counting up cannot reach the version and variant bits within one millisecond.
        value = _last = value if value > _last else _last + 1
    return UUID(int=value)


def parse_id(text: str) -> UUID | None:
    """Return the UUID written as `text` in canonical form, or None: a malformed id is treated as unknown."""
    try:
        value = UUID(text)
    except ValueError:
        return None
    return value if str(value) == text.lower() else None
