"""The verification of an event's sender: its signature against the secret that the trigger names.

A signature covers the raw bytes of the body. A captured one can be sent again by others. Those with a time
are therefore refused when it is more than five minutes off, and repeats until then are found by a key that
only the sender could have chosen (`repeat_key`).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast
from uuid import UUID

import logs
from database import Database
from language.triggers import Signature, WebhookTrigger
from models.accounts import secrets
from models.automations.run_targets import RunTarget
from models.errors import Conflict, DomainError
from models.runs.acceptance import MAX_DEDUPE_LENGTH
from sealing import Keyring, UnsealError

MIN_KEY_BYTES = 16
"""The least length of a signing secret: a shorter one can be guessed from one signature."""
TOLERANCE_SECONDS = 300
"""The greatest difference between a signature's time and ours, in either direction."""

# A changed secret takes effect after this time.
_SECRETS_SECONDS = 2.0
_PREFIX = "whsec_"
_TIME = re.compile("[0-9]{1,12}")
_HEX = re.compile("[0-9a-fA-F]{64}")

_log = logs.get(__name__)

Headers = Mapping[str, str]


class InvalidSignature(DomainError):
    """The signature of an event is missing, malformed, wrong or too old; only its sender can know which."""

    def __init__(self, headers: Sequence[str]) -> None:
        named = " and ".join(headers)
        message = f"The signature expected in {named} is missing, wrong, or more than five minutes off."
        super().__init__("invalid_signature", message)


class Signed(NamedTuple):
    """A valid signature of the sender.

    Attributes:
        scheme: its scheme.
        name: identifies the signed content: the message id if that was signed too, else a digest of
            everything.
    """

    scheme: str
    name: str


class _Claim(NamedTuple):
    """The unchecked signature of a request.

    Attributes:
        digests: HMAC-SHA256s, one of which should be right; there are several while a secret is replaced.
        prefix: the signed text before the body.
        timestamp: the time as decimal digits; None if the scheme has no time.
        message_id: the message id within `prefix`.
    """

    digests: list[bytes]
    prefix: str = ""
    timestamp: str | None = None
    message_id: str | None = None


class _Scheme(NamedTuple):
    """The signing scheme of a service.

    Attributes:
        headers: the headers of the signature; the last one holds the digests.
        read: parses the values of these; missing ones are empty.
        event_id: the field of the body that stays the same when the event is sent again.
    """

    headers: tuple[str, ...]
    read: Callable[[Sequence[str]], _Claim]
    event_id: str | None = None


def _standard(values: Sequence[str]) -> _Claim:
    message_id, timestamp, signatures = values
    parts = (part.partition(",") for part in signatures.split())
    digests = [_from_base64(text) for version, _, text in parts if version == "v1"]
    # With a dot in the id, a part of the body could pass as the time.
    if not message_id or "." in message_id:
        return _Claim([])
    return _Claim(digests, f"{message_id}.{timestamp}.", timestamp, message_id)


def _github(values: Sequence[str]) -> _Claim:
    return _Claim([_from_hex(values[0].removeprefix("sha256="))])


def _stripe(values: Sequence[str]) -> _Claim:
    pairs = [part.strip().partition("=") for part in values[0].split(",")]
    timestamp = next((text for name, _, text in pairs if name == "t"), "")
    digests = [_from_hex(text) for name, _, text in pairs if name == "v1"]
    return _Claim(digests, f"{timestamp}.", timestamp)


def _slack(values: Sequence[str]) -> _Claim:
    timestamp, signature = values
    version, _, text = signature.partition("=")
    return _Claim([_from_hex(text)] if version == "v0" else [], f"v0:{timestamp}:", timestamp)


def _plain(values: Sequence[str]) -> _Claim:
    text = values[0].removeprefix("sha256=")
    return _Claim([_from_hex(text) or _from_base64(text)])


_SCHEMES = {
    "standard-webhooks": _Scheme(("webhook-id", "webhook-timestamp", "webhook-signature"), _standard),
    "github": _Scheme(("X-Hub-Signature-256",), _github),
    "stripe": _Scheme(("Stripe-Signature",), _stripe, "id"),
    "slack": _Scheme(("X-Slack-Request-Timestamp", "X-Slack-Signature"), _slack, "event_id"),
    "hmac-sha256": _Scheme(("X-Signature",), _plain),
}

SIGNED_BY = {name: scheme.headers for name, scheme in _SCHEMES.items()}
"""Scheme name → the headers of its signature."""


def _from_hex(text: str) -> bytes:
    return bytes.fromhex(text) if _HEX.fullmatch(text) else b""


def _from_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return b""


def verify(signature: Signature, secret: str, headers: Headers, body: bytes, now: float) -> Signed:
    """Verify that a request was signed with the secret.

    Args:
        signature: the workflow's settings for signatures.
        secret: its value.
        headers: of the request, by names in any case.
        body: its raw bytes.
        now: in Unix seconds.

    Raises:
        InvalidSignature: it was not, or not within the last five minutes.
        ValueError: the secret is invalid for this scheme, or easy to guess.
    """
    key = _key(signature.scheme, secret)
    scheme, names = _SCHEMES[signature.scheme], headers_of(signature)
    claim = scheme.read([headers.get(name, "") for name in names])
    signed = claim.prefix.encode("latin-1") + body
    right = hmac.digest(key, signed, "sha256")
    if not any(hmac.compare_digest(digest, right) for digest in claim.digests):
        raise InvalidSignature(names)
    if claim.timestamp is not None and not (
        _TIME.fullmatch(claim.timestamp) and abs(now - int(claim.timestamp)) <= TOLERANCE_SECONDS
    ):
        raise InvalidSignature(names)
    return Signed(signature.scheme, claim.message_id or hashlib.sha256(signed).hexdigest())


def headers_of(signature: Signature) -> tuple[str, ...]:
    """Return the request headers that hold the signature; the last of them can be renamed.

    Standard Webhooks exist under other names, such as `svix-signature`; the other headers are then renamed,
    too.
    """
    names, own = _SCHEMES[signature.scheme].headers, signature.header
    if own is None:
        return names
    beside, signed = names[:-1], own.lower().endswith("-signature")
    if signature.scheme == "standard-webhooks" and signed:
        beside = tuple(own[: -len("signature")] + name.removeprefix("webhook-") for name in beside)
    return (*beside, own)


def flaw_of(scheme: str, secret: str) -> str | None:
    """Return why a secret must not be used for a scheme, or None if it may."""
    try:
        _key(scheme, secret)
    except ValueError as flaw:
        return str(flaw)
    return None


def _key(scheme: str, secret: str) -> bytes:
    """Return the signing key of a secret.

    Raises:
        ValueError: it is invalid for the scheme, or easy to guess.
    """
    key = secret.encode()
    if scheme == "standard-webhooks":
        try:
            key = base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
        except ValueError:
            key = b""
    if len(key) < MIN_KEY_BYTES:
        form = " in base64, mostly behind whsec_" if scheme == "standard-webhooks" else ""
        raise ValueError(f"A secret that signs by {scheme} has {MIN_KEY_BYTES} bytes or more{form}.")
    return key


def repeat_key(signed: Signed, payload: Any) -> str:
    """Return a key that an event shares with its repeats, whoever sends them.

    It depends on signed content alone, because anyone who repeats a captured request can change the rest.
    Standard Webhooks sign an id. Stripe and Slack sign each attempt anew, but the event in the body keeps its
    id. GitHub's deliveries have an unsigned id, and a unique body. With `hmac-sha256` only the body is known:
    equal bodies, or a captured one, start one run.
    """
    field = _SCHEMES[signed.scheme].event_id
    event_id = cast(dict[str, Any], payload).get(field or "") if isinstance(payload, dict) else None
    if isinstance(event_id, str) and event_id:
        return f"{signed.scheme}/event/{_digest(event_id)}"
    if signed.scheme == "standard-webhooks":
        return f"webhook-id/{signed.name if len(signed.name) <= MAX_DEDUPE_LENGTH else _digest(signed.name)}"
    return f"{signed.scheme}/{signed.name}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


class _Known(NamedTuple):
    secret: str | None
    until: float


class Signatures:
    """Checks the signatures of events."""

    def __init__(self, database: Database, keyring: Keyring) -> None:
        """Prepare.

        Args:
            database: holds the secrets.
            keyring: opens them.
        """
        self._database = database
        self._keyring = keyring
        self._known: dict[tuple[UUID, str], _Known] = {}

    async def check(self, target: RunTarget, headers: Headers, body: bytes) -> Signed:
        """Verify that an event was signed as the trigger of its workflow requires, which must require it.

        Args:
            target: the workflow.
            headers: of the request, by names in any case.
            body: its raw bytes.

        Raises:
            InvalidSignature: it was not.
            Conflict: the secret was deleted, is invalid for the scheme, or easy to guess.
        """
        assert isinstance(target.trigger, WebhookTrigger) and target.trigger.signature is not None
        signature = target.trigger.signature
        secret = await self._secret(target.account_id, signature.secret)
        try:
            if secret is not None:
                return verify(signature, secret, headers, body, time.time())
        except ValueError:
            pass
        _log.warning("signing_secret_unusable", account_id=str(target.account_id))
        message = "Signatures cannot be checked now: the workflow's owner must store the signing secret anew."
        raise Conflict("signing_secret_unusable", message)

    async def _secret(self, account_id: UUID, name: str) -> str | None:
        """Return the value of a secret; None if it was deleted, or cannot be opened."""
        key, now = (account_id, name), time.monotonic()
        known = self._known.get(key)
        if known is None or known.until < now:
            self._known = {key: known for key, known in self._known.items() if known.until >= now}
            known = self._known[key] = _Known(
                await self._open_secret(account_id, name), now + _SECRETS_SECONDS
            )
        return known.secret

    async def _open_secret(self, account_id: UUID, name: str) -> str | None:
        try:
            async with self._database.connection() as connection:
                return (await secrets.load_values(connection, self._keyring, account_id, [name])).get(name)
        except UnsealError:
            _log.error("secret_not_opened", account_id=str(account_id))
            return None
