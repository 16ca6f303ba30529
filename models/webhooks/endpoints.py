"""Endpoints: the addresses to which an account's events are sent, and the secrets that sign them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, cast
from uuid import UUID

import orjson
from pydantic import Field as Described
from sqlalchemy import Boolean, Column, DateTime, ForeignKey, Index, Integer, LargeBinary, Text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlmodel import Field, SQLModel

from database import Connection
from models import audit
from models.audit import Actor, Target
from models.errors import Conflict, NotFound
from models.events import events
from models.events.event_data import WebhookDisabled
from models.views import View
from sealing import Keyring

MAX_ENDPOINTS = 100
PATIENCE = timedelta(days=5)
"""An endpoint that has only failed for this long is switched off."""
_PURPOSE = "endpoints"
_MOST_PREVIOUS = 10

DisabledReason = Literal["gone", "failing"]


class Endpoint(SQLModel, table=True):
    """An endpoint.

    Attributes:
        events: event types, prefixes (`monitor.*`) and `*`.
        sealed: `EndpointSecrets`, as JSON.
        rate_limit: the highest number of deliveries a minute.
        disabled_reason: why the service has switched it off.
        failing_since: the first of the failures since the last success.
        strikes: the number of these failures.
        paused_until: the time until which it gets nothing.
        next_at: the theoretical arrival time of its token bucket.
        served_at: when deliveries for it were last claimed.
    """

    __tablename__ = "endpoints"  # pyright: ignore[reportAssignmentType]
    __table_args__ = (
        Index("ix_endpoints_account_id_id", "account_id", "id"),
        {"postgresql_with": {"fillfactor": 50}},
    )

    id: UUID = Field(primary_key=True)
    account_id: UUID = Field(sa_column=Column(ForeignKey("accounts.id", ondelete="CASCADE"), nullable=False))
    url: str = Field(sa_type=Text)
    events: list[str] = Field(sa_column=Column(ARRAY(Text), nullable=False))
    description: str | None = Field(sa_type=Text)
    sealed: bytes = Field(sa_type=LargeBinary)
    rate_limit: int | None
    is_active: bool = Field(sa_column=Column(Boolean, nullable=False, server_default="true"))
    disabled_reason: str | None = Field(sa_type=Text)
    failing_since: datetime | None = Field(sa_column=Column(DateTime(timezone=True)))
    strikes: int = Field(sa_column=Column(Integer, nullable=False, server_default="0"))
    paused_until: datetime | None = Field(sa_column=Column(DateTime(timezone=True)))
    next_at: datetime | None = Field(sa_column=Column(DateTime(timezone=True)))
    served_at: datetime | None = Field(sa_column=Column(DateTime(timezone=True)))
    created_at: datetime = Field(sa_column=Column(DateTime(timezone=True), nullable=False))
    updated_at: datetime = Field(sa_column=Column(DateTime(timezone=True), nullable=False))


class EndpointView(View):
    """An endpoint as the API shows it."""

    id: UUID = Described(description="The endpoint's id.")
    url: str = Described(description="Where events go.")
    events: list[str] = Described(description="Which: event types, prefixes such as `monitor.*`, or `*`.")
    description: str | None = Described(description="What it is for.")
    headers: dict[str, str] = Described(description="Headers that are sent along.")
    rate_limit: int | None = Described(description="Deliveries a minute at most; null for no bound.")
    is_active: bool = Described(description="Whether events go there.")
    disabled_reason: DisabledReason | None = Described(
        description="Why it was switched off: `gone` (it answered 410), `failing` (five days of failures)."
    )
    created_at: datetime = Described(description="When it was made.")
    updated_at: datetime = Described(description="When it was last changed.")


@dataclass(frozen=True)
class PreviousSecret:
    """A secret that was replaced, and the time until which it still signs."""

    secret: str
    until: datetime


@dataclass(frozen=True)
class EndpointSecrets:
    """The secret data of an endpoint: the secrets that sign requests to it, and their further headers."""

    secret: str
    previous: Sequence[PreviousSecret] = ()
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    def secrets_at(self, moment: datetime) -> list[str]:
        """Return the secrets that sign at this moment, newest first."""
        return [self.secret, *(one.secret for one in self.previous if one.until > moment)]


@dataclass(frozen=True)
class EndpointSettings:
    """The settings of an endpoint."""

    url: str
    events: Sequence[str]
    description: str | None
    headers: Mapping[str, str]
    rate_limit: int | None
    is_active: bool = True


async def has_listener(connection: Connection, account_id: UUID, event_type: str) -> bool:
    """Return whether an active endpoint of the account gets events of a type."""
    cursor = await connection.execute(
        "select exists (select from endpoints where account_id = %s and is_active"
        " and events && event_patterns(%s)) as found",
        (account_id, event_type),
    )
    row = await cursor.fetchone()
    return row is not None and row["found"]


def seal(keyring: Keyring, endpoint_id: UUID, sending: EndpointSecrets) -> bytes:
    """Seal the secret data of an endpoint."""
    return keyring.seal(_PURPOSE, orjson.dumps(asdict(sending)), str(endpoint_id))


def unseal(keyring: Keyring, endpoint_id: UUID, sealed: bytes) -> EndpointSecrets:
    """Open the secret data of an endpoint.

    Raises:
        UnsealError: it was sealed with a key that is not in the keyring.
    """
    held = orjson.loads(keyring.open(_PURPOSE, sealed, str(endpoint_id)))
    previous = [
        PreviousSecret(one["secret"], datetime.fromisoformat(one["until"])) for one in held["previous"]
    ]
    return EndpointSecrets(held["secret"], previous, held["headers"])


async def create(
    connection: Connection, keyring: Keyring, actor: Actor, chosen: EndpointSettings, secret: str
) -> EndpointView:
    """Create an endpoint; call it in a transaction.

    Raises:
        Conflict: the account has 100 endpoints.
    """
    # The lock makes creations of an account run one after the other, so that the limit holds.
    await connection.execute("select from accounts where id = %s for no key update", (actor.account_id,))
    cursor = await connection.execute(
        "select count(*)::int as n, time_ordered_id() as id from endpoints where account_id = %s",
        (actor.account_id,),
    )
    row = cast(dict[str, Any], await cursor.fetchone())
    if row["n"] >= MAX_ENDPOINTS:
        message = f"An account has at most {MAX_ENDPOINTS} webhooks; delete some."
        raise Conflict("too_many_webhooks", message)
    endpoint_id: UUID = row["id"]
    await connection.execute(
        "insert into endpoints (id, account_id, url, events, description, sealed, rate_limit, is_active,"
        " created_at, updated_at) values (%s, %s, %s, %s, %s, %s, %s, %s, now(), now())",
        (
            endpoint_id, actor.account_id, chosen.url, list(chosen.events), chosen.description,
            seal(keyring, endpoint_id, EndpointSecrets(secret, headers=chosen.headers)), chosen.rate_limit,
            chosen.is_active,
        ),
    )  # fmt: skip
    await audit.record(
        connection,
        actor,
        "webhook.created",
        Target("webhook", endpoint_id, chosen.url),
        _hide_headers(chosen),
    )
    await _announce(connection)
    return await get(connection, keyring, actor.account_id, endpoint_id)


async def list_all(connection: Connection, keyring: Keyring, account_id: UUID) -> list[EndpointView]:
    """Return the account's endpoints, newest first."""
    cursor = await connection.execute(
        "select * from endpoints where account_id = %s order by id desc", (account_id,)
    )
    return [_view(keyring, row) for row in await cursor.fetchall()]


async def get(connection: Connection, keyring: Keyring, account_id: UUID, endpoint_id: UUID) -> EndpointView:
    """Return one endpoint.

    Raises:
        NotFound: the endpoint is unknown, or another account's.
    """
    return _view(keyring, await _row(connection, account_id, endpoint_id))


async def load_sending(
    connection: Connection, keyring: Keyring, account_id: UUID, endpoint_id: UUID
) -> tuple[str, EndpointSecrets]:
    """Return the URL and the secret data of an endpoint.

    Raises:
        NotFound: the endpoint is unknown, or another account's.
    """
    row = await _row(connection, account_id, endpoint_id)
    return row["url"], unseal(keyring, endpoint_id, row["sealed"])


async def change(
    connection: Connection, keyring: Keyring, actor: Actor, endpoint_id: UUID, changes: Mapping[str, Any]
) -> EndpointView:
    """Change the settings in `changes` (fields of `EndpointSettings`); call it in a transaction.

    Switching an endpoint on resets its failures: waiting deliveries are sent.

    Raises:
        NotFound: the endpoint is unknown, or another account's.
    """
    row = await _row(connection, actor.account_id, endpoint_id, lock="for no key update")
    before = _view(keyring, row)
    sending = unseal(keyring, endpoint_id, row["sealed"])
    was = EndpointSettings(
        before.url, before.events, before.description, before.headers, before.rate_limit, before.is_active
    )
    chosen = replace(was, **changes)
    # Sealed again only with new headers: otherwise the secret data stays unchanged.
    sealed = row["sealed"]
    if chosen.headers != sending.headers:
        sealed = seal(keyring, endpoint_id, EndpointSecrets(sending.secret, sending.previous, chosen.headers))
    await connection.execute(
        "update endpoints set url = %s, events = %s, description = %s, sealed = %s, rate_limit = %s,"
        " is_active = %s, updated_at = now() where id = %s",
        (
            chosen.url, list(chosen.events), chosen.description, sealed, chosen.rate_limit,
            chosen.is_active, endpoint_id,
        ),
    )  # fmt: skip
    if chosen.is_active and not before.is_active:
        await connection.execute(
            "update endpoints set disabled_reason = null, failing_since = null, strikes = 0,"
            " paused_until = null where id = %s",
            (endpoint_id,),
        )
    old, new = _hide_headers(was), _hide_headers(chosen)
    changed = [name for name in sorted(changes) if getattr(was, name) != getattr(chosen, name)]
    told = {name: {"old": old[name], "new": new[name]} for name in changed}
    await audit.record(connection, actor, "webhook.changed", Target("webhook", endpoint_id, chosen.url), told)
    await _announce(connection)
    return await get(connection, keyring, actor.account_id, endpoint_id)


async def rotate_secret(
    connection: Connection,
    keyring: Keyring,
    actor: Actor,
    endpoint_id: UUID,
    secret: str,
    overlap: timedelta,
) -> datetime:
    """Replace an endpoint's secret; call it in a transaction.

    Args:
        connection: inside a transaction.
        keyring: seals the secret.
        actor: the owner of the endpoint, and the one who changes it.
        endpoint_id: the endpoint.
        secret: the new secret.
        overlap: the longest time for which earlier secrets still sign.

    Returns:
        The end of this time.

    Raises:
        NotFound: the endpoint is unknown, or another account's.
    """
    row = await _row(connection, actor.account_id, endpoint_id, lock="for no key update")
    sending = unseal(keyring, endpoint_id, row["sealed"])
    now = datetime.now(UTC)
    until = now + overlap
    # A shorter overlap also shortens the time of older secrets.
    earlier = [PreviousSecret(one.secret, min(one.until, until)) for one in sending.previous]
    previous = [one for one in (PreviousSecret(sending.secret, until), *earlier) if one.until > now]
    previous = previous[:_MOST_PREVIOUS]
    await connection.execute(
        "update endpoints set sealed = %s, updated_at = now() where id = %s",
        (seal(keyring, endpoint_id, EndpointSecrets(secret, previous, sending.headers)), endpoint_id),
    )
    await audit.record(
        connection, actor, "webhook.secret_rotated", Target("webhook", endpoint_id, row["url"])
    )
    return until


async def delete(connection: Connection, actor: Actor, endpoint_id: UUID) -> None:
    """Delete an endpoint; call it in a transaction. Its pending deliveries fail; the log stays.

    Raises:
        NotFound: the endpoint is unknown, or another account's.
    """
    row = await _row(connection, actor.account_id, endpoint_id)
    # Deliveries are locked first, in the same order as recorded attempts; then those queued meanwhile.
    await _give_up_deliveries(connection, endpoint_id)
    await _row(connection, actor.account_id, endpoint_id, lock="for update")
    await _give_up_deliveries(connection, endpoint_id)
    await connection.execute("delete from endpoints where id = %s", (endpoint_id,))
    await audit.record(connection, actor, "webhook.deleted", Target("webhook", endpoint_id, row["url"]))
    await _announce(connection)


async def _give_up_deliveries(connection: Connection, endpoint_id: UUID) -> None:
    await connection.execute(
        "with held as materialized ("
        " select delivery_id from delivery_work where endpoint_id = %s order by delivery_id for update"
        "), gone as (delete from delivery_work w using held h where w.delivery_id = h.delivery_id)"
        " update deliveries set status = 'failed', next_attempt_at = null"
        " where id = any(array(select delivery_id from held))",
        (endpoint_id,),
    )


async def disable(connection: Connection, endpoint_id: UUID, reason: DisabledReason) -> None:
    """Switch an endpoint off because of its failures; call it in the transaction that found them.

    The account's other endpoints get an event. Deliveries to this one wait until it is switched on again.
    """
    cursor = await connection.execute(
        "update endpoints set is_active = false, disabled_reason = %s, updated_at = now()"
        " where id = %s and is_active returning account_id, url, failing_since",
        (reason, endpoint_id),
    )
    row = await cursor.fetchone()
    if row is None:
        return
    system = Actor(row["account_id"], "system", name="system")
    await audit.record(
        connection, system, "webhook.disabled", Target("webhook", endpoint_id, row["url"]), {"reason": reason}
    )
    since = row["failing_since"] if reason == "failing" else None
    data = WebhookDisabled(webhook_id=endpoint_id, url=row["url"], reason=reason, failing_since=since)
    await events.emit(connection, row["account_id"], data)
    await _announce(connection)


CHANGED_CHANNEL = "endpoints_changed"
"""Notified when the events that an account subscribes to may have changed."""


async def find_subscribers(connection: Connection, event_type: str) -> frozenset[UUID]:
    """Return the accounts that subscribe to events of a type."""
    cursor = await connection.execute(
        "select distinct account_id from endpoints where is_active and events && event_patterns(%s)",
        (event_type,),
    )
    return frozenset([row["account_id"] for row in await cursor.fetchall()])


async def _announce(connection: Connection) -> None:
    """Notify all processes at the commit: this is rare enough to be part of the transaction."""
    await connection.execute(
        "select pg_notify(%s, ''), pg_notify(%s, '')", (CHANGED_CHANNEL, events.QUEUED_CHANNEL)
    )


async def _row(
    connection: Connection,
    account_id: UUID,
    endpoint_id: UUID,
    lock: Literal["", "for no key update", "for update"] = "",
) -> dict[str, Any]:
    cursor = await connection.execute(
        "select * from endpoints where id = %s and account_id = %s " + lock, (endpoint_id, account_id)
    )
    row = await cursor.fetchone()
    if row is None:
        raise NotFound("webhook")
    return row


def _view(keyring: Keyring, row: dict[str, Any]) -> EndpointView:
    headers = unseal(keyring, row["id"], row["sealed"]).headers
    shown = {name: row[name] for name in EndpointView.model_fields if name != "headers"}
    return EndpointView(**shown, headers=dict(headers))


def _hide_headers(chosen: EndpointSettings) -> dict[str, Any]:
    """Return the settings for the audit log: only the names of headers, which may be credentials."""
    return asdict(chosen) | {"headers": sorted(chosen.headers)}
