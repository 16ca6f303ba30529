"""The authentication of requests: from the headers to a caller, with a short cache that revocations clear."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, NamedTuple
from uuid import UUID

from api.auth import cookies
from api.problems import Problem
from database import Database
from models.accounts import keys, sessions
from models.errors import Unauthenticated
from notifications import Listener
from sealing import Keyring

_REMEMBERED_SECONDS = 5.0
_MOST_REMEMBERED = 10_000


@dataclass(frozen=True)
class Caller:
    """The caller of a request.

    Attributes:
        account_id: the account whose data it may see.
        kind: of the credential.
        credential_id: the session's or the key's id.
        name: the person's e-mail or the key's name.
        scopes: its permissions; a session has all.
        expires_at: when the credential expires.
        proven_until: of a session in a browser: until when its password counts as given lately.
    """

    account_id: UUID
    kind: Literal["session", "key"]
    credential_id: UUID
    name: str
    scopes: frozenset[str]
    expires_at: datetime | None
    proven_until: datetime | None = None

    @property
    def lacks_proof(self) -> bool:
        """Return whether it is a browser's session whose password was not given lately."""
        return self.proven_until is not None and self.proven_until < datetime.now(UTC)


class Presented(NamedTuple):
    """The credential of a request, and whether it is the cookie of a browser."""

    text: str
    is_cookie: bool = False


NO_CREDENTIAL = Presented("")


@dataclass(frozen=True)
class _Remembered:
    caller: Caller
    until: float
    connection: int


def find_credential(headers: Iterable[tuple[bytes, bytes]]) -> Presented | None:
    """Return the credential in a request's headers: `Authorization: Bearer …`, `X-API-Key: …` or our cookie.

    Raises:
        Problem: 400 if there are two different ones.
        Unauthenticated: another scheme of `Authorization`.
    """
    found: set[Presented] = set()
    for name, value in headers:
        if name == b"authorization":
            scheme, _, token = value.partition(b" ")
            if scheme.lower() != b"bearer":
                raise Unauthenticated("invalid_credentials", "Authorization must be: Bearer <token or key>.")
            found.add(Presented(token.strip().decode("latin-1")))
        elif name == b"x-api-key":
            found.add(Presented(value.strip().decode("latin-1")))
        elif name == b"cookie" and (cookie := cookies.read_cookie(value.decode("latin-1"))):
            found.add(Presented(cookie, is_cookie=True))
    if len(found) > 1:
        raise Problem(400, "conflicting_credentials", "Give one credential; these two differ.")
    return found.pop() if found else None


class Credentials:
    """Finds the caller of a credential.

    Callers are cached for at most 5 seconds, and dropped when any process announces the end of the
    credential. Nothing is cached while such announcements cannot be received.
    """

    def __init__(self, database: Database, keyring: Keyring) -> None:
        self._database = database
        self._keyring = keyring
        self._listener: Listener | None = None
        self._remembered: dict[bytes, _Remembered] = {}
        self._digest_of: dict[str, bytes] = {}
        self._ended = 0

    def listen_with(self, listener: Listener) -> None:
        """Receive ended credentials from `listener`, which calls `forget`."""
        self._listener = listener

    def forget(self, credential_id: str) -> None:
        """Drop a credential that ended: the handler of the notifications on `sessions.CHANNEL`."""
        self._ended += 1
        digest = self._digest_of.pop(credential_id, None)
        if digest is not None:
            self._remembered.pop(digest, None)

    async def find(self, credential: Presented) -> Caller:
        """Return the caller with this key, session token or cookie.

        Raises:
            Unauthenticated: it is not, or no longer, valid.
        """
        digest = hashlib.sha256(repr(credential).encode()).digest()
        connection = self._hearing()
        known = self._remembered.get(digest)
        if known is not None and connection == known.connection and time.monotonic() < known.until:
            if known.caller.expires_at is None or datetime.now(UTC) < known.caller.expires_at:
                return known.caller
        ended = self._ended
        caller = await self._look_up(credential)
        if caller is None:
            raise Unauthenticated("invalid_credentials", "This key or session is not valid.")
        # A credential that ended during the lookup may have been this one.
        if connection and connection == self._hearing() and ended == self._ended:
            self._remember(digest, _Remembered(caller, time.monotonic() + _REMEMBERED_SECONDS, connection))
        return caller

    def _hearing(self) -> int:
        """Return the number of the listener's current connection; 0 while it has none."""
        listener = self._listener
        return listener.connections if listener is not None and listener.connected.is_set() else 0

    def _remember(self, digest: bytes, entry: _Remembered) -> None:
        if len(self._remembered) >= _MOST_REMEMBERED:
            self._remembered.clear()
            self._digest_of.clear()
        self._remembered[digest] = entry
        self._digest_of[str(entry.caller.credential_id)] = digest

    async def _look_up(self, credential: Presented) -> Caller | None:
        token = credential.text
        if credential.is_cookie:
            return await self._browser(token)
        if token.startswith(keys.PREFIX):
            return await self._key(token) if keys.is_well_formed(token) else None
        return await self._session(token)

    async def _key(self, secret: str) -> Caller | None:
        async with self._database.connection() as connection:
            key = await keys.find_live(connection, secret)
        if key is None:
            return None
        return Caller(key.account_id, "key", key.id, key.name, key.scopes, key.expires_at)

    async def _session(self, token: str) -> Caller | None:
        claims = sessions.read_claims(self._keyring, token)
        if claims is None:
            return None
        async with self._database.connection() as connection:
            email = await sessions.find_live_email(connection, claims)
        if email is None:
            return None
        return Caller(
            claims.account_id,
            "session",
            claims.session_id,
            email,
            frozenset(keys.ALL_SCOPES),
            claims.expires_at,
        )

    async def _browser(self, cookie: str) -> Caller | None:
        async with self._database.connection() as connection:
            session = await sessions.find_by_cookie(connection, cookie)
        if session is None:
            return None
        return Caller(
            session.account_id, "session", session.id, session.email, frozenset(keys.ALL_SCOPES),
            session.expires_at, session.proven_until,
        )  # fmt: skip
