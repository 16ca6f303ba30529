"""The feeds of accounts: which of their things have changed their states, for the clients that follow them.

One task of the process reads the states of all accounts that are followed, once a second. A feed is kept for
a minute after its last reader has left, so that a client that reconnects has missed nothing.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import deque
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Literal, NamedTuple
from uuid import UUID

import psycopg

import logs
from database import Database
from models.activity import states
from models.activity.states import State

_READ_SECONDS = 1.0
_KEPT_SECONDS = 60.0
_KEPT_MESSAGES = 300
# A message is at most this long, and of more changes in a second none is told.
_CHANGES_IN_A_MESSAGE, _MOST_MESSAGES = 500, 5
_MOST_ENDED = 5_000

_log = logs.get(__name__)


class Message(NamedTuple):
    """A message to a reader: changes, or that it is up to date, or that it may have missed some.

    Attributes:
        id: what a client presents to go on after this message.
    """

    name: Literal["open", "changes", "resync"]
    id: str
    changes: Sequence[State] = ()


class AccountFeed:
    """The last changes of an account.

    Attributes:
        readers: the number of readers.
        left_at: when the last of them left.
    """

    def __init__(self) -> None:
        self.readers = 0
        self.left_at = 0.0
        self._known: dict[tuple[str, str], str] | None = None
        self._messages: deque[Message] = deque(maxlen=_KEPT_MESSAGES)
        self._news = asyncio.Event()
        self._begin()

    def _begin(self) -> None:
        """Begin a new row of messages: whoever has seen an earlier one may have missed some."""
        self._row = secrets.token_hex(6)
        self._last = 0
        self._messages.clear()

    @property
    def position(self) -> str:
        """The id of the last message."""
        return f"{self._row}-{self._last}"

    @property
    def is_read(self) -> bool:
        """Return true once the states were read."""
        return self._known is not None

    def find_after(self, seen: str) -> Sequence[Message] | None:
        """Return the messages after the one with this id; None if they are not kept."""
        row, _, number = seen.rpartition("-")
        if row != self._row or not (number.isascii() and number.isdecimal() and len(number) < 10):
            return None
        missed = self._last - int(number)
        if not 0 <= missed <= len(self._messages):
            return None
        return list(self._messages)[len(self._messages) - missed :]

    def lose(self) -> None:
        """Tell readers that they may have missed changes."""
        self._known = None
        self._begin()

    def note(self, newest: Iterable[State], ended: Iterable[State]) -> None:
        """Take the states that were read, and tell readers of those that differ.

        Args:
            newest: of the newest things; an approval that is missing was answered.
            ended: of runs that may not be among them.
        """
        known = self._known
        read = {(one.kind, one.id): one for one in newest}
        self._known = {key: one.state for key, one in read.items()}
        if known is not None:
            changed = [one for key, one in ({(one.kind, one.id): one for one in ended} | read).items()
                       if known.get(key) != one.state]  # fmt: skip
            gone = [key for key in known if key[0] == "approval" and key not in read]
            self._publish([*changed, *(State(UUID(int=0), "approval", id, "over") for _, id in gone)])
        self._wake()

    def _publish(self, changes: Sequence[State]) -> None:
        if len(changes) > _CHANGES_IN_A_MESSAGE * _MOST_MESSAGES:
            self._begin()
            return
        for start in range(0, len(changes), _CHANGES_IN_A_MESSAGE):
            self._last += 1
            some = changes[start : start + _CHANGES_IN_A_MESSAGE]
            self._messages.append(Message("changes", self.position, some))

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    async def wait(self, seconds: float) -> None:
        """Wait until the states have been read again, at most `seconds`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._news.wait()


class FeedReader:
    """One reader of a feed."""

    def __init__(self, feed: AccountFeed, seen: str | None) -> None:
        self._feed = feed
        self._seen = seen

    async def next(self, seconds: float) -> Sequence[Message] | None:
        """Return the messages since the last call; None if there are none after `seconds`."""
        feed = self._feed
        if not feed.is_read or (self._seen is not None and self._seen == feed.position):
            await feed.wait(seconds)
        if not feed.is_read or self._seen == feed.position:
            return None
        found = None if self._seen is None else feed.find_after(self._seen)
        if found is None:
            found = [Message("open" if self._seen is None else "resync", feed.position)]
        self._seen = feed.position
        return found


class AccountFeeds:
    """The feeds of this process. `note_ended` is a handler of `models.runs.runs.FINISHED_CHANNEL`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._feeds: dict[UUID, AccountFeed] = {}
        self._ended: set[str] = set()
        self._heard = 0
        self._task: asyncio.Task[None] | None = None

    def note_ended(self, payload: str) -> None:
        """Note the ends of the runs with these comma-separated ids."""
        if self._feeds and len(self._ended) <= _MOST_ENDED:
            self._ended.update(payload.split(","))

    @contextmanager
    def read(self, account_id: UUID, seen: str | None) -> Generator[FeedReader]:
        """Read the feed of an account, after the message with the id `seen`."""
        feed = self._feeds.setdefault(account_id, AccountFeed())
        feed.readers += 1
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._keep_reading(), name="account feeds")
        try:
            yield FeedReader(feed, seen)
        finally:
            feed.readers -= 1
            feed.left_at = time.monotonic()

    async def stop(self) -> None:
        """Stop reading."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _keep_reading(self) -> None:
        while self._feeds:
            try:
                await self._read()
            except psycopg.Error as error:
                self._lose_all()
                _log.warning("account_feeds_not_read", error=type(error).__name__)
            await asyncio.sleep(_READ_SECONDS)
            self._drop_left()

    async def _read(self) -> None:
        ended, self._ended = self._ended, set()
        listener = self._database.listener
        heard = listener.connections if listener.connected.is_set() else -1
        if heard != self._heard or len(ended) > _MOST_ENDED:
            self._lose_all()  # ends of runs may not have been heard
        self._heard = heard
        accounts = list(self._feeds)
        async with self._database.connection() as connection:
            newest = _by_account(await states.read(connection, accounts))
            ids = [UUID(run_id) for run_id in ended]
            others = _by_account(await states.read_ended(connection, accounts, ids) if ids else ())
        for account_id in accounts:
            self._feeds[account_id].note(newest.get(account_id, ()), others.get(account_id, ()))

    def _lose_all(self) -> None:
        for feed in self._feeds.values():
            feed.lose()

    def _drop_left(self) -> None:
        until = time.monotonic() - _KEPT_SECONDS
        for account_id, feed in [*self._feeds.items()]:
            if not feed.readers and feed.left_at < until:
                del self._feeds[account_id]


def _by_account(found: Iterable[State]) -> Mapping[UUID, list[State]]:
    sorted_out: dict[UUID, list[State]] = {}
    for one in found:
        sorted_out.setdefault(one.account_id, []).append(one)
    return sorted_out
