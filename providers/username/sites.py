"""The sites of WhatsMyName, and how each shows whether it has an account of some name.

Of that list only what does no harm is kept: plain requests over HTTPS, to sites that do not defend themselves
against being asked, with a text to know an account by and another to know its absence by. Nothing that has
to do with sex.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import orjson
from pydantic import BaseModel, ValidationError

from providers.datasets.downloads import Dataset
from providers.datasets.lists import Lists, read

_SCHEME, _ACCOUNT = "https://", "{account}"
_UNWANTED = frozenset({"xx NSFW xx", "dating"})
_FEWEST = 100
_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", re.IGNORECASE)


class _Entries(BaseModel):
    """All of the list that matters here."""

    sites: list[Any]


class _Entry(BaseModel):
    """An entry as the list has it; see its `wmn-data-schema.json`."""

    name: str
    cat: str
    uri_check: str
    uri_pretty: str | None = None
    e_code: int
    e_string: str
    m_code: int
    m_string: str
    valid: bool = True
    strip_bad_char: str = ""
    post_body: str | None = None
    headers: dict[str, str] | None = None
    protection: list[str] | None = None

    def harmless(self) -> bool:
        """Whether it is to be kept."""
        return (
            self.valid
            and self.uri_check.startswith(_SCHEME)
            and _ACCOUNT in self.uri_check
            and not (self.post_body or self.headers or self.protection)
            and self.cat not in _UNWANTED
            and bool(self.e_string and self.m_string)
        )


@dataclass(frozen=True)
class Site:
    """One site.

    Attributes:
        name: as people call it.
        category: what people do there.
        asked: the URL that shows whether there is such an account, with `{account}` in the name's place.
        profile: the same of the page for people.
        found_status: of the answer where there is an account.
        found_text: in its body.
        missing_status: of the answer where there is none.
        missing_text: in its body.
        impossible: characters that no name on this site has.
    """

    name: str
    category: str
    asked: str
    profile: str
    found_status: int
    found_text: str
    missing_status: int
    missing_text: str
    impossible: str

    def allows(self, account: str) -> bool:
        """Whether the site could have an account of this name."""
        host = self.asked.removeprefix(_SCHEME).partition("/")[0]
        if _ACCOUNT in host and not _LABEL.fullmatch(account):
            return False
        return not set(account) & set(self.impossible)

    def url(self, account: str) -> str:
        """The URL to ask for."""
        return self.asked.replace(_ACCOUNT, account)

    def page(self, account: str) -> str:
        """The page for people."""
        return self.profile.replace(_ACCOUNT, account)

    def has(self, status: int, text: str) -> bool | None:
        """Whether the site has the account, by its answer; None if the answer does not say."""
        missing = self.missing_text in text
        if status == self.found_status and self.found_text in text and not missing:
            return True
        return False if status == self.missing_status and missing else None


def build(download: Path, folder: Path) -> dict[str, Path]:
    """Keep what is to be kept of the list.

    Raises:
        ValueError: if it is not that list, or nearly nothing of it would be left.
    """
    entries = _Entries.model_validate_json(read(download)["list"]).sites
    sites = [site for entry in entries if (site := _site(entry))]
    if len(sites) < _FEWEST:
        raise ValueError(f"only {len(sites)} sites")
    path = folder / f"{DATASET.name}.sites.new"
    path.write_bytes(orjson.dumps([asdict(site) for site in sites]))
    return {"sites": path}


def _site(told: Any) -> Site | None:
    """An entry as a site; None if it is not to be kept, or not as entries are."""
    try:
        entry = _Entry.model_validate(told)
    except ValidationError:
        return None
    if not entry.harmless():
        return None
    return Site(
        name=entry.name,
        category=entry.cat,
        asked=entry.uri_check,
        profile=entry.uri_pretty or entry.uri_check,
        found_status=entry.e_code,
        found_text=entry.e_string,
        missing_status=entry.m_code,
        missing_text=entry.m_string,
        impossible=entry.strip_bad_char,
    )


def opened(files: Mapping[str, Path]) -> tuple[Site, ...]:
    """The installed list."""
    return tuple(Site(**row) for row in orjson.loads(files["sites"].read_bytes()))


DATASET = Dataset(
    name="whatsmyname",
    origins=(
        Lists(
            "WhatsMyName",
            "whatsmyname",
            {"list": "https://raw.githubusercontent.com/WebBreacher/WhatsMyName/main/wmn-data.json"},
            "CC BY-SA 4.0",
        ),
    ),
    build=build,
    small=True,
    optional=True,
    good_enough=timedelta(days=2),
)
