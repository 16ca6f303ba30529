"""The delivery of an event: one signed and guarded attempt, and the decision that follows from it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import logs
import tracing
from models.events import events
from models.webhooks import endpoints
from models.webhooks.delivery_work import Delivery
from models.webhooks.delivery_writes import Attempt, Ending
from outbound import chain
from outbound.client import Outbound
from outbound.errors import OutboundError
from outbound.lease import LeaseLost
from outbound.requests import OutgoingRequest
from outbound.response import Answer
from outbound.signing import signed_headers
from sealing import Keyring, UnsealError

_log = logs.get(__name__)
SECONDS = 15.0
"""The timeout of an attempt."""
_BODY_BYTES = 16 * 1024
_LONGEST_RETRY_AFTER = 3600.0
# An endpoint is paused as long as its receiver asks, up to this; the one delivery may wait longer.
_LONGEST_PAUSE = 60.0
# Delays are lengthened by up to this share, so that simultaneous failures do not retry simultaneously.
_JITTER = 0.2
_GONE, _THROTTLED = 410, frozenset({429, 503})
# Faults of the endpoint itself, which a retry cannot fix.
_FINAL = frozenset({"forbidden_address", "forbidden_header", "invalid_request"})
_OURS = frozenset({"internal_error", "secret_not_opened"})


class DeliveryDecision(NamedTuple):
    """The decision that follows from an attempt.

    Attributes:
        ending: the new state of the delivery.
        delay: seconds until its next attempt, if there is one.
        pause: seconds for which the whole endpoint receives nothing.
        gone: whether to disable the endpoint.
        ours: whether the fault is the service's own, and does not count against the endpoint.
    """

    ending: Ending
    delay: float = 0.0
    pause: float = 0.0
    gone: bool = False
    ours: bool = False


class _Fault(NamedTuple):
    """The reason why an attempt failed."""

    code: str
    message: str


async def attempt(outbound: Outbound, keyring: Keyring, delivery: Delivery) -> Attempt:
    """Send a delivery once, and return the attempt, whether it succeeded or failed.

    Raises:
        LeaseLost: it was not sent, because another process may be sending it.
    """
    loop = asyncio.get_running_loop()
    began_at, began = datetime.now(UTC), loop.time()
    answer: Answer | None = None
    fault: _Fault | None = None
    try:
        sending = endpoints.unseal(keyring, delivery.endpoint_id, delivery.sealed)
        body = events.envelope(delivery.event_type, delivery.data, delivery.created_at)

        traceparent = tracing.get_traceparent()
        headers = {**sending.headers, "Content-Type": "application/json"}
        if traceparent is not None:
            headers = {"traceparent": traceparent, **headers}
        if delivery.depth is not None:
            headers = chain.with_depth(headers, delivery.depth)

        def sign() -> Mapping[str, str]:
            # Signed when the call begins, because a signature is valid for five minutes.
            nonlocal began_at, began
            began_at, began = datetime.now(UTC), loop.time()
            secrets = sending.secrets_at(began_at)
            return signed_headers(secrets, str(delivery.event_id), int(began_at.timestamp()), body)

        request = OutgoingRequest(
            "POST",
            delivery.url,
            headers,
            headers_at_start=sign,
            body=body,
            timeout=SECONDS,
            max_bytes=_BODY_BYTES,
            truncate=True,
            # The claim shares capacity among accounts. Within an account, a hanging endpoint must not delay
            # the others.
            owner=f"deliveries/{delivery.endpoint_id}",
        )
        answer = await outbound.send(request)
        fault = _judge(answer.status)
    except OutboundError as error:
        fault = _Fault(error.code, str(error))
    except UnsealError:
        _log.error("endpoint_not_opened", endpoint_id=str(delivery.endpoint_id))
        message = "The webhook's secret was sealed with a key that is no longer known."
        fault = _Fault(code="secret_not_opened", message=message)
    except LeaseLost:
        raise
    except Exception as error:
        # A fault of ours that concerns this delivery only: the schedule retries it.
        _log.error("delivery_not_sent", delivery_id=str(delivery.delivery_id), exc_info=error)
        fault = _Fault(code="internal_error", message="The service failed to send this.")
    return Attempt(
        manual=delivery.manual,
        started_at=began_at,
        duration_ms=round((loop.time() - began) * 1000),
        response_status=answer and answer.status,
        # Postgres stores no NUL in a text.
        response_body=answer and answer.body.decode(errors="replace").replace("\0", ""),
        code=fault and fault.code,
        message=fault and fault.message,
        retry_after=answer and answer.retry_after(),
    )


def _judge(status: int) -> _Fault | None:
    """Return the fault of an unsuccessful answer, or None."""
    if 200 <= status < 300:
        return None
    if 300 <= status < 400:
        message = f"The receiver answered {status}. Redirects are not followed: change the webhook's URL."
        return _Fault(code="redirected", message=message)
    return _Fault(code="http_status", message=f"The receiver answered {status}; only 2xx is success.")


def decide_next(attempt: Attempt, tries: int, schedule: Sequence[float]) -> DeliveryDecision:
    """Decide what follows from an attempt.

    Args:
        attempt: the attempt.
        tries: the number of attempts before it since the delivery began its schedule.
        schedule: the delays between attempts, in seconds.
    """
    if attempt.code is None:
        return DeliveryDecision("delivered")
    status, asked = attempt.response_status, attempt.retry_after or 0.0
    pause = min(asked, _LONGEST_PAUSE) if status in _THROTTLED else 0.0
    if status == _GONE:
        return DeliveryDecision("failed", gone=True)
    ours = attempt.code in _OURS
    if attempt.code in _FINAL or tries >= len(schedule):
        return DeliveryDecision("failed", pause=pause, ours=ours)
    delay = schedule[tries] * random.uniform(1, 1 + _JITTER)
    return DeliveryDecision("retry", max(delay, min(asked, _LONGEST_RETRY_AFTER)), pause, ours=ours)
