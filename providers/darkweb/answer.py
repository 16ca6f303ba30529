"""The answer of a dark-web search: a page of mentions, the latest first."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict, Field

from models.lookups.lookups import Block, LookupAnswer


class Leak(Block):
    """The leak that a mention is part of: its name, place, authors and number of records."""

    name: str | None = Field(description="What the leak is called.")
    host: str | None = Field(description="Where it is.")
    actors: list[str] = Field(description="Who leaked it.")
    affected_records: int | None = Field(description="How many records it has.")


class Named(Block):
    """A channel or a user."""

    name: str | None = Field(description="The name.")
    id: str | None = Field(description="The id where it is from.")


class Chat(Block):
    """The chat that a mention is part of."""

    channel: Named = Field(description="Where it was said.")
    users: list[Named] = Field(description="Who said it.")
    server: str | None = Field(description="The server of the channel.")


def _require_score(schema: dict[str, Any]) -> None:
    schema["required"] = [*schema["required"], "hackishness", "matched"]


class Mention(Block):
    """One document. `body` comes without passwords, card numbers and keys; `hackishness` is from 0 to 1.

    Fields from `leak` on are present only if the source has them.
    """

    model_config = ConfigDict(json_schema_extra=_require_score)  # optional for sources, required in answers

    source: str = Field(description="Who published it, or found it.")
    title: str | None = Field(description="The document's title.")
    body: str | None = Field(description="Its text, without passwords, card numbers and keys.")
    domain: str | None = Field(description="The domain that it is on.")
    hackishness: float = Field(
        0.0,
        description="How much it has to do with hacking, from 0 to 1: a score of our own by fixed rules.",
    )
    matched: bool = Field(
        True,
        description="Whether the query stands in what the source shows of it. If not, it is neither counted"
        " nor charged.",
    )
    crawl_date: str | None = Field(description="When it was found.")
    emails: list[str] = Field(description="The e-mail addresses in it.")
    leak: Leak | None = Field(None, description="The leak that it is part of.")
    chat: Chat | None = Field(None, description="The chat that it is part of.")
    irc: dict[str, Any] | None = Field(None, description="The IRC message that it is.")
    paste: dict[str, Any] | None = Field(None, description="The paste that it is.")
    forum: dict[str, Any] | None = Field(None, description="The post in a forum that it is.")
    market: dict[str, Any] | None = Field(
        None, description="The offer on a market that it is: vendor, price, category."
    )
    ips: list[str] | None = Field(None, description="The IP addresses in it.")
    cves: list[str] | None = Field(None, description="The CVE ids in it.")


class DarkwebAnswer(LookupAnswer):
    """A page of mentions of the query. `total` is the number that the sources report."""

    query: str = Field(description="The query.")
    total: int = Field(
        description="How many mentions those who answered know of; with `partial` there may be more."
    )
    result_count: int = Field(description="How many of `results` matched.")
    results: list[Mention] = Field(description="The mentions of this page, the latest first.")
    message: str = Field(description="How many there are in words, and who has not answered.")
