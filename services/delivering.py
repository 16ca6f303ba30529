"""Delivering an event: one attempt, signed and guarded, and what follows from how it went."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import logs
from models import endpoints, events
from models.delivery_work import Attempt, Delivery, Ending
from outbound.client import Outbound
from outbound.errors import OutboundError
from outbound.signing import signed_headers
from sealing import Keyring, UnsealError

_log = logs.get(__name__)
SECONDS = 15.0
"""How long an attempt may take."""
_BODY_BYTES = 16 * 1024
_LONGEST_RETRY_AFTER = 3600.0
# A whole endpoint is paused for as long as its receiver asks, within this; the one delivery longer.
_LONGEST_PAUSE = 60.0
# Delays are up to so much longer, so that what failed together does not come back together.
_JITTER = 0.2
_GONE, _THROTTLED = 410, frozenset({429, 503})
# Faults of the endpoint itself, which no repetition mends.
_FINAL = frozenset({"forbidden_address", "forbidden_header", "invalid_request"})


class Plan(NamedTuple):
    """What follows from an attempt.

    Attributes:
        ending: what becomes of the delivery.
        delay: seconds until its next attempt, if there is one.
        pause: seconds for which the whole endpoint gets nothing.
        gone: the endpoint is to be switched off.
    """

    ending: Ending
    delay: float = 0.0
    pause: float = 0.0
    gone: bool = False


async def attempt(outbound: Outbound, keyring: Keyring, delivery: Delivery) -> Attempt:
    """Send a delivery once. Whatever comes of it is the attempt that is returned."""
    try:
        sending = endpoints.unseal(keyring, delivery.endpoint_id, delivery.sealed)
    except UnsealError:
        _log.error("endpoint_not_opened", endpoint_id=str(delivery.endpoint_id))
        message = "The endpoint's secret was sealed with a key that is no longer known."
        return Attempt(
            delivery.manual, datetime.now(UTC), 0, None, None, code="secret_not_opened", message=message
        )
    body = events.envelope(delivery.event_type, delivery.data, delivery.created_at)
    loop = asyncio.get_running_loop()
    began_at, began = datetime.now(UTC), loop.time()

    def sign() -> Mapping[str, str]:
        # When its turn has come: a signature is good for five minutes.
        nonlocal began_at, began
        began_at, began = datetime.now(UTC), loop.time()
        secrets = sending.secrets_at(began_at)
        return signed_headers(secrets, str(delivery.event_id), int(began_at.timestamp()), body)

    status: int | None = None
    text: str | None = None
    code: str | None = None
    message: str | None = None
    retry_after: float | None = None
    try:
        answer = await outbound.send(
            "POST",
            delivery.url,
            headers={**sending.headers, "Content-Type": "application/json"},
            headers_at_start=sign,
            body=body,
            timeout=SECONDS,
            max_bytes=_BODY_BYTES,
            truncate=True,
            owner=f"deliveries/{delivery.account_id}",
        )
    except OutboundError as error:
        code, message = error.code, str(error)
    except Exception as error:
        # A fault of ours, of which other deliveries know nothing: tried again by the schedule.
        _log.error("delivery_not_sent", delivery_id=str(delivery.delivery_id), exc_info=error)
        code, message = "internal_error", "The service failed to send this."
    else:
        # Postgres keeps no NUL in a text.
        status, text = answer.status, answer.body.decode(errors="replace").replace("\0", "")
        retry_after = answer.retry_after()
        code, message = _judge(status)
    duration = round((loop.time() - began) * 1000)
    return Attempt(delivery.manual, began_at, duration, status, text, code, message, retry_after)


def _judge(status: int) -> tuple[str | None, str | None]:
    """The code and message of an answer that is no success."""
    if 200 <= status < 300:
        return None, None
    if 300 <= status < 400:
        return "redirected", f"The endpoint answered {status}; redirects are not followed: change its URL."
    return "http_status", f"The endpoint answered {status}; only 2xx is success."


def plan(attempt: Attempt, tries: int, schedule: Sequence[float]) -> Plan:
    """Say what follows from an attempt.

    Args:
        attempt: how it went.
        tries: how many there were before it since the delivery began its schedule.
        schedule: the delays between attempts, in seconds.
    """
    if attempt.code is None:
        return Plan("delivered")
    status, asked = attempt.response_status, attempt.retry_after or 0.0
    pause = min(asked, _LONGEST_PAUSE) if status in _THROTTLED else 0.0
    if status == _GONE:
        return Plan("failed", gone=True)
    if attempt.code in _FINAL or tries >= len(schedule):
        return Plan("failed", pause=pause)
    delay = max(schedule[tries], min(asked, _LONGEST_RETRY_AFTER))
    return Plan("retry", delay * random.uniform(1, 1 + _JITTER), pause)
