"""The answer of a dark-web search: a page of mentions, the latest first."""

from __future__ import annotations

from typing import Any

from models.lookups import Block, LookupAnswer


class Leak(Block):
    """Where the mention is part of a leak: which, where it is, by whom, and how many records it has."""

    name: str | None
    host: str | None
    actors: list[str]
    affected_records: int | None


class Named(Block):
    """A channel or a user."""

    name: str | None
    id: str | None


class Chat(Block):
    """Where the mention is a chat message."""

    channel: Named
    users: list[Named]
    server: str | None


class Mention(Block):
    """One document. `body` comes without passwords, card numbers and keys; `hackishness` is from 0 to 1.

    From `leak` on, fields are there only where the source has them.
    """

    source: str
    title: str | None
    body: str | None
    domain: str | None
    hackishness: float | None
    crawl_date: str | None
    emails: list[str]
    leak: Leak | None = None
    chat: Chat | None = None
    irc: dict[str, Any] | None = None
    paste: dict[str, Any] | None = None
    forum: dict[str, Any] | None = None
    market: dict[str, Any] | None = None
    ips: list[str] | None = None
    cves: list[str] | None = None


class DarkwebAnswer(LookupAnswer):
    """A page of what mentions the query. `total`: as many as the sources say that there are."""

    query: str
    total: int
    result_count: int
    results: list[Mention]
