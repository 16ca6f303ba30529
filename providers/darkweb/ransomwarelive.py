"""ransomware.live: organisations that ransomware groups claim as victims on their leak sites.

The whole list is on this machine, because their API answers one search a minute; so no query leaves it.
SQLite's full-text index searches it: opening it reads nothing, and a search a few pages.
"""

from __future__ import annotations

import re
import sqlite3
import weakref
from collections.abc import Iterable, Mapping
from contextlib import closing
from datetime import date, timedelta
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import orjson
from pydantic import BaseModel, Field, ValidationError

from providers.darkweb.mentions import MOST, iso_timestamp, mention
from providers.datasets.downloads import Dataset
from providers.datasets.installed import Datasets
from providers.datasets.lists import Lists, read_files
from providers.sources.base import Evidence, Fields, LocalSource, Query, SourceError, Spec

_FEWEST = 10_000
# Placeholders for a missing text: none was found, or a language model wrote a guess.
_NO_TEXT = re.compile(r"(?:\s*|N/A|Not Found|\[AI generated\].*)", re.DOTALL)


class _Victim(BaseModel):
    """An entry in the form of the list."""

    post_title: str = Field(min_length=1)
    group_name: str = Field(min_length=1)
    discovered: str | None = None
    description: str | None = None
    website: str | None = None
    post_url: str | None = None
    country: str | None = None
    activity: str | None = None


def build(download: Path, folder: Path) -> dict[str, Path]:
    """Build the index of the published list.

    Raises:
        ValueError: if it is not that list, or too few entries are valid.
    """
    entries = orjson.loads(read_files(download)["victims"])
    path = folder / f"{DATASET.name}.victims.new"
    kept = write(path, cast("list[Any]", entries) if isinstance(entries, list) else [])
    if kept < _FEWEST:
        raise ValueError(f"only {kept} victims")
    return {"victims": path}


def write(path: Path, entries: Iterable[Any]) -> int:
    """Write the index of the entries to the new file `path`; return how many entries are valid."""
    victims = [victim for entry in entries if (victim := _victim(entry))]
    victims.sort(key=lambda victim: victim.discovered or "")  # so that the greatest number is the latest
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as index, index:
        index.execute("create table mentions (number integer primary key, mention blob)")
        index.execute(
            "create virtual table words"
            " using fts5(body, content = '', tokenize = 'unicode61 remove_diacritics 2')"
        )
        for number, victim in enumerate(victims):
            told = _mention(victim)
            index.execute("insert into mentions values (?, ?)", (number, orjson.dumps(told)))
            index.execute("insert into words (rowid, body) values (?, ?)", (number, _text(told)))
    return len(victims)


def _victim(entry: Any) -> _Victim | None:
    try:
        return _Victim.model_validate(entry)
    except ValidationError:
        return None


def _mention(victim: _Victim) -> dict[str, Any]:
    facts = {"Website": victim.website, "Country": victim.country, "Sector": victim.activity}
    lines = [f"{label}: {fact}" for label, told in facts.items() if (fact := _drop_placeholder(told))]
    host = _host(victim.post_url or "")
    return mention(
        victim.group_name,
        title=victim.post_title,
        body="\n".join([_drop_placeholder(victim.description), *lines]),
        domain=host,
        crawl_date=iso_timestamp(victim.discovered),
        leak={
            "name": victim.post_title,
            "host": host,
            "actors": [victim.group_name],
            "affected_records": None,
        },
    )


def _drop_placeholder(told: str | None) -> str:
    return "" if told is None or _NO_TEXT.fullmatch(told) else told


def _host(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


def _text(told: dict[str, Any]) -> str:
    """Return the searched text of a mention."""
    return f"{told['title'] or ''}\n{told['body'] or ''}"


def _read_mention(told: bytes) -> dict[str, Any]:
    """Read a mention from the index; one of an earlier release has a score, which is removed."""
    mention: dict[str, Any] = orjson.loads(told)
    mention.pop("hackishness", None)
    return mention


class Victims:
    """The index, open for reading."""

    def __init__(self, files: Mapping[str, Path]) -> None:
        """Open the index.

        Raises:
            ValueError: if it is no such index.
        """
        uri = f"{files['victims'].absolute().as_uri()}?mode=ro&immutable=1"
        try:
            self._index = sqlite3.connect(uri, uri=True, check_same_thread=False)
            weakref.finalize(self, self._index.close)
            self._index.execute("select count(*) from (select 1 from mentions limit 1)")
        except sqlite3.Error as error:
            raise ValueError(f"the index cannot be read ({error})") from None

    def search(self, phrase: str, holds: re.Pattern[str] | None) -> tuple[list[dict[str, Any]], int]:
        """Return the latest mentions with these words in sequence, and the number of all.

        Args:
            phrase: the words.
            holds: a pattern that the text of a mention must also match.
        """
        quoted = (f'"{phrase.replace(chr(34), " ")}"',)
        rows = self._index.execute(
            "select mention from words join mentions on number = words.rowid where words match ?"
            " order by words.rowid desc",
            quoted,
        )
        if holds is None:
            counted = "select count(*) from words where words match ?"
            total: int = self._index.execute(counted, quoted).fetchone()[0]
            return [_read_mention(told) for (told,) in rows.fetchmany(MOST)], total
        found = [one for (told,) in rows if holds.search(_text(one := _read_mention(told)))]
        return found[:MOST], len(found)


def find(query: Query, datasets: Datasets) -> Fields:
    """Return the victims with these words, or with this domain or one below it.

    Raises:
        SourceError: `skipped`, without the list, or for an address; `error`, if the list cannot be read.
    """
    if query.value not in ("domain", "text"):
        raise SourceError("skipped", "not_its_sort")
    victims = datasets.get(DATASET.name, Victims)
    if victims is None:
        raise SourceError("skipped", "no_data")
    whole = rf"(?<![\w-]){re.escape(query.words)}(?![\w-]|\.\w)"
    try:
        mentions, total = victims.search(
            query.words, re.compile(whole, re.IGNORECASE) if query.value == "domain" else None
        )
    except sqlite3.Error:
        raise SourceError("error", "index_unreadable") from None
    return {"results": mentions, "total": total} if mentions else {}


DATASET = Dataset(
    name="ransomwarelive",
    origins=(
        Lists(
            "Ransomware.live",
            "ransomwarelive",
            {"victims": "https://data.ransomware.live/victims.json"},
            "Ransomware.live terms of use",
        ),
    ),
    build=build,
    optional=True,
    good_enough=timedelta(days=2),
)
SOURCE = LocalSource(
    Spec(
        name="ransomwarelive",
        kind="darkweb",
        fields=frozenset({"results", "total"}),
        licence="Ransomware.live terms of use",
        terms="https://www.ransomware.live/about",
        attribution="Ransomware.live, https://www.ransomware.live",
        evidence=Evidence(
            "https://github.com/JMousqueton/ransomware.live/blob/main/bin/shared_utils.py", date(2026, 11, 22)
        ),
        dataset=DATASET.name,
    ),
    find,
)
