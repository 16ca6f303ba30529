"""The sites of WhatsMyName, and how each shows whether it has an account of a name.

Only harmless entries of that list are used: plain requests over HTTPS, to sites without protection against
automated requests, with one text that proves an account and another that proves its absence. Sites about sex
are left out.
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
from providers.datasets.lists import Lists, read_files

_SCHEME, _ACCOUNT = "https://", "{account}"
_UNWANTED = frozenset({"xx NSFW xx", "dating"})
_FEWEST = 100
_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", re.IGNORECASE)


class _Entries(BaseModel):
    """The part of the list that is read."""

    sites: list[Any]


class _Entry(BaseModel):
    """An entry in the form of the list; see its `wmn-data-schema.json`."""

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
        """Return whether the entry may be used."""
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
        name: the common name.
        category: the purpose of the site.
        asked: the URL that shows whether an account exists, with `{account}` in place of the name.
        profile: the URL of the page for people, with the same placeholder.
        found_status: the status of the answer where the account exists.
        found_text: text in the body of that answer.
        missing_status: the status of the answer where the account does not exist.
        missing_text: text in the body of that answer.
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
        """Return whether the site could have an account of this name."""
        host = self.asked.removeprefix(_SCHEME).partition("/")[0]
        if _ACCOUNT in host and not _LABEL.fullmatch(account):
            return False
        return not set(account) & set(self.impossible)

    def url(self, account: str) -> str:
        """Return the URL that shows whether the account exists."""
        return self.asked.replace(_ACCOUNT, account)

    def page(self, account: str) -> str:
        """Return the URL of the page for people."""
        return self.profile.replace(_ACCOUNT, account)

    def has(self, status: int, text: str) -> bool | None:
        """Return whether the site's answer proves the account or its absence; None if it proves neither."""
        missing = self.missing_text in text
        if status == self.found_status and self.found_text in text and not missing:
            return True
        return False if status == self.missing_status and missing else None


def build(download: Path, folder: Path) -> dict[str, Path]:
    """Build the list of usable sites.

    Raises:
        ValueError: if it is not that list, or too few sites are usable.
    """
    entries = _Entries.model_validate_json(read_files(download)["list"]).sites
    sites = [site for entry in entries if (site := _site(entry))]
    if len(sites) < _FEWEST:
        raise ValueError(f"only {len(sites)} sites")
    path = folder / f"{DATASET.name}.sites.new"
    path.write_bytes(orjson.dumps([asdict(site) for site in sites]))
    return {"sites": path}


def _site(told: Any) -> Site | None:
    """Return an entry as a site; None if it is not usable or invalid."""
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


def open_sites(files: Mapping[str, Path]) -> tuple[Site, ...]:
    """Read the installed list."""
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
