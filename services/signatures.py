"""Who has sent an event: its signature is held against the secret that the workflow's trigger names.

A signature counts for the bytes of the body as they came. One that has been seen can be sent again by whoever
saw it: those with a time are refused when it is more than five minutes off, and what comes again until then
is found by a key that only the sender could have chosen (`repeat_key`).
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
"""What a signing secret has at least: one that is shorter, or empty, can be guessed from one signature."""
TOLERANCE_SECONDS = 300
"""How far the time of a signature may be from ours, in either direction."""

# Who changes a secret need not wait longer.
_SECRETS_SECONDS = 2.0
_PREFIX = "whsec_"
_TIME = re.compile("[0-9]{1,12}")
_HEX = re.compile("[0-9a-fA-F]{64}")

_log = logs.get(__name__)

Headers = Mapping[str, str]


class InvalidSignature(DomainError):
    """The signature of an event is missing, malformed, wrong or too old: which, only its sender can know."""

    def __init__(self, headers: Sequence[str]) -> None:
        named = " and ".join(headers)
        message = f"The signature expected in {named} is missing, wrong, or more than five minutes off."
        super().__init__("invalid_signature", message)


class Signed(NamedTuple):
    """A signature that is the sender's.

    Attributes:
        scheme: which it is.
        name: of what was signed: the id of the message if that was signed too, else a digest of all of it.
    """

    scheme: str
    name: str


class _Claim(NamedTuple):
    """What a request says of its signature, unchecked.

    Attributes:
        digests: the HMAC-SHA256s, one of which should be right: there are more while a secret is replaced.
        prefix: what was signed before the body.
        timestamp: when, as decimal digits; None if the scheme has no time.
        message_id: that is part of `prefix`.
    """

    digests: list[bytes]
    prefix: str = ""
    timestamp: str | None = None
    message_id: str | None = None


class _Scheme(NamedTuple):
    """How a service signs.

    Attributes:
        headers: where the claim stands; the last one is the signature.
        read: reads the values of these; those that are missing are empty.
        event_id: the field of the body that stays the same when the event is sent again.
    """

    headers: tuple[str, ...]
    read: Callable[[Sequence[str]], _Claim]
    event_id: str | None = None


def _standard(values: Sequence[str]) -> _Claim:
    message_id, timestamp, signatures = values
    parts = (part.partition(",") for part in signatures.split())
    digests = [_from_base64(text) for version, _, text in parts if version == "v1"]
    # A dot in the id would let a part of the body be taken for the time.
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
"""By the name of a scheme, the headers that are its signature."""


def _from_hex(text: str) -> bytes:
    return bytes.fromhex(text) if _HEX.fullmatch(text) else b""


def _from_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return b""


def verify(signature: Signature, secret: str, headers: Headers, body: bytes, now: float) -> Signed:
    """See whether a request was signed with the secret.

    Args:
        signature: how the workflow wants its events signed.
        secret: its value.
        headers: of the request, by names in whatever case.
        body: its very bytes.
        now: in Unix seconds.

    Raises:
        InvalidSignature: it was not, or not within the last five minutes.
        ValueError: the secret is none for this scheme, or can be guessed.
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
    """The headers of a request that are its signature; the last of them is the one that can be renamed.

    Standard Webhooks are known under other names, such as `svix-signature`: then the others are renamed, too.
    """
    names, own = _SCHEMES[signature.scheme].headers, signature.header
    if own is None:
        return names
    beside, signed = names[:-1], own.lower().endswith("-signature")
    if signature.scheme == "standard-webhooks" and signed:
        beside = tuple(own[: -len("signature")] + name.removeprefix("webhook-") for name in beside)
    return (*beside, own)


def flaw_of(scheme: str, secret: str) -> str | None:
    """Say what is wrong with the value of a secret that is to sign by a scheme; None if nothing is."""
    try:
        _key(scheme, secret)
    except ValueError as flaw:
        return str(flaw)
    return None


def _key(scheme: str, secret: str) -> bytes:
    """Give the key of a secret.

    Raises:
        ValueError: it is none for the scheme, or can be guessed.
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
    """What an event has in common with its repeats, whoever sends them.

    It is taken from what was signed alone, since everything else can be changed by who sends a captured
    request again. Standard Webhooks sign an id. Stripe and Slack sign each attempt anew, but the event in the
    body keeps its id. GitHub's deliveries have an id that is not signed, and a body that no other event has.
    Of `hmac-sha256` the body is all that is known: who sends equal bodies, or a captured one, starts one run.
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
            database: for the secrets.
            keyring: opens them.
        """
        self._database = database
        self._keyring = keyring
        self._known: dict[tuple[UUID, str], _Known] = {}

    async def check(self, target: RunTarget, headers: Headers, body: bytes) -> Signed:
        """See whether an event was signed as the trigger of its workflow asks, which must ask for it.

        Args:
            target: the workflow.
            headers: of the request, by names in whatever case.
            body: its very bytes.

        Raises:
            InvalidSignature: it was not.
            Conflict: the secret is gone, is none for the scheme, or can be guessed.
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
        """The value of a secret; None if it is gone, or cannot be opened."""
        key, now = (account_id, name), time.monotonic()
        known = self._known.get(key)
        if known is None or known.until < now:
            self._known = {key: known for key, known in self._known.items() if known.until >= now}
            known = self._known[key] = _Known(await self._opened(account_id, name), now + _SECRETS_SECONDS)
        return known.secret

    async def _opened(self, account_id: UUID, name: str) -> str | None:
        try:
            async with self._database.connection() as connection:
                return (await secrets.load_values(connection, self._keyring, account_id, [name])).get(name)
        except UnsealError:
            _log.error("secret_not_opened", account_id=str(account_id))
            return None
